"""Beam search over a graph, frame by frame, all tokens of a frame at once in numpy arrays.

A token is a state of the graph that is reached in a frame.  Where Kaldi's ``lattice-faster-decoder`` (whose
beams and pruning these are) follows pointers, this makes a few passes over short arrays; on a graph that is
larger than the caches that is several times as fast as kaldi-decoder's ``LatticeSimpleDecoder``, which has
no ``max_active`` either.  The tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.links import Frame, Links, cheapest, prune, to_arcs
from asr_parallel.decode.search_graph import Graph, expand

BEAM_DELTA = 0.5  # what max_active leaves of the beam grows by this in the next frame, as in Kaldi
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
        self.number = np.full(len(graph.finals), -1, np.int32)  # of the token of a state, while a frame is made

    def run(self, loglikes: np.ndarray, acwt: float, beams: Beams) -> Found | None:
        """Lattice of ``loglikes`` float32 [T, pdfs], T > 0, which are scaled by ``acwt`` in the search alone.

        If no path ends in a final state, paths that end anywhere are given.  None if no token survives.
        """
        scores = np.zeros((len(loglikes), loglikes.shape[1] + 1), np.float32)  # by ilabel, that is pdf + 1
        np.multiply(loglikes, -acwt, out=scores[:, 1:])
        start = np.array([self.graph.start], np.int32)
        self.number[start] = 0
        tokens, frame = self._complete(start, np.zeros(1, np.float32), beams.beam, Links.none(), beams.lattice_beam)
        frames = [frame]
        for t in range(len(scores)):
            step = self._step(tokens, scores[t], beams)
            if step is None:
                return None
            tokens, frame = step
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

    def _step(self, tokens: Tokens, scores: np.ndarray, beams: Beams) -> tuple[Tokens, Frame] | None:
        """Tokens of the next frame, whose costs are ``scores`` [1 + pdfs], and the links to them."""
        costs = tokens.cost - tokens.cost.min()
        beam = beams.beam
        if len(costs) > beams.max_active:
            widest = float(np.partition(costs, beams.max_active)[beams.max_active])
            live = (costs <= min(widest, beam)).nonzero()[0]
            beam = min(beam, widest + BEAM_DELTA)
        else:
            live = (costs <= beam).nonzero()[0]
        spans = tokens.spans.take(live, axis=0)
        which, arcs = expand(spans[:, 0], spans[:, 1])
        if not len(arcs):
            return None
        source = live[which]
        rows = self.graph.arcs.take(arcs, axis=0)
        cost = costs[source] + rows[:, 2].view(np.float32) + scores[rows[:, 0]]
        cutoff = float(cost.min()) + beam
        kept = (cost <= cutoff).nonzero()[0]
        cost, states = cost[kept], rows[kept, 3]
        entered = self._number(states, 0)
        target = self.number[states]
        least = np.full(len(entered), np.inf, np.float32)
        np.minimum.at(least, target, cost)
        delta = cost - least[target]
        near = (delta <= beams.lattice_beam).nonzero()[0]
        links = Links(source[kept[near]], target[near], arcs[kept[near]], delta[near], delta[near])
        return self._complete(entered, least, cutoff, links, beams.lattice_beam)

    def _number(self, states: np.ndarray, begin: int) -> np.ndarray:
        """Number the different ones of ``states`` from ``begin`` on; return them in that order."""
        places = np.arange(len(states), dtype=np.int32)
        self.number[states] = places
        different = states[self.number[states] == places]
        self.number[different] = np.arange(begin, begin + len(different), dtype=np.int32)
        return different

    def _complete(
        self, entered: np.ndarray, cost: np.ndarray, cutoff: float, emitting: Links, lattice_beam: float
    ) -> tuple[Tokens, Frame]:
        """Add the tokens that epsilon paths lead to from the ``entered`` states, which are numbered."""
        graph = self.graph
        spans = graph.spans.take(entered, axis=0)
        front = (spans[:, 3]).nonzero()[0]
        which, paths = expand(spans[front, 2], spans[front, 3])
        rows = graph.arcs.take(paths, axis=0)
        source = front[which]
        reached = cost[source] + rows[:, 2].view(np.float32)
        kept = (reached <= cutoff).nonzero()[0]
        source, paths, reached, targets = source[kept], paths[kept], reached[kept], rows[kept, 3]
        new = self._number(targets[self.number[targets] < 0], len(entered))
        states = np.concatenate([entered, new])
        after = np.concatenate([cost, np.full(len(new), np.inf, np.float32)])
        target = self.number[targets]
        np.minimum.at(after, target, reached)
        self.number[states] = -1
        delta = reached - after[target]
        near = (delta <= lattice_beam).nonzero()[0]
        links = Links(source[near], target[near], paths[near], delta[near], delta[near])
        spans = np.concatenate([spans, graph.spans.take(new, axis=0)])
        frame = Frame(len(states), emitting, cost - after[: len(cost)], links)
        return Tokens(states, after, spans), frame
