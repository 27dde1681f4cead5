"""How Mississippi State's transcripts and dictionary of Switchboard write words, and how this project does.

Their marks (ISIP's manual of the 1998 release; Kaldi's recipe makes the same of them):

    [laughter-story]       said laughing                    STORY
    [it'n/isn't]           it'n was said, isn't was meant   IT'N
    {yuppiedom}            coined                           YUPPIEDOM
    th[e]-  -[be]cause     cut words, brackets not heard    TH-  -CAUSE
    them_1                 a variant of pronunciation       THEM
    IBM  TVs               letters, if so pronounced        I B M  T V'S
    [noise] [laughter] [vocalized-noise]                    words of their own, pronounced as SPN
    [silence] <b_aside> <e_aside>                           nothing

Texts and dictionary go the same way, so that a cut word of a text finds its pronunciation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from asr_parallel.lang.g2p import Pronouncer
from asr_parallel.lang.g2p import dictionary as own_dictionary
from asr_parallel.lang.lexicon import SIL, SPN, Pron
from asr_parallel.log import UserError

NOISES = ("[LAUGHTER]", "[NOISE]", "[VOCALIZED-NOISE]")
NOTHING = frozenset(("[SILENCE]", "<B_ASIDE>", "<E_ASIDE>"))

# (what a whole token looks like, what becomes of it), one after another
RULES = tuple(
    (re.compile(pattern, re.IGNORECASE), by)
    for pattern, by in (
        (r"-?\[laughter-(.+)\](-?)", r"\1\2"),
        (r"\[(.+)/.+\](-?)", r"\1\2"),  # the first may itself be cut: [lem[guini]-/linguini]
        (r"([^][]+)\[[^][]+\]-?/.+\]", r"\1-"),  # its bracket forgotten: ex[specially]-/especially]
        (r"\{(.+)\}", r"\1"),
        (r"-?\[[^][]+\](.+)", r"-\1"),
        (r"(.+)\[[^][]+\]-?", r"\1-"),
        (r"(.*\w)\[[^][]+\](\w.*)", r"\1-\2"),  # ammu[n]it-
    )
)
VARIANT = re.compile(r"_\d")  # them_1's


def word(token: str) -> str:
    """The word that a token of a text or of the dictionary stands for, in upper case; empty if for none."""
    if token.upper() in NOISES:
        return token.upper()
    if token.upper() in NOTHING:
        return ""
    for pattern, by in RULES:
        if found := pattern.fullmatch(token):
            token = found.expand(by)
    return VARIANT.sub("", token).upper()


def words(text: str, spelt: Mapping[str, list[str]]) -> list[str]:
    """Words of the text of an utterance; tokens of ``spelt`` are the letters there."""
    return [w for token in text.split() for w in spelt.get(token) or [word(token)] if w]


@dataclass
class Dictionary:
    """Pronunciations of each word in their order, and the letters of tokens such as ``IBM``."""

    prons: dict[str, dict[Pron, None]] = field(default_factory=dict)
    spelt: dict[str, list[str]] = field(default_factory=dict)


def read_dictionary(path: Path) -> Dictionary:
    """``sw-ms98-dict.text``: ``word phone phone ...`` lines, ``#`` comments.  Entries that are silence are left out.

    UserError names the line of a word without phones.
    """
    found = Dictionary()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        token, *phones = line.split()
        if not phones:
            raise UserError(f"{path}:{number}: '{token}' has no phones; want `word phone phone ...`")
        pron, said = tuple(phone.upper() for phone in phones), word(token)
        if letters := spelt_out(token, pron):
            found.spelt[token] = letters
        elif said and said not in NOISES and SIL not in pron:
            found.prons.setdefault(said, {})[pron] = None
    return found


def spelt_out(token: str, pron: Pron) -> list[str]:
    """Letters of an abbreviation that is pronounced as such (IBM, not NASA), the ending with the last; or none."""
    parts = re.fullmatch(r"([A-Z]{2,})('?s)?", token)
    if not parts:
        return []
    sounds = ["|".join(" ".join(p) for p in own_dictionary()[letter]) for letter in parts[1]]
    pattern = " ".join(f"({s})" for s in sounds) + ("( AH)? [SZ]" if parts[2] else "")
    said = " ".join({"AX": "AH", "EL": "AH L", "EM": "AH M", "EN": "AH N"}.get(phone, phone) for phone in pron)
    return [*parts[1][:-1], parts[1][-1] + ("'S" if parts[2] else "")] if re.fullmatch(pattern, said) else []


def is_cut(said: str) -> bool:
    """Whether a word was broken off or begun late: what is left of it can't be spelt into sounds."""
    return said.startswith("-") or said.endswith("-")


def lexicon(dictionary: Dictionary, texts: Iterable[Iterable[str]]) -> tuple[str, dict[str, str]]:
    """Kaldi's ``lexicon.txt`` for the dictionary's words and those of ``texts``; and what was guessed, how.

    Words that the dictionary lacks are pronounced by the project's own dictionaries and its network, whose 39 phones
    are among the 42 of the dictionary; cut words that it lacks stay out: they are ``<unk>``.
    """
    prons = {w: list(p) for w, p in dictionary.prons.items()}
    pronounce, guessed = Pronouncer(set(prons)), dict[str, str]()
    for said in sorted({w for text in texts for w in text} - prons.keys() - set(NOISES)):
        if not is_cut(said) and re.search("[A-Z]", said):
            found, guessed[said] = pronounce(said)
            prons[said] = list(found)
    prons |= {noise: [(SPN,)] for noise in NOISES}
    lines = [f"{w} {' '.join(pron)}\n" for w in sorted(prons) for pron in prons[w]]
    return "".join(lines), guessed
