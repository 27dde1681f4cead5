"""What may be said in an utterance, as arcs that follow each other: words, and NIST's alternates.

``i've { um / uh / @ } seen { it / them }`` allows each way through the braces; ``@`` is the empty word.  Braces may
be nested, and need no blanks around them or around the bars within.  Plain words are the network in which each word has
one word before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from asr_parallel.log import UserError

EMPTY = ""  # the word of an arc that says nothing
_TOKENS = re.compile(r"[{}]|[^\s{}]+")
_BARS = re.compile(r"/|[^/]+")


@dataclass(frozen=True)
class Network:
    """Arcs 1 to A; number 0 stands for the beginning.

    ``words[a]`` is the word of arc a (``EMPTY`` if none, and of the beginning), ``before[a]`` are the arcs that it
    may follow, all of lower numbers, and ``last`` the arcs that may be the last ones.
    """

    words: list[str]
    before: list[tuple[int, ...]]
    last: tuple[int, ...]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """int32: where the arcs before each arc begin [A + 2], and these arcs one after another."""
        begins = np.cumsum([0, *map(len, self.before)], dtype=np.int32)
        return begins, np.array([p for arcs in self.before for p in arcs], dtype=np.int32)

    def letters(self) -> Network:
        """The same with an arc for each character of each word."""
        words: list[str] = [EMPTY]
        before: list[tuple[int, ...]] = [()]
        end = {0: 0}
        for arc in range(1, len(self.words)):
            follows = tuple(end[p] for p in self.before[arc])
            for letter in self.words[arc] or [EMPTY]:
                words.append(letter)
                before.append(follows)
                follows = (len(words) - 1,)
            end[arc] = len(words) - 1
        return Network(words, before, tuple(end[a] for a in self.last))


Words = Sequence[str] | Network  # what was said: plain words, or a choice of them


def linear(words: Sequence[str]) -> Network:
    """Plain words as a network."""
    return Network([EMPTY, *words], [(), *((i,) for i in range(len(words)))], (len(words),))


def letters(words: Words) -> Words:
    """Characters of the words; blanks between words are none."""
    return words.letters() if isinstance(words, Network) else list("".join(words))


def parse(text: str) -> Words:
    """Words of ``text``, plain if it has no alternates.  UserError on a brace without partner."""
    tokens = _TOKENS.findall(text)
    if not {"{", "}", "@"} & set(tokens):
        return tokens
    return _Parser(_split_bars(tokens)).network()


def _split_bars(tokens: Iterable[str]) -> Iterator[str]:
    """Within braces a bar is a token even inside a word, as in ``{A/B}``; elsewhere it is a word or a part of one."""
    depth = 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        yield from _BARS.findall(token) if depth else (token,)


class _Parser:
    def __init__(self, tokens: Iterable[str]):
        self.tokens = iter(tokens)
        self.words: list[str] = [EMPTY]
        self.before: list[tuple[int, ...]] = [()]

    def network(self) -> Network:
        last, end = self._sequence((0,), ())
        if end:
            raise UserError(f"`{end}` without its opening brace")
        return Network(self.words, self.before, last)

    def _arc(self, word: str, follows: tuple[int, ...]) -> tuple[int, ...]:
        self.words.append(word)
        self.before.append(follows)
        return (len(self.words) - 1,)

    def _sequence(self, follows: tuple[int, ...], ends: Sequence[str]) -> tuple[tuple[int, ...], str]:
        """Words up to a token of ``ends`` or a closing brace: the arcs that may be their last, and that token."""
        for token in self.tokens:
            if token in ends or token == "}":
                return follows, token
            if token == "{":
                follows = self._alternates(follows)
            else:
                follows = self._arc(EMPTY if token == "@" else token, follows)
        return follows, ""

    def _alternates(self, follows: tuple[int, ...]) -> tuple[int, ...]:
        lasts: tuple[int, ...] = ()
        end = "/"
        while end == "/":
            last, end = self._sequence(follows, "/")
            lasts += self._arc(EMPTY, follows) if last == follows else last
        if not end:
            raise UserError("`{` without its closing brace")
        return lasts
