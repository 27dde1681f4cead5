"""From frame labels to phones in context, and the start of it all: labels without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asr_parallel.align.cluster import unique_rows
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.hmm import EPS_PHONE, HmmModel
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.lang.lexicon import UNK


def contexts(hmm: HmmModel, pdfs: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(left, phone, right, state) of each frame: int32 [N, 4].

    ``pdfs`` [N] are labels of utterances that end at ``offsets[1:]``, by a tree of any width.
    """
    starts = hmm.phone_starts(pdfs)
    edges = offsets[:-1][np.diff(offsets) > 0]
    starts[edges] = True
    segment = np.cumsum(starts) - 1
    phone = hmm.tree.pdf_phone[pdfs[starts]]
    left, right = np.roll(phone, 1), np.roll(phone, -1)
    first = segment[edges]
    left[first] = EPS_PHONE
    right[first - 1] = EPS_PHONE  # of the last segment of the utterance before; first[0] - 1 is the very last
    return np.stack([left[segment], phone[segment], right[segment], hmm.tree.pdf_state[pdfs]], axis=1)


def relabel(hmm: HmmModel, context: np.ndarray) -> np.ndarray:
    """The pdf of each (left, phone, right, state) by the tree of ``hmm``: int32 [N]."""
    distinct, row = unique_rows(context)
    return np.array([hmm.tree.pdf(*c) for c in distinct.tolist()], np.int32)[row]


def equal_alignment(graphs: TrainingGraphs, words: Sequence[str], frames: int) -> np.ndarray:
    """Labels that give each HMM state as many frames: int32 [T]; all -1 if there are fewer frames than states.

    Words have their first pronunciation; silence is at both ends.
    """
    prons = [graphs.prons[w if w in graphs.prons else UNK][0] for w in words]
    phones = [graphs.silence, *(p for pron in prons for p in pron), graphs.silence]
    padded = [EPS_PHONE, *phones, EPS_PHONE]
    states = np.array([pdf for lpr in zip(padded, phones, padded[2:]) for pdf in graphs.pdfs(*lpr)], np.int32)
    if frames < len(states):
        return np.full(frames, -1, np.int32)
    return states[np.arange(frames) * len(states) // frames]


def flat_start(graphs: TrainingGraphs, corpus: Corpus, rows: np.ndarray) -> np.ndarray:
    """``equal_alignment`` of the utterances ``rows``: int32 [frames of the corpus], -1 elsewhere."""
    pdfs = np.full(len(corpus.feats), -1, np.int32)
    for row in rows.tolist():
        a, b = corpus.offsets[row : row + 2]
        pdfs[a:b] = equal_alignment(graphs, corpus.words[row], int(b - a))
    return pdfs


def labelled(pdfs: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out frames whose label is -1: the remaining labels, and the offsets of the utterances among them."""
    keep = pdfs >= 0
    return pdfs[keep], np.concatenate([[0], np.cumsum(keep)])[offsets]
