"""English text to words: the same function for references and for language-model text.

``normalise`` gives upper-case words separated by single blanks: letters and apostrophes only, numbers and
abbreviations written out as they are spoken.  A corpus adds its own habits as ``replacements``.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

import num2words

Replacements = Sequence[tuple[str, str]]  # (regular expression, what to put there), applied in order

ABBREVIATIONS: Replacements = (
    (r"\bMr\.?(?=\s)", "Mister"),
    (r"\bMrs\.?(?=\s)", "Missus"),
    (r"\bDr\.?(?=\s)", "Doctor"),
    (r"\bvs\.?(?=\s)", "versus"),
    (r"(?<=\w)\s*&\s*(?=\w)", " and "),
    (r"\b((?:[A-Za-z]\.){2,})", r" \1 "),  # D.N.A. are letters; see _letters
)

# Hesitations are spelt in many lengths; other letters drawn out ("soooo") are cut to one.
DRAWN_OUT: Replacements = (
    (r"\b(H+)M{2,}\b", "HMM"),
    (r"\bM{3,}\b", "MM"),
    (r"\bUM{2,}\b", "UM"),
    (r"\bER{3,}\b", "ER"),
    (r"([A-HJ-Z])\1{2,}", r"\1"),
    (r"(?<=[A-HJKM-UWYZ])I{3,}", "I"),  # but III and VIII stay
)

# Words that begin with an apostrophe; any other leading apostrophe is a quotation mark.
CLIPPED = frozenset(("'BOUT", "'CAUSE", "'EM", "'N", "'ROUND", "'TIL", "'TIS", "'TWAS"))

_MARKS = str.maketrans({"‘": "'", "’": "'", "ʼ": "'", "`": "'", "´": "'", "–": "-", "—": "-", "…": " ", "æ": "ae"})
_CLOCK = r"(?<![\w:])(\d{1,2}):(\d\d)(?![\w:])"
_NUMBER = r"(?<![\w.,])(\$?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(st|nd|rd|th|'?s|%)?(?![\w])"


def normalise(text: str, replacements: Replacements = ()) -> str:
    """Upper-case words of ``text``, or an empty string if it has none.

    ``replacements`` come first; they see the text as it is written.
    """
    for pattern, by in (*replacements, *ABBREVIATIONS):
        text = re.sub(pattern, by, text)
    text = unicodedata.normalize("NFKD", text.translate(_MARKS))
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = _numbers(text)
    text = re.sub(r"[^A-Z']+", " ", text.upper())
    for pattern, by in DRAWN_OUT:
        text = re.sub(pattern, by, text)
    return " ".join(w for w in map(_strip_quotes, text.split()) if w)


def upper(text: str) -> str:
    """Upper-case words of any language: punctuation goes, but apostrophes and hyphens inside of words stay."""
    text = unicodedata.normalize("NFC", text.translate(_MARKS)).upper()
    kept = (c if c in "'-" or unicodedata.category(c)[0] not in "PS" else " " for c in single_blanks(text))
    return " ".join(w for word in "".join(kept).split() if (w := word.strip("'-")))


def single_blanks(text: str) -> str:
    """The words of ``text`` as they are; white space of any kind is one blank, marks that nobody sees are gone."""
    kept = (c for c in text if unicodedata.category(c) != "Cf")  # byte-order marks, soft hyphens
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in kept).split())


def _strip_quotes(word: str) -> str:
    """Apostrophes stay inside a word (DON'T) and in front of a clipped one ('EM)."""
    bare = word.strip("'")
    return f"'{bare}" if f"'{bare}" in CLIPPED and word.startswith("'") else bare


def _numbers(text: str) -> str:
    text = re.sub(_CLOCK, lambda m: f" {_clock(int(m[1]), int(m[2]))} ", text)
    text = re.sub(_NUMBER, lambda m: f" {_amount(m)} ", text)
    # what is left is glued to letters (X7, 2B): read it by itself
    return re.sub(r"\d+", lambda m: f" {_cardinal(m[0])} ", text)


def _clock(hour: int, minute: int) -> str:
    if minute == 0:
        return f"{_say(hour)} hundred" if hour > 12 else f"{_say(hour)} o'clock"
    return f"{_say(hour)} {'oh ' if minute < 10 else ''}{_say(minute)}"


def _amount(match: re.Match[str]) -> str:
    """One number with what stands around it: $5, 1,000, 3.5, 13th, 1940's, 10 %."""
    dollar, whole, fraction, suffix = match.groups(default="")
    digits = whole.replace(",", "")
    if suffix in ("st", "nd", "rd", "th"):
        return _say(int(digits), to="ordinal")
    said = _cardinal(digits, year="," not in whole and not fraction and not dollar and suffix != "%")
    if fraction:
        said += " point " + " ".join(_say(int(d)) for d in fraction[1:])
    if suffix.endswith("s"):  # the 1940's, but 1984's best film
        decade = said[:-1] + "ies" if said.endswith("y") else said + "s"
        said = decade if suffix == "s" or digits.endswith("0") else said + "'s"
    if suffix == "%":
        said += " percent"
    return said + (" dollar" + "s" * (digits != "1" or bool(fraction)) if dollar else "")


def _cardinal(digits: str, year: bool = False) -> str:
    """A number in words; long strings of digits, and those that begin with 0, digit by digit."""
    if len(digits) > 9 or (digits[0] == "0" and len(digits) > 1):
        return " ".join(_say(int(d)) for d in digits)
    if year and len(digits) == 4 and "1100" <= digits <= "2099" and not "2000" <= digits <= "2009":
        return _say(int(digits), to="year")
    return _say(int(digits))


@functools.cache
def _say(number: int, to: str = "cardinal") -> str:
    return num2words.num2words(number, to=to).replace("-", " ").replace(",", "")
