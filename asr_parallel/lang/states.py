"""A grammar that is walked word by word, in every way that it allows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.lexicon import BACKOFF, EPS, UNK
from asr_parallel.log import UserError

DIGITS = 6  # to which the costs of two histories must agree for them to be the same state
State = tuple[tuple[int, float], ...]  # states of the grammar and how much more they cost than the best of them


class LmStates:
    """G, deterministic: a history leads to one state.

    In a decoding graph a word may be reached by back-off although its history has an n-gram for it, and Viterbi takes
    what is cheaper.  A state here therefore is all states of G that the history leads to, and their costs.
    """

    def __init__(self, grammar: FstArrays, words: Mapping[str, int]):
        """``grammar`` is G with back-off arcs ``#0``; ``words`` are its labels."""
        order = np.lexsort((grammar.arcs["ilabel"], grammar.sources()))
        arcs = grammar.arcs[order]
        self.labels, self.next, self.cost = arcs["ilabel"], arcs["next"], arcs["weight"].astype(float)
        self.offsets, self.finals = grammar.offsets, grammar.finals
        self.words, self.backoff = words, words[BACKOFF]
        self.known = set(np.unique(arcs["ilabel"]).tolist())
        self.states: list[State] = []
        self.number: dict[State, int] = {}
        self._steps: dict[tuple[int, int], tuple[int, float]] = {}
        self.start, _ = self._state({grammar.start: 0.0})

    def label_of(self, words: Sequence[str], source: object) -> list[int]:
        """Label of each word; unknown ones are ``<unk>``.  Raises UserError naming ``source`` if that is not there."""
        labels = [0 if w == EPS else self.words.get(w, -1) for w in words]
        unknown = self.words.get(UNK, -1)
        lost = [w for w, label in zip(words, labels) if label and label not in self.known]
        if lost and unknown not in self.known:
            raise UserError(
                f"{source} has no {UNK} and lacks {len(lost)} words of the lattices, such as {' '.join(lost[:5])}: "
                "give the language model of their graph, or one with these words"
            )
        return [label if not label or label in self.known else unknown for label in labels]

    def step(self, state: int, word: int) -> tuple[int, float]:
        """The state after a word, and its cost; infinite if the grammar does not have it."""
        if (state, word) not in self._steps:
            found: dict[int, float] = {}
            for one, cost in self.states[state]:
                arc = self._arc(one, word)
                if arc >= 0:
                    target, total = int(self.next[arc]), cost + self.cost[arc]
                    found[target] = min(total, found.get(target, np.inf))
            self._steps[state, word] = self._state(found) if found else (state, np.inf)
        return self._steps[state, word]

    def final(self, state: int) -> float:
        """Cost of ending a sentence."""
        return min(cost + float(self.finals[one]) for one, cost in self.states[state])

    def _arc(self, state: int, label: int) -> int:
        """Index of the arc, -1 if there is none."""
        begin, end = self.offsets[state : state + 2]
        arc = int(begin + np.searchsorted(self.labels[begin:end], label))
        return arc if arc < end and self.labels[arc] == label else -1

    def _state(self, found: dict[int, float]) -> tuple[int, float]:
        """Number of the state with all that back-off leads to, and the cost of its best part."""
        waiting = list(found)
        while waiting:
            one = waiting.pop()
            arc = self._arc(one, self.backoff)
            if arc >= 0:
                target, total = int(self.next[arc]), found[one] + self.cost[arc]
                if total < found.get(target, np.inf):
                    found[target] = total
                    waiting.append(target)
        least = min(found.values())
        state = tuple((one, round(cost - least, DIGITS)) for one, cost in sorted(found.items()))
        number = self.number.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number, least
