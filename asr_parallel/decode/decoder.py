"""One utterance: scores in, word lattice or the reason why there is none out."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.reach import Reach, reach
from asr_parallel.decode.search import Beams, Found, Search
from asr_parallel.decode.search_graph import Graph

WIDER = (1.5, 2.5)  # beams to try when no path reached the end of the utterance, as multiples of `beam`
NARROWER = (0.7, 0.5, 0.35)  # beams to try when memory did not suffice


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
        """Decode ``loglikes`` float32 [T, pdfs]; try wider beams if no path reaches a final state, narrower ones if
        memory does not suffice."""
        try:
            found = self._try(loglikes, 1.0)
        except MemoryError:
            return self._narrower(loglikes)
        if found and found.ended:
            return _decoded(found, self.beams.beam)
        return self._wider(loglikes, found)

    def _try(self, loglikes: np.ndarray, factor: float) -> Found | None:
        beams = replace(self.beams, beam=factor * self.beams.beam, max_active=int(factor * self.beams.max_active))
        return self._search.run(loglikes, self.acwt, beams)

    def _narrower(self, loglikes: np.ndarray) -> Decoded:
        """After the search ran out of memory."""
        for factor in NARROWER:
            beam = factor * self.beams.beam
            with contextlib.suppress(MemoryError):
                if found := self._try(loglikes, factor):
                    return _decoded(found, beam, f"beam {beam:g}: out of memory at {self.beams.beam:g}")
                return failed(f"out of memory: use fewer jobs (and no path survives at beam {beam:g})")
        return failed(f"out of memory: use fewer jobs (even at beam {NARROWER[-1] * self.beams.beam:g})")

    def _wider(self, loglikes: np.ndarray, found: Found | None) -> Decoded:
        """After the search found nothing, or only paths that do not end."""
        partial, beam = found, self.beams.beam
        for factor in WIDER:
            try:
                found = self._try(loglikes, factor)
            except MemoryError:  # wider beams would need still more
                break
            beam = factor * self.beams.beam
            if found and found.ended:
                return _decoded(found, beam, f"beam {beam:g}")
            partial = found or partial
        why = _why_lost(reach(self.graph, len(loglikes)), len(loglikes), beam)
        return _decoded(partial, beam, why) if partial else failed(f"no path survives: {why}")

    @cached_property
    def _search(self) -> Search:
        return Search(self.graph)


def _decoded(found: Found, beam: float, reason: str = "") -> Decoded:
    """``reason`` says what is not as it should be; without any the utterance is ``ok``."""
    lattice = WordLattice.of(found.arcs)
    if not len(lattice.src):
        return Decoded(lattice, "empty", f"the lattice has no path at beam {beam:g}", found.emitting)
    if not found.ended:
        reason = f"no path reaches a final state of the graph: {reason}"
        return Decoded(lattice, "partial", reason, found.emitting)
    return Decoded(lattice, "retried" if reason else "ok", reason, found.emitting)


def _why_lost(possible: Reach, frames: int, beam: float) -> str:
    """Why no path of so many ``frames`` was found at ``beam``: there is none in the graph, or the beam lost it."""
    if possible.frames == frames and possible.ends:
        return f"the beam is too narrow (the graph has such paths, but beam {beam:g} loses them: give a wider --beam)"
    path = "path of that length that ends" if possible.frames == frames else f"path of more than {possible.frames}"
    return f"the graph is not made for this model or utterance (of {frames} frames, and it has no {path})"


def _where_not_finite(values: np.ndarray) -> str:
    """``(3 of 200 frames, first frame 17)``, or nothing if all is well."""
    if np.isfinite(values.sum(dtype=np.float64)):  # one pass; a sum is finite only if all values are
        return ""
    frames = np.flatnonzero(~np.isfinite(values).all(1))
    return f"({len(frames)} of {len(values)} frames, first frame {frames[0]})" if len(frames) else ""
