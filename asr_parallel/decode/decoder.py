"""One utterance: scores in, word lattice or the reason why there is none out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.search import Beams, Found, Search
from asr_parallel.decode.search_graph import Graph

WIDER = (1.5, 2.5)  # beams to try when no path reached the end of the utterance, as multiples of `beam`


@dataclass(frozen=True)
class Decoded:
    """What became of an utterance; ``flag`` is explained at ``Lattices``, ``reason`` says why it is not ``ok``.

    ``arcs`` is the number of arcs of the lattice when each still is of one frame, ``seconds`` is processor time.
    """

    lattice: WordLattice
    flag: str
    reason: str = ""
    arcs: int = 0
    seconds: float = 0.0


def failed(reason: str) -> Decoded:
    return Decoded(WordLattice.empty(), "failed", reason)


@dataclass(frozen=True)
class Decoder:
    """A graph, a model and beams."""

    graph: Graph
    scorer: Scorer
    acwt: float
    beams: Beams

    def decode(self, feats: np.ndarray) -> Decoded:
        """Decode an utterance of normalised features [T, D]."""
        start = time.process_time()
        decoded = self._decode(feats)
        return Decoded(decoded.lattice, decoded.flag, decoded.reason, decoded.arcs, time.process_time() - start)

    def _decode(self, feats: np.ndarray) -> Decoded:
        if len(feats) == 0:
            return failed("it has no frames")
        if bad := _where_not_finite(feats):
            return failed(f"its features are not finite: compute them again {bad}")
        loglikes = self.scorer.loglikes(feats)
        if bad := _where_not_finite(loglikes):
            return failed(f"the model's scores are not finite: look at its training {bad}")
        return self.search(loglikes)

    def search(self, loglikes: np.ndarray) -> Decoded:
        """Decode ``loglikes`` float32 [T, pdfs]; try wider beams if no path reaches a final state."""
        partial = None
        for i, factor in enumerate((1.0, *WIDER)):
            beam = factor * self.beams.beam
            beams = replace(self.beams, beam=beam, max_active=int(factor * self.beams.max_active))
            try:
                found = self._search.run(loglikes, self.acwt, beams)
            except MemoryError:  # wider beams would need still more
                return partial or failed(f"out of memory at beam {beam:g}: narrow the beam, or use fewer jobs")
            if found is None:
                continue
            decoded = _decoded(found, beam, retried=i > 0)
            if found.ended:
                return decoded
            partial = decoded
        return partial or failed(
            f"no path survives, not even at beam {self.beams.beam * WIDER[-1]:g}: "
            "the beam is too narrow, or the graph is not made for this model"
        )

    @cached_property
    def _search(self) -> Search:
        return Search(self.graph)


def _decoded(found: Found, beam: float, retried: bool) -> Decoded:
    lattice = WordLattice.of(found.arcs)
    if not len(lattice.src):
        return Decoded(lattice, "empty", "the lattice has no path", found.emitting)
    if not found.ended:
        return Decoded(
            lattice, "partial", f"no path reaches a final state of the graph at beam {beam:g}", found.emitting
        )
    return Decoded(lattice, *(("retried", f"beam {beam:g}") if retried else ("ok", "")), found.emitting)


def _where_not_finite(values: np.ndarray) -> str:
    """``(3 of 200 frames, first frame 17)``, or nothing if all is well."""
    if np.isfinite(values.sum(dtype=np.float64)):  # one pass; a sum is finite only if all values are
        return ""
    frames = np.flatnonzero(~np.isfinite(values).all(1))
    return f"({len(frames)} of {len(values)} frames, first frame {frames[0]})" if len(frames) else ""
