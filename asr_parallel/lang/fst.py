"""The lexicon and the language model as transducers: L, L_disambig, G."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import kaldifst
import numpy as np
from kaldifst import StdArc, StdVectorFst

from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.lang.lexicon import BACKOFF, BOS, EOS, SIL, Lexicon, Pron, disambiguate
from asr_parallel.lang.lexicon_probs import EVEN, LexiconProbs
from asr_parallel.lang.ngram import Ngram
from asr_parallel.lang.pieces import ALONE, going_on
from asr_parallel.log import UserError


def lexicon_fst(
    pairs: Iterable[tuple[str, Sequence[str]]],
    phones: Mapping[str, int],
    words: Mapping[str, int],
    silence_disambig: str | None = None,
    probs: LexiconProbs = EVEN,
) -> StdVectorFst:
    """L with optional silence at the start and after each word (the topology of Kaldi's ``make_lexicon_fst.pl``).

    A state follows silence, another a word, so that a word may cost more after the one than after the other
    (``make_lexicon_fst_silprob.pl``); where all probabilities are even, one state is both.  In a lexicon of pieces a
    third state follows a piece inside a word: only pieces that go on with it leave from there, at no cost.

    Args:
        pairs: (word, pronunciation), the latter with disambiguation symbols for ``L_disambig``.
        silence_disambig: symbol after silence, for ``L_disambig``; then a loop ``#0:#0`` is added too,
            which lets G's back-off pass.

    Returns:
        Input labels phones, output labels words, sorted by output label.
    """
    fst, pairs = StdVectorFst(), list(pairs)
    inner = going_on(word for word, _ in pairs)
    start, spoken, silence = (fst.add_state() for _ in range(3))
    quiet = spoken if probs == EVEN else fst.add_state()
    inside = fst.add_state() if inner else None
    fst.start = start
    end, begin = probs.of(EOS).costs, probs.of(BOS).costs
    fst.set_final(spoken, end.after_word)
    fst.set_final(quiet, end.after_silence)
    fst.add_arc(start, StdArc(0, 0, begin.no_silence, spoken))
    fst.add_arc(start, StdArc(0, 0, begin.silence, silence))
    if silence_disambig is None:
        fst.add_arc(silence, StdArc(phones[SIL], 0, 0.0, quiet))
    else:
        marked = fst.add_state()
        fst.add_arc(silence, StdArc(phones[SIL], 0, 0.0, marked))
        fst.add_arc(marked, StdArc(phones[silence_disambig], 0, 0.0, quiet))
        for state in {spoken, quiet, inside} - {None}:
            fst.add_arc(state, StdArc(phones[BACKOFF], words[BACKOFF], 0.0, state))
    for word, pron in pairs:
        costs = probs.of(word, tuple(phone for phone in pron if not phone.startswith("#"))).costs
        after = quiet if pron[0] == SIL else spoken  # a word may itself be silence
        starts = {spoken: costs.after_word, quiet: costs.after_silence}
        ends = {after: costs.no_silence, silence: costs.silence}
        if inside is not None and word not in ALONE:
            starts, ends = {inside: 0.0} if word in inner else starts, ends | {inside: 0.0}
        _add_word(fst, [phones[p] for p in pron], words[word], starts, ends)
    kaldifst.arcsort(fst, "olabel")
    return fst


def _add_word(
    fst: StdVectorFst, pron: list[int], word: int, starts: Mapping[int, float], ends: Mapping[int, float]
) -> None:
    """A chain of phones between states of ``starts`` and of ``ends``, each with what the arc there costs."""
    states, label = starts, word
    for phone in pron[:-1]:
        following = fst.add_state()
        for state, cost in states.items():
            fst.add_arc(state, StdArc(phone, label, cost, following))
        states, label = {following: 0.0}, 0
    for state, cost in states.items():
        for end, more in ends.items():
            fst.add_arc(state, StdArc(pron[-1], label, cost + more, end))


def disambiguated_fst(
    lexicon: Lexicon, phones: Sequence[str], words: Sequence[str], probs: LexiconProbs = EVEN
) -> StdVectorFst:
    """L_disambig of a lexicon; ``phones`` and ``words`` are its symbol tables."""
    marked, highest = disambiguate(lexicon)
    phone_id, word_id = ({symbol: number for number, symbol in enumerate(table)} for table in (phones, words))
    return lexicon_fst(marked, phone_id, word_id, f"#{highest + 1}", probs)


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
