"""Forced alignment and monophone training against plain Viterbi over an explicit state sequence."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from asr_parallel.align import em
from asr_parallel.align.aligner import ACOUSTIC_SCALE, Aligner
from asr_parallel.align.contexts import flat_start
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel, make_topology
from asr_parallel.align.train import Schedule, train
from asr_parallel.align.tree import ContextTree, monophone_tree
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.lang.lexicon import Lexicon, phone_table, word_table, write_symbols

PRONS = {"!SIL": (("SIL",),), "<unk>": (("SPN",),), "AB": (("A", "B"),), "BA": (("B", "A"), ("B",))}
PHONES = ["<eps>", "SIL", "SPN", "A", "B"]
SILENCE = [1, 2]
TOPOLOGY = make_topology(len(PHONES), SILENCE)
NUM_STATES = [len(s) for s in TOPOLOGY.states]
BEAMS = (1000.0, 2000.0)  # nothing is pruned


@pytest.fixture
def lang(tmp_path) -> Path:
    Lexicon(PRONS).write(tmp_path / "lexicon.txt")
    write_symbols(tmp_path / "phones.txt", phone_table(PHONES[1:], 1))
    write_symbols(tmp_path / "words.txt", word_table(PRONS))
    return tmp_path


def triphone_tree() -> ContextTree:
    """Splits A by its left phone and B by its right one; leaves are numbered as they come."""
    number = itertools.count()
    roots: list[list] = []
    for phone, n in enumerate(NUM_STATES):
        side = {3: 0, 4: 1}.get(phone)
        roots.append([next(number) if side is None else [side, 0, next(number), next(number)] for _ in range(n)])
    return ContextTree(3, roots, [[1, 4]])


def phone_sequences(words: list[str]):
    """All phone sequences of ``words`` with optional silence anywhere between, and their costs in nats."""
    choices = [[[], [1]]]
    for word in words:
        choices += [[[PHONES.index(p) for p in pron] for pron in PRONS[word]], [[], [1]]]
    for parts in itertools.product(*choices):
        yield [p for part in parts for p in part], (len(words) + 1) * np.log(2.0)


def viterbi(hmm: HmmModel, phones: list[int], log_likes: np.ndarray, scales: tuple[float, float]):
    """Best score and pdfs of one phone sequence: the textbook recursion over the concatenated states."""
    log_probs = hmm.scaled_log_probs(*scales)
    chain = [  # (pdf, [(chain index after, log-probability)])
        (hmm.tree.pdf(left, phone, right, state), phone, state)
        for left, phone, right in zip([0, *phones], phones, [*phones[1:], 0])
        for state in range(NUM_STATES[phone])
    ]
    size, frames = len(chain), len(log_likes)
    transition = np.full((size, size + 1), -np.inf)
    for i, (pdf, phone, state) in enumerate(chain):
        for k, (to, _) in enumerate(TOPOLOGY.states[phone][state]):
            transition[i, i - state + to] = log_probs[pdf, k]
    pdfs = [c[0] for c in chain]
    best = np.full((frames, size), -np.inf)
    back = np.zeros((frames, size), int)
    best[0, 0] = ACOUSTIC_SCALE * log_likes[0, pdfs[0]]
    for t in range(1, frames):
        options = best[t - 1][:, None] + transition[:, :size]  # [from, to]
        back[t] = options.argmax(0)
        best[t] = options.max(0) + ACOUSTIC_SCALE * log_likes[t, pdfs]
    final = best[-1] + transition[:, size]
    state = int(np.argmax(final))
    path = [state]
    for t in range(frames - 1, 0, -1):
        path.append(int(back[t, path[-1]]))
    return final.max(), np.array([pdfs[s] for s in reversed(path)])


def brute_force(hmm: HmmModel, words: list[str], log_likes: np.ndarray, scales: tuple[float, float]):
    found = [
        (score - cost, pdfs)
        for phones, cost in phone_sequences(words)
        if phones
        for score, pdfs in [viterbi(hmm, phones, log_likes, scales)]
    ]
    return max(found, key=lambda f: f[0])


def a_model(tree: ContextTree, seed: int) -> tuple[HmmModel, DiagGmm]:
    rng = np.random.default_rng(seed)
    hmm = HmmModel.start(PHONES, SILENCE, TOPOLOGY, tree)
    hmm = hmm.with_counts(np.where(np.isfinite(hmm.log_probs), rng.integers(5, 60, hmm.log_probs.shape), 0))
    n = tree.num_pdfs
    return hmm, DiagGmm(3 * rng.normal(size=(n, 3)), rng.uniform(0.5, 2, (n, 3)), np.ones(n), np.arange(n))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("scales", [(1.0, 0.1), (0.3, 1.0)])
def test_alignment_is_the_best_of_all_paths(lang, width, scales):
    hmm, gmm = a_model(monophone_tree(NUM_STATES) if width == 1 else triphone_tree(), 10 + width)
    rng = np.random.default_rng(width)
    words = [["AB"], ["BA"], ["AB", "BA"], ["BA", "AB"], ["<unk>", "BA"], ["!SIL"]]
    feats = [(3 * rng.normal(size=(n, 3))).astype(np.float32) for n in (8, 14, 22, 25, 18, 9)]
    corpus = Corpus("x", [str(i) for i in range(6)], words, np.cumsum([0, *map(len, feats)]), np.concatenate(feats))
    aligner = Aligner(TrainingGraphs(lang, hmm, *scales), *BEAMS)
    for row in range(len(corpus)):
        for again in range(2):  # from the lexicon, then from the kept graph
            aligned = aligner.align(gmm, corpus, [row])
            log_likes = gmm.log_likelihoods(feats[row])
            score, pdfs = brute_force(hmm, words[row], log_likes, scales)
            assert aligned.score == pytest.approx(score, abs=1e-3), (row, again)
            labels = aligned.pdfs[corpus.offsets[row] : corpus.offsets[row + 1]]
            np.testing.assert_array_equal(labels, pdfs)
            assert aligned.acoustic == pytest.approx(log_likes[np.arange(len(pdfs)), pdfs].sum(), rel=1e-5)


def small_corpus() -> Corpus:
    rng = np.random.default_rng(20)
    centres = 2 * rng.normal(size=(len(PHONES), 5, 3))
    words, feats = [], []
    for _ in range(8):
        text = list(rng.choice(["AB", "BA"], size=rng.integers(1, 3)))
        phones = [1, *(PHONES.index(p) for w in text for p in PRONS[w][0]), 1]
        states = [(p, s) for p in phones for s in range(NUM_STATES[p]) for _ in range(rng.integers(1, 5))]
        words.append(text)
        feats.append(np.array([centres[p, s] for p, s in states]) + rng.normal(size=(len(states), 3)))
    offsets = np.cumsum([0, *map(len, feats)])
    return Corpus("x", [str(i) for i in range(8)], words, offsets, np.concatenate(feats).astype(np.float32))


def plain_training(corpus: Corpus, hmm: HmmModel, iterations: int, scales: tuple[float, float]):
    """Monophone training with one Gaussian a state, loop by loop: (labels, means, likelihood) of each iteration."""
    x = corpus.feats.astype(np.float64)
    floor = 0.01 * x.var(0)
    pdfs = np.zeros(len(x), int)
    for i, words in enumerate(corpus.words):  # equal shares
        phones = [1, *(PHONES.index(p) for w in words for p in PRONS[w][0]), 1]
        states = [hmm.tree.pdf(0, p, 0, s) for p in phones for s in range(NUM_STATES[p])]
        a, b = corpus.offsets[i : i + 2]
        pdfs[a:b] = [states[t * len(states) // (b - a)] for t in range(b - a)]
    mean = np.tile(x.mean(0), (hmm.tree.num_pdfs, 1))
    variance = np.tile(x.var(0), (hmm.tree.num_pdfs, 1))
    for iteration in range(iterations + 1):
        if iteration:
            log_likes = -0.5 * (np.log(2 * np.pi * variance) + (x[:, None] - mean) ** 2 / variance).sum(-1)
            for i, words in enumerate(corpus.words):
                a, b = corpus.offsets[i : i + 2]
                pdfs[a:b] = brute_force(hmm, words, log_likes[a:b], scales)[1]
            yield pdfs.copy(), mean.copy(), log_likes[np.arange(len(x)), pdfs].mean()
        for pdf in range(hmm.tree.num_pdfs):
            mine = x[pdfs == pdf]
            if len(mine) >= em.MIN_OCCUPANCY:
                mean[pdf], variance[pdf] = mine.mean(0), np.maximum(mine.var(0), floor)


def test_monophone_training_is_that_of_plain_loops(lang):
    corpus, scales = small_corpus(), (1.0, 0.1)
    hmm = HmmModel.start(PHONES, SILENCE, TOPOLOGY, monophone_tree(NUM_STATES))
    reference = list(plain_training(corpus, hmm, 4, scales))
    assert (reference[0][0] != reference[3][0]).any()  # realigning changes something
    rows = np.arange(len(corpus))
    for iterations in range(1, 5):
        aligner = Aligner(TrainingGraphs(lang, hmm, *scales), *BEAMS)
        schedule = Schedule(iterations, 0, frozenset(range(1, iterations + 1)), 1)
        start = flat_start(aligner.graphs, corpus, rows)
        trained = train(corpus, rows, start, aligner, schedule, hmm.tree.num_pdfs, 0, "mono")
        pdfs, _, log_likelihood = reference[iterations - 1]
        np.testing.assert_array_equal(trained.pdfs, pdfs)
        assert trained.history[-1]["log_likelihood_per_frame"] == pytest.approx(log_likelihood, abs=1e-4)
        if iterations < 4:
            np.testing.assert_allclose(trained.gmm.means, reference[iterations][1], atol=1e-4)


def test_the_viterbi_objective_never_falls(lang):
    """Score of the best paths, which both steps raise: alignment, and EM at constant size."""
    corpus = small_corpus()
    hmm = HmmModel.start(PHONES, SILENCE, TOPOLOGY, monophone_tree(NUM_STATES))
    aligner = Aligner(TrainingGraphs(lang, hmm), *BEAMS)
    rows = np.arange(len(corpus))
    start = flat_start(aligner.graphs, corpus, rows)
    schedule = Schedule(12, 0, frozenset(range(1, 13)), 1)
    history = train(corpus, rows, start, aligner, schedule, hmm.tree.num_pdfs, 0, "mono").history
    scores = [h["score_per_frame"] for h in history]
    assert (np.diff(scores) > -1e-6).all()
    assert scores[-1] > scores[0] + 0.01
