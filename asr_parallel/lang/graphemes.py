"""Words spelt with letters in place of phones, for languages without a dictionary."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from asr_parallel.lang.dictionary import SPECIAL
from asr_parallel.lang.lexicon import SPN, Lexicon, Pron

SOUNDS = ("L", "M", "N")  # Unicode's general categories: letters, marks (such as vowel signs) and digits


def graphemes(word: str) -> list[str]:
    """Letters, marks and digits of a word, composed (NFC) and in lower case; all else is silent.

    A mark that no single character holds together with its letter, as the vowel signs of Indian scripts, is a grapheme
    of its own.
    """
    lower = unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).lower())
    return [char for char in lower if unicodedata.category(char)[0] in SOUNDS]


def spell(word: str, positions: bool = False) -> Pron:
    """Graphemes of a word, or SPN if it has none.

    With ``positions`` they tell where they stand, as phones may in Kaldi: ``a_B`` at the beginning of a word, ``_I``
    inside, ``_E`` at the end, ``_S`` alone.
    """
    letters = graphemes(word)
    if not letters:
        return (SPN,)
    if not positions:
        return tuple(letters)
    marks = ["S"] if len(letters) == 1 else ["B", *"I" * (len(letters) - 2), "E"]
    return tuple(f"{letter}_{mark}" for letter, mark in zip(letters, marks))


def spelt(words: Iterable[str], positions: bool = False) -> Lexicon:
    """The lexicon in which every word is pronounced as it is spelt."""
    prons = {word: (spell(word, positions),) for word in words}
    return Lexicon(dict(sorted((prons | SPECIAL).items())))
