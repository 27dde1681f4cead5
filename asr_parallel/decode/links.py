"""The trace that a search leaves: links between tokens, pruned backward from the end.

The ``delta`` of a link is how much worse the best path that ends with it is than the best path to the same
token.  How much worse the best path through a link is than the best of all, its ``extra`` cost, is its delta
and the least sum of deltas on the way from there to the end (Povey et al., "Generating exact lattices in the
WFST framework", ICASSP 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from asr_parallel.decode import passing
from asr_parallel.decode.arcs import Arcs


@dataclass(frozen=True)
class Links:
    """Rows of the graph that tokens took.

    ``source`` and ``target`` int32 [L] are numbers of tokens in their frames, ``arc`` int32 [L] are rows of the graph,
    ``delta`` and ``extra`` are float32 [L]; before the first pruning no more is known of extra than delta.
    """

    source: np.ndarray
    target: np.ndarray
    arc: np.ndarray
    delta: np.ndarray
    extra: np.ndarray

    @classmethod
    def none(cls) -> Links:
        nothing, zero = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return cls(nothing, nothing, nothing, zero, zero)

    @classmethod
    def found(cls, source: np.ndarray, target: np.ndarray, arc: np.ndarray, delta: np.ndarray) -> Links:
        """Links that are not pruned yet."""
        return cls(source, target, arc, delta, delta)

    def without_extra(self) -> tuple[np.ndarray, ...]:
        return self.source, self.target, self.arc, self.delta

    def within(self, limit: float) -> Links:
        """Those whose extra cost is at most ``limit``."""
        kept = self.extra <= limit
        return Links(*(getattr(self, name)[kept] for name in FIELDS))


@dataclass
class Frame:
    """A frame has tokens that emitting arcs have just entered, and tokens from which the next arcs go on.

    Both are numbered alike, so that entered token i becomes token i; epsilon paths add others, ``tokens`` in
    all.  ``emitting`` links lead from tokens of the frame before to entered ones, ``epsilon`` links from
    entered ones to tokens.  ``stay`` float32 [entered] is the delta of the way from i to i.
    """

    tokens: int
    emitting: Links
    stay: np.ndarray
    epsilon: Links
    stay_extra: np.ndarray = field(init=False)  # as of links

    def __post_init__(self) -> None:
        self.stay_extra = self.stay


def prune(frames: Sequence[Frame], first: int, extra: np.ndarray, lattice_beam: float) -> None:
    """Drop links of frames ``first`` and later whose best path is more than ``lattice_beam`` worse than the best.

    ``extra`` [tokens of the last frame] is how much worse than the best a path is that ends in each token.
    """
    for t in range(len(frames) - 1, first - 1, -1):
        frame, before = frames[t], frames[t - 1].tokens if t else 0
        found = passing.prune(
            *frame.emitting.without_extra(), *frame.epsilon.without_extra(), frame.stay, extra, before, lattice_beam
        )
        frame.emitting, frame.epsilon = Links(*found[:5]), Links(*found[5:10])
        frame.stay_extra, extra = found[10:]


def cheapest(frames: Sequence[Frame], number: int, lattice_beam: float) -> float:
    """Keep about ``number`` emitting links, those with the best paths; return the lattice beam that leaves them."""
    extra = np.concatenate([f.emitting.extra for f in frames])
    if len(extra) <= number:
        return lattice_beam
    limit = float(np.partition(extra, number)[number])
    for frame in frames:
        frame.emitting, frame.epsilon = frame.emitting.within(limit), frame.epsilon.within(limit)
    return limit


def to_arcs(
    frames: Sequence[Frame], graph_arcs: np.ndarray, loglikes: np.ndarray, end: np.ndarray, lattice_beam: float
) -> Arcs:
    """The lattice that the pruned links of ``frames`` make.

    ``graph_arcs`` are those of ``Graph`` (words below 0 are phrases), ``loglikes`` [T, pdfs] is not scaled,
    ``end`` [tokens of the last frame] is the final cost of each.
    """
    sizes = np.array([[len(f.stay), f.tokens] for f in frames])
    bases = np.cumsum([0, *sizes.ravel()])
    entered, tokens, final_state = bases[:-1:2], bases[1::2], int(bases[-1])
    emitting, emitting_at = _join([f.emitting for f in frames])
    epsilon, epsilon_at = _join([f.epsilon for f in frames])
    stays = [np.flatnonzero(f.stay_extra <= lattice_beam) for f in frames]
    stay, stay_at = np.concatenate(stays), np.repeat(np.arange(len(frames)), [len(s) for s in stays])
    final = np.flatnonzero(np.isfinite(end))
    # a token that no epsilon leads to is the entered one
    same = np.arange(final_state)
    same[tokens[stay_at] + stay] = entered[stay_at] + stay
    same[tokens[epsilon_at] + epsilon.target] = tokens[epsilon_at] + epsilon.target
    differs = (same[tokens[stay_at] + stay] != entered[stay_at] + stay).nonzero()[0]
    stay, stay_at = stay[differs], stay_at[differs]
    src = (
        same[tokens[emitting_at - 1] + emitting.source],
        entered[epsilon_at] + epsilon.source,
        entered[stay_at] + stay,
        same[tokens[-1] + final],
    )
    dst = (
        entered[emitting_at] + emitting.target,
        tokens[epsilon_at] + epsilon.target,
        tokens[stay_at] + stay,
        np.full(len(final), final_state),
    )
    rows = graph_arcs[np.concatenate([emitting.arc, epsilon.arc])]
    others = len(stay) + len(final)
    acoustic = -loglikes[emitting_at - 1, rows[: len(emitting_at), 0] - 1].astype(np.float64)
    return Arcs(
        start=0,
        final=final_state,
        src=np.concatenate(src),
        dst=np.concatenate(dst),
        word=np.concatenate([rows[:, 1].astype(np.int64), np.zeros(others, np.int64)]),
        graph=np.concatenate([rows[:, 2].view(np.float32), np.zeros(len(stay)), end[final]]).astype(np.float64),
        acoustic=np.concatenate([acoustic, np.zeros(len(epsilon_at) + others)]),
    ).renumbered()


def _join(links: Sequence[Links]) -> tuple[Links, np.ndarray]:
    """All links, and the frame of each."""
    joined = Links(*(np.concatenate([getattr(x, name) for x in links]) for name in FIELDS))
    return joined, np.repeat(np.arange(len(links)), [len(x.arc) for x in links])


FIELDS = [f.name for f in fields(Links)]
