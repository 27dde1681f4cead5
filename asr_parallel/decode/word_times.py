"""When words were said: the best path of their frames through the graph of the words.

The words of a decoding graph stand wherever determinisation has put them, often in the middle of the word or after
it, so a lattice does not know.  Kaldi asks the phones of a lattice (``lattice-align-words``); here the hypothesis is
aligned, by the model and transcription graph that training alignments come from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import kaldifst
import numpy as np
from kaldi_decoder import DecodableCtc, FasterDecoder, FasterDecoderOptions

from asr_parallel.align.hmm import HmmModel
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.lang.arrays import FstArrays, read_const

BEAM = 200.0  # of scaled costs: nearly all of the few paths that there are

Span = tuple[int, int]  # first frame of a word and the first one after it


class WordTimer:
    """Finds the frames of words.  ``acwt`` scales log-likelihoods, as in decoding."""

    def __init__(self, lang_dir: Path, hmm: HmmModel, acwt: float):
        self.graphs, self.acwt = TrainingGraphs(lang_dir, hmm), acwt
        self.silent = hmm.tree.pdf_phone == self.graphs.silence

    def spans(self, words: Sequence[str], loglikes: np.ndarray) -> list[Span] | None:
        """Frames of each of ``words`` in an utterance of ``loglikes`` [T, pdfs]; None if they do not fit into it."""
        if not words:
            return []
        graph = FstArrays.from_fst(self.graphs.compile(words))
        arcs = _best_arcs(graph, self.acwt * loglikes)
        if arcs is None:
            return None
        taken = graph.arcs[arcs]
        number, silent = _words_before(graph)[taken["next"]], self.silent[taken["ilabel"] - 1]
        return [_span(number == n, silent) for n in range(1, len(words) + 1)]


def _best_arcs(graph: FstArrays, scores: np.ndarray) -> np.ndarray | None:
    """Indices of the emitting arcs of the best path, one a frame; None if no path takes all frames.

    Every emitting arc gets an input label of its own, so that the path of labels tells the arcs.
    """
    emitting = np.flatnonzero(graph.arcs["ilabel"])
    arcs = graph.arcs.copy()
    arcs["ilabel"][emitting] = 1 + np.arange(len(emitting))
    with tempfile.TemporaryDirectory() as folder:
        replace(graph, arcs=arcs).write(Path(folder) / "a.fst")
        fst = read_const(Path(folder) / "a.fst")
    decoder = FasterDecoder(fst, FasterDecoderOptions(beam=BEAM))
    decoder.decode(DecodableCtc(np.ascontiguousarray(scores[:, graph.arcs["ilabel"][emitting] - 1], np.float32)))
    if not decoder.reached_final():
        return None
    labels = kaldifst.get_linear_symbol_sequence(decoder.get_best_path()[1])[1]
    return emitting[np.array(labels) - 1]


def _words_before(graph: FstArrays) -> np.ndarray:
    """Words on the way from the start to each state, int64 [S]; all ways have as many, since a word is one arc."""
    count = np.full(len(graph.finals), -1)
    count[graph.start], waiting = 0, [graph.start]
    while waiting:
        state = waiting.pop()
        for arc in graph.arcs[graph.offsets[state] : graph.offsets[state + 1]]:
            if count[arc["next"]] < 0:
                count[arc["next"]] = count[state] + (arc["olabel"] > 0)
                waiting.append(int(arc["next"]))
    return count


def _span(frames: np.ndarray, silent: np.ndarray) -> Span:
    """Of the frames up to the next word, those without the silence after; all of them if the word is silence."""
    said = np.flatnonzero(frames & ~silent)
    said = said if len(said) else np.flatnonzero(frames)
    return int(said[0]), int(said[-1]) + 1
