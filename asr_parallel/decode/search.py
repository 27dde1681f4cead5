"""Beam search over a graph: the tokens of one frame after another, and the lattice that they leave.

A token is a state of the graph that is reached in a frame.  Beams and pruning are those of Kaldi's
``lattice-faster-decoder``; the inner loops are in ``passing.py``.  kaldi-decoder's ``LatticeSimpleDecoder``,
with which the tests compare this, has no ``max_active`` and is many times slower on a large graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.links import Frame, Links, cheapest, prune, to_arcs
from asr_parallel.decode.passing import NONE, close, emit
from asr_parallel.decode.search_graph import Graph

PRUNE_INTERVAL = 50  # frames between prunings of the lattice


@dataclass(frozen=True)
class Beams:
    """``beam`` and ``max_active`` limit the tokens of a frame, ``lattice_beam`` the paths of a lattice.

    A lattice of more than ``max_density`` arcs a frame gets a narrower lattice beam.
    """

    beam: float
    lattice_beam: float
    max_active: int
    max_density: int = 20


@dataclass(frozen=True)
class Tokens:
    """Tokens of a frame: ``state`` int32 [N], ``cost`` float32 [N], ``spans`` int32 [N, 4] of the states."""

    state: np.ndarray
    cost: np.ndarray
    spans: np.ndarray


@dataclass(frozen=True)
class Found:
    """The lattice of an utterance, whether its paths end in final states, and its number of ``emitting`` arcs."""

    arcs: Arcs
    ended: bool
    emitting: int


class Search:
    """Searches utterances, one after another.  Costs are relative to the best token of the frame before."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.weights = graph.arcs.view(np.float32)
        self.number = np.full(len(graph.finals), NONE, np.int32)  # of the token of a state, while a frame is made

    def run(self, loglikes: np.ndarray, acwt: float, beams: Beams) -> Found | None:
        """Lattice of ``loglikes`` float32 [T, pdfs], T > 0, which are scaled by ``acwt`` in the search alone.

        If no path ends in a final state, paths that end anywhere are given.  None if no token survives.
        """
        try:
            return self._run(loglikes, acwt, beams)
        except MemoryError:
            self.number.fill(NONE)  # a frame was left half made
            raise

    def _run(self, loglikes: np.ndarray, acwt: float, beams: Beams) -> Found | None:
        scores = np.zeros((len(loglikes), loglikes.shape[1] + 1), np.float32)  # by ilabel, that is pdf + 1
        np.multiply(loglikes, -acwt, out=scores[:, 1:])
        start = np.array([self.graph.start], np.int32)
        self.number[start] = 0
        tokens, frame = self._complete(start, np.zeros(1, np.float32), beams.beam, Links.none(), beams.lattice_beam)
        frames = [frame]
        for t in range(len(scores)):
            tokens, frame = self._step(tokens, scores[t], beams)
            if not len(tokens.state):
                return None
            frames.append(frame)
            if t % PRUNE_INTERVAL == PRUNE_INTERVAL - 1:
                any_may_win = np.zeros(len(tokens.state), np.float32)
                prune(frames, max(1, t - PRUNE_INTERVAL), any_may_win, beams.lattice_beam)
        end = self.graph.finals[tokens.state]
        ended = bool(np.isfinite(end).any())
        if not ended:
            end = np.zeros_like(end)
        total = tokens.cost + end
        prune(frames, 0, total - total.min(), beams.lattice_beam)
        limit = cheapest(frames, beams.max_density * len(scores), beams.lattice_beam)
        arcs = to_arcs(frames, self.graph.arcs, loglikes, end, limit).with_phrases(self.graph.phrases)
        return Found(arcs, ended, sum(len(f.emitting.arc) for f in frames))

    def _step(self, tokens: Tokens, scores: np.ndarray, beams: Beams) -> tuple[Tokens, Frame]:
        """Tokens of the next frame, whose costs are ``scores`` [1 + pdfs], and the links to them."""
        entered, cost, cutoff, *link = emit(
            tokens.cost, tokens.spans, scores, self.graph.arcs, self.weights, self.number,
            beams.beam, beams.lattice_beam, beams.max_active,
        )  # fmt: skip
        return self._complete(entered, cost, cutoff, Links.found(*link), beams.lattice_beam)

    def _complete(
        self, entered: np.ndarray, cost: np.ndarray, cutoff: float, emitting: Links, lattice_beam: float
    ) -> tuple[Tokens, Frame]:
        """Add the tokens that epsilon paths lead to from the ``entered`` states, which are numbered."""
        graph = self.graph
        states, least, spans, *link = close(
            entered, cost, graph.spans, graph.arcs, self.weights, self.number, cutoff, lattice_beam
        )
        frame = Frame(len(states), emitting, cost - least[: len(cost)], Links.found(*link))
        return Tokens(states, least, spans), frame
