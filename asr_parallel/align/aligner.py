"""Forced alignment: the best path of each utterance through the graph of its words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import kaldifst
import numpy as np
from kaldi_decoder import DecodableCtc, FasterDecoder, FasterDecoderOptions

from asr_parallel.align.corpus import Corpus
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.lexicon import UNK
from asr_parallel.pool import parallel_map

ACOUSTIC_SCALE = 0.1  # of log-likelihoods while aligning, as in Kaldi; beams are relative to it
GRAPH_CACHE = 1 << 30  # bytes of graphs that are kept between passes
CHUNK = 16  # utterances that a process takes at once


class Scores(Protocol):
    """A model as far as the aligner needs it: a ``DiagGmm``, or what ``realign`` makes of any other."""

    def prepare(self) -> None:
        """Do what is done once, before processes fork."""

    def log_likelihoods(self, feats: np.ndarray, pdfs: np.ndarray) -> np.ndarray:
        """Log-likelihoods of frames [T, D] under ``pdfs`` [P], up to a constant of each frame: float32 [T, P]."""


@dataclass(frozen=True)
class Found:
    """What the aligner found for one utterance; ``pdfs`` is None if no path survived."""

    pdfs: np.ndarray | None = None  # int32 [T]
    acoustic: float = 0.0  # log-likelihood of the frames
    score: float = 0.0  # what the best path maximises: scaled log-likelihood minus graph cost
    retried: bool = False
    graph: FstArrays | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Alignment:
    """Frame labels of some utterances of a corpus."""

    rows: np.ndarray  # utterances that were tried
    pdfs: np.ndarray  # int32 [frames of the corpus], -1 where there is no label
    acoustic: float  # log-likelihood of all labelled frames
    score: float  # sum of the scores of all paths
    retried: list[int]  # rows aligned at the wider beam only
    failed: list[int]  # rows without alignment

    @property
    def frames(self) -> int:
        return int((self.pdfs >= 0).sum())


class Aligner:
    """Aligns with the graphs of one HMM.  Graphs are compiled once and kept, since only the model changes.

    ``beam`` and ``retry_beam`` are costs at the scale of ``ACOUSTIC_SCALE``.
    """

    def __init__(self, graphs: TrainingGraphs, beam: float, retry_beam: float, jobs: int = 1):
        self.graphs, self.beams, self.jobs = graphs, (beam, retry_beam), jobs
        self._cache: dict[tuple[str, int], FstArrays] = {}
        self._cached_bytes = 0

    def align(self, model: Scores, corpus: Corpus, rows: Sequence[int] | np.ndarray, what: str = "") -> Alignment:
        """Align the utterances ``rows`` of ``corpus``.  The result does not depend on the number of jobs."""
        todo = [int(r) for r in rows]
        pdfs = np.full(len(corpus.feats), -1, np.int32)
        acoustic = score = 0.0
        retried, failed = [], []
        for row, found in zip(todo, self._paths(model, corpus, todo, what)):
            if found.pdfs is None:
                failed.append(row)
                continue
            pdfs[corpus.offsets[row] : corpus.offsets[row + 1]] = found.pdfs
            acoustic += found.acoustic
            score += found.score
            if found.retried:
                retried.append(row)
        return Alignment(np.asarray(todo), pdfs, acoustic, score, retried, failed)

    def _paths(self, model: Scores, corpus: Corpus, rows: list[int], what: str) -> Iterator[Found]:
        model.prepare()
        with tempfile.TemporaryDirectory() as folder:

            def one(row: int) -> Found:
                file = Path(folder) / f"{os.getpid()}.fst"  # FSTs are read from files only: one a process will do
                cached = self._cache.get((corpus.name, row))
                graph = cached or _compile(self.graphs, corpus.words[row], file)
                found = best_path(graph, model, corpus.of_utt(row), self.beams, file)
                return found if cached else replace(found, graph=graph)

            for row, found in zip(rows, parallel_map(one, rows, self.jobs, what, chunk=CHUNK)):
                self._keep((corpus.name, row), found.graph)
                yield found

    def _keep(self, key: tuple[str, int], graph: FstArrays | None) -> None:
        if graph is not None and self._cached_bytes < GRAPH_CACHE:
            self._cache[key] = graph
            self._cached_bytes += graph.arcs.nbytes + graph.offsets.nbytes + graph.finals.nbytes


def _compile(graphs: TrainingGraphs, words: Sequence[str], file: Path) -> FstArrays:
    """The graph of ``words`` as arrays; FSTs cannot be sent to another process."""
    kaldifst.StdConstFst(graphs.compile(words)).write(str(file))
    return FstArrays.read(file)


def best_path(graph: FstArrays, model: Scores, feats: np.ndarray, beams: Sequence[float], file: Path) -> Found:
    """Viterbi of ``feats`` [T, D] through ``graph``, at the first of ``beams`` where a final state is reached.

    Only the pdfs of the graph are scored: its labels are renumbered to the columns of a small matrix.
    ``file`` is overwritten.
    """
    if not len(feats):
        return Found()
    labels, local = np.unique(graph.arcs["ilabel"], return_inverse=True)
    pdfs = labels[labels > 0] - 1
    arcs = graph.arcs.copy()
    arcs["ilabel"] = local + (labels[0] > 0)
    replace(graph, arcs=arcs).write(file)
    fst = kaldifst.StdConstFst.read(str(file))
    log_likes = model.log_likelihoods(feats, pdfs)
    scaled = ACOUSTIC_SCALE * log_likes
    for i, beam in enumerate(beams):
        decoder = FasterDecoder(fst, FasterDecoderOptions(beam=beam))
        decoder.decode(DecodableCtc(scaled))
        if not decoder.reached_final():
            continue
        _, lattice = decoder.get_best_path()
        _, ilabels, _, weight = kaldifst.get_linear_symbol_sequence(lattice)
        columns = np.array(ilabels) - 1
        acoustic = float(log_likes[np.arange(len(feats)), columns].sum(dtype=np.float64))
        return Found(pdfs[columns].astype(np.int32), acoustic, -(weight.value1 + weight.value2), i > 0)
    return Found()


def why_unaligned(graphs: TrainingGraphs, words: Sequence[str], frames: int) -> str:
    """A guess why an utterance of ``words`` and ``frames`` has no alignment."""
    unknown = [w for w in words if w not in graphs.prons]
    prons = [graphs.prons[w if w in graphs.prons else UNK] for w in words]
    least = sum(min(sum(_least_frames(graphs, p) for p in pron) for pron in variants) for variants in prons)
    if frames < least:
        return f"too few frames: its words need {least} or more (a cut recording, or a transcript that is too long)"
    if unknown:
        return f"words that are not in the lexicon: {' '.join(unknown)}"
    if frames > 6 * least + 500:
        return "far more audio than words: part of the transcript is missing, or long noise"
    return "the transcript does not fit the audio, or noise"


def _least_frames(graphs: TrainingGraphs, phone: int) -> int:
    """Fewest frames on a way through the states of a phone."""
    states = graphs.hmm.topology.states[phone]
    cost = [1.0] + [np.inf] * len(states)
    for _ in states:
        for i, transitions in enumerate(states):
            for to, _p in transitions:
                cost[to] = min(cost[to], cost[i] + (to < len(states) and to != i))
    return int(cost[-1])
