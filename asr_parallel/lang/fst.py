"""The lexicon and the language model as transducers: L, L_disambig, G."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import kaldifst
import numpy as np
from kaldifst import StdArc, StdVectorFst

from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.lang.lexicon import BACKOFF, BOS, EOS, SIL, Pron
from asr_parallel.lang.ngram import Ngram
from asr_parallel.log import UserError

SIL_PROB = 0.5  # of silence at the start and after each word


def lexicon_fst(
    pairs: Iterable[tuple[str, Sequence[str]]],
    phones: Mapping[str, int],
    words: Mapping[str, int],
    silence_disambig: str | None = None,
) -> StdVectorFst:
    """L with optional silence at the start and after each word (the topology of Kaldi's ``make_lexicon_fst.pl``).

    Args:
        pairs: (word, pronunciation), the latter with disambiguation symbols for ``L_disambig``.
        silence_disambig: symbol after silence, for ``L_disambig``; then a loop ``#0:#0`` is added too,
            which lets G's back-off pass.

    Returns:
        Input labels phones, output labels words, sorted by output label.
    """
    fst = StdVectorFst()
    start, loop, silence = (fst.add_state() for _ in range(3))
    fst.start = start
    fst.set_final(loop, 0.0)
    no_sil, sil = -math.log(1 - SIL_PROB), -math.log(SIL_PROB)
    fst.add_arc(start, StdArc(0, 0, no_sil, loop))
    fst.add_arc(start, StdArc(0, 0, sil, silence))
    if silence_disambig is None:
        fst.add_arc(silence, StdArc(phones[SIL], 0, 0.0, loop))
    else:
        marked = fst.add_state()
        fst.add_arc(silence, StdArc(phones[SIL], 0, 0.0, marked))
        fst.add_arc(marked, StdArc(phones[silence_disambig], 0, 0.0, loop))
        fst.add_arc(loop, StdArc(phones[BACKOFF], words[BACKOFF], 0.0, loop))
    for word, pron in pairs:
        _add_word(fst, [phones[p] for p in pron], words[word], loop, (no_sil, loop), (sil, silence))
    kaldifst.arcsort(fst, "olabel")
    return fst


def _add_word(fst: StdVectorFst, pron: list[int], word: int, start: int, *ends: tuple[float, int]) -> None:
    state, label = start, word
    for phone in pron[:-1]:
        following = fst.add_state()
        fst.add_arc(state, StdArc(phone, label, 0.0, following))
        state, label = following, 0
    for cost, end in ends:
        fst.add_arc(state, StdArc(pron[-1], label, cost, end))


def pairs_of(prons: Mapping[str, Sequence[Pron]]) -> list[tuple[str, Pron]]:
    return [(word, pron) for word, variants in prons.items() for pron in variants]


def grammar_fst(model: Ngram, words: Mapping[str, int]) -> FstArrays:
    """G: an acceptor of sentences, a state for each history that has n-grams of its own.

    Back-off arcs are ``#0:<eps>``; ``<s>`` is the start state and ``</s>`` a final weight (Kaldi's ``arpa2fst``
    with a disambiguation symbol).
    """
    missing = [word for word in model.words if word not in words]
    if missing:
        raise UserError(f"words.txt lacks {len(missing)} words of the language model: {' '.join(missing[:10])}")
    bos, eos = model.words.index(BOS), model.words.index(EOS)
    label = np.array([words[word] for word in model.words], np.int32)
    first_state: list[np.ndarray] = []
    size = 1  # state 0 is the empty history; first_state[k][row] is that of an n-gram, or -1
    for k in range(model.order - 1):
        used = np.unique(model.find(model.grams[k + 1][:, :-1]))
        state = np.full(len(model.grams[k]), -1)
        state[used] = size + np.arange(len(used))
        first_state.append(state)
        size += len(used)

    def state_of(history: np.ndarray) -> np.ndarray:
        """State of each row's longest suffix that has one."""
        result: np.ndarray = np.zeros(len(history), np.int64)
        for length in range(1, min(history.shape[1], model.order - 1) + 1):
            rows = model.find(history[:, -length:])
            state = np.where(rows >= 0, first_state[length - 1][rows], -1)
            result = np.where(state >= 0, state, result)
        return result

    finals, sources, arcs = np.full(size, np.inf, np.float32), [], []
    for k, (grams, logp) in enumerate(zip(model.grams, model.logp)):
        source = state_of(grams[:, :-1]) if k else np.zeros(len(grams), np.int64)
        ends = grams[:, -1] == eos
        finals[source[ends]] = -logp[ends]
        keep = ~ends & (grams[:, -1] != bos)
        sources.append(source[keep])
        arcs.append(_arcs(label[grams[keep, -1]], label[grams[keep, -1]], -logp[keep], state_of(grams[keep])))
    for k, state in enumerate(first_state):
        keep = state >= 0
        below = state_of(model.grams[k][keep, 1:]) if k else np.zeros(keep.sum(), np.int64)
        sources.append(state[keep])
        arcs.append(_arcs(words[BACKOFF], 0, -model.backoff[k][keep], below))
    start = int(state_of(np.array([[bos]]))[0])
    return FstArrays.build(start, finals, np.concatenate(sources), np.concatenate(arcs))


def _arcs(ilabel: np.ndarray | int, olabel: np.ndarray | int, weight: np.ndarray, target: np.ndarray) -> np.ndarray:
    arcs = np.zeros(len(target), ARC)
    arcs["ilabel"], arcs["olabel"], arcs["weight"], arcs["next"] = ilabel, olabel, weight, target
    return arcs
