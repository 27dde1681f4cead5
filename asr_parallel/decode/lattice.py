"""Word lattices of a set in one file, and their best paths for many LM weights and penalties at once.

The cost of a path is ``graph + acoustic / lmwt + wip * words``, that is what Kaldi's ``lattice-scale
--inv-acoustic-scale=LMWT`` and ``lattice-add-penalty --word-ins-penalty=WIP`` minimise.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.decode.arcs import Arcs, compact, sort_states
from asr_parallel.files import atomic
from asr_parallel.lang.pieces import join
from asr_parallel.log import UserError

CELLS = 1 << 22  # states x points of the grid that are searched at once


@dataclass(frozen=True)
class WordLattice:
    """Lattice of one utterance.

    State 0 is the start and the last one is final; ``level`` int32 [S] rises along every arc.  Arcs are in
    the order of ``dst``: ``src``, ``dst``, ``word`` int32 [A] (0: no word), ``graph``, ``acoustic`` float32
    [A] (costs, not scaled).  Without any path there is one state and no arc.
    """

    level: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    word: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray

    @classmethod
    def of(cls, arcs: Arcs) -> WordLattice:
        """Make the small lattice that is equivalent to ``arcs``."""
        arcs = compact(arcs)
        if not len(arcs):
            return cls.empty()
        arcs, level = sort_states(arcs)
        src, dst, word = (a.astype(np.int32) for a in (arcs.src, arcs.dst, arcs.word))
        return cls(level, src, dst, word, arcs.graph.astype(np.float32), arcs.acoustic.astype(np.float32))

    @classmethod
    def empty(cls) -> WordLattice:
        integers, costs = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return cls(np.zeros(1, np.int32), integers, integers, integers, costs, costs)


@dataclass(frozen=True)
class Lattices:
    """The lattices of all utterances of a set, one after another.

    ``flags[i]`` of ``utts[i]`` is ``ok``, ``retried`` (with another beam), ``partial`` (no path reached a
    final state: the best unfinished ones are kept), ``empty`` or ``failed`` (no hypothesis).  Utterance i
    owns states ``state_offsets[i:i + 2]`` and arcs ``arc_offsets[i:i + 2]`` of ``lattice``, whose
    ``src`` and ``dst`` count from its own first state and whose ``word`` points into ``words``.  If these
    are pieces of words, hypotheses are joined.
    """

    utts: list[str]
    flags: list[str]
    words: list[str]
    state_offsets: np.ndarray
    arc_offsets: np.ndarray
    lattice: WordLattice

    @classmethod
    def join(
        cls, utts: Sequence[str], flags: Sequence[str], lattices: Sequence[WordLattice], table: dict[int, str]
    ) -> Lattices:
        """Put ``lattices`` together; ``table`` names their words, of which only those used are kept."""
        arrays = {n: np.concatenate([getattr(x, n) for x in lattices]) for n in ARRAYS}
        used = np.union1d(arrays["word"], [0])
        arrays["word"] = np.searchsorted(used, arrays["word"]).astype(np.int32)
        states, arcs = ([0, *(len(getattr(x, n)) for x in lattices)] for n in ("level", "src"))
        words = ["<eps>", *(table[w] for w in used[1:].tolist())]
        return cls(list(utts), list(flags), words, np.cumsum(states), np.cumsum(arcs), WordLattice(**arrays))

    def save(self, path: Path) -> None:
        """Write an ``npz`` file, atomically."""
        arrays = {n: getattr(self.lattice, n) for n in ARRAYS}
        offsets = {"state_offsets": self.state_offsets, "arc_offsets": self.arc_offsets}
        strings = {n: np.array(getattr(self, n), np.str_) for n in STRINGS}
        with atomic(path) as temporary:
            np.savez_compressed(temporary, **strings, **offsets, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Lattices:
        """Read what ``save`` wrote.  Raises UserError if the file is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as npz:
                utts, flags, words = (npz[n].tolist() for n in STRINGS)
                lattice = WordLattice(**{n: npz[n] for n in ARRAYS})
                lattices = cls(utts, flags, words, npz["state_offsets"], npz["arc_offsets"], lattice)
        except FileNotFoundError:
            raise UserError(f"no lattices at {path}: run `decode` first") from None
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): run `decode` with --force") from None
        if not lattices._fits():
            raise UserError(f"{path} contradicts itself: run `decode` with --force")
        return lattices

    def _fits(self) -> bool:
        arcs, size = self.lattice, len(self.utts)
        return (
            len(self.flags) == size
            and len(self.state_offsets) == len(self.arc_offsets) == size + 1
            and len(arcs.level) == self.state_offsets[-1]
            and {len(getattr(arcs, n)) for n in ARRAYS[1:]} == {int(self.arc_offsets[-1])}
            and int(arcs.word.max(initial=0)) < len(self.words)
        )

    def one(self, row: int) -> WordLattice:
        """The lattice of ``utts[row]``; its words are numbers of ``words``."""
        states, arcs = (slice(*offsets[row : row + 2]) for offsets in (self.state_offsets, self.arc_offsets))
        return WordLattice(self.lattice.level[states], *(getattr(self.lattice, n)[arcs] for n in ARRAYS[1:]))

    def best(self, utt: str, lmwt: float, wip: float) -> list[str]:
        """Words of the best path of ``utt``.  Raises UserError for an unknown utterance."""
        if utt not in self.utts:
            raise UserError(f"utterance {utt} was not decoded")
        i = self.utts.index(utt)
        _, words = self._search(i, i + 1, [(lmwt, wip)])
        return self._names(words[0, 0])

    def best_all(self, lmwt: float, wip: float) -> dict[str, list[str]]:
        """Words of the best path of every utterance; none for those without a hypothesis."""
        return self.best_grid([lmwt], [wip])[lmwt, wip]

    def best_grid(
        self, lmwts: Sequence[float], wips: Sequence[float]
    ) -> dict[tuple[float, float], dict[str, list[str]]]:
        """``best_all`` for every pair of one of ``lmwts`` and one of ``wips``."""
        points = list(itertools.product(lmwts, wips))
        hyps: dict[tuple[float, float], dict[str, list[str]]] = {point: {} for point in points}
        for first, last in self._chunks(len(points)):
            _, words = self._search(first, last, points)
            for utt, rows in zip(self.utts[first:last], words):
                for point, row in zip(points, rows):
                    hyps[point][utt] = self._names(row)
        return hyps

    def costs(self, lmwt: float, wip: float) -> np.ndarray:
        """Cost of the best path of every utterance, float64 [U]; 0 for those without a hypothesis."""
        parts = [self._search(*span, [(lmwt, wip)])[0][:, 0] for span in self._chunks(1)]
        return np.concatenate([np.zeros(0), *parts])

    def _names(self, words: np.ndarray) -> list[str]:
        return join([self.words[w] for w in words[words > 0].tolist()])

    def _chunks(self, points: int) -> Iterator[tuple[int, int]]:
        """Ranges of utterances that are searched together."""
        first, size = 0, max(1, CELLS // points)
        while first < len(self.utts):
            last = int(np.searchsorted(self.state_offsets, self.state_offsets[first] + size, "right")) - 1
            last = max(first + 1, last)
            yield first, last
            first = last

    def _search(self, first: int, last: int, points: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
        """Costs [U, P] and words int32 [U, P, N] (0: none) of the best paths at ``points`` (lmwt, wip) [P].

        Utterances ``first`` to ``last`` are searched together, one level of states after another.
        """
        arcs, offset = self.lattice, self.state_offsets[first : last + 1] - self.state_offsets[first]
        span = slice(*self.arc_offsets[[first, last]])
        shift = np.repeat(offset[:-1], np.diff(self.arc_offsets[first : last + 1]))
        src, dst, word = arcs.src[span] + shift, arcs.dst[span] + shift, arcs.word[span]
        level = arcs.level[self.state_offsets[first] : self.state_offsets[last]]
        lmwt, wip = np.array(points, np.float64).T
        price = (arcs.graph[span].astype(np.float64), arcs.acoustic[span].astype(np.float64))

        alpha = np.zeros((len(level), len(points)))
        back = np.full(alpha.shape, -1, np.int32)
        order = np.argsort(level[dst], kind="stable")  # stable: still by dst within a level
        ends = np.searchsorted(level[dst][order], np.arange(1, int(level.max(initial=0)) + 2))
        for begin, end in itertools.pairwise(ends):
            here = order[begin:end]
            cost = alpha[src[here]] + price[1][here, None] / lmwt
            cost += price[0][here, None] + wip * (word[here, None] > 0)
            heads = np.flatnonzero(np.diff(dst[here], prepend=-1))
            best = np.minimum.reduceat(cost, heads, axis=0)
            is_best = cost == np.repeat(best, np.diff(heads, append=len(here)), axis=0)
            alpha[dst[here[heads]]] = best
            back[dst[here[heads]]] = np.minimum.reduceat(
                np.where(is_best, here[:, None], np.iinfo(np.int32).max), heads, axis=0
            )
        return alpha[offset[1:] - 1], _trace(back, src, word, offset[1:] - 1)


def _trace(back: np.ndarray, src: np.ndarray, word: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Words [U, P, N] on the way from the start to states ``final`` [U]; ``back`` [S, P] is the arc into a state."""
    columns = np.arange(back.shape[1])
    state = np.repeat(final[:, None], len(columns), axis=1)
    words: list[np.ndarray] = []
    while True:
        arc = back[state, columns]
        moved = arc >= 0
        if not moved.any():
            break
        words.append(np.where(moved, word[arc], 0))
        state = np.where(moved, src[arc], state)
    return np.stack(words[::-1], axis=-1) if words else np.zeros((*state.shape, 0), np.int32)


ARRAYS = ("level", "src", "dst", "word", "graph", "acoustic")
STRINGS = ("utts", "flags", "words")
