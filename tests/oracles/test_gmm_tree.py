"""The decision tree against brute force."""

import itertools

import numpy as np
import pytest

from asr_parallel.align.cluster import ContextStats, build_tree, log_likelihood, make_questions

FLOOR = np.full(2, 0.01)
NUM_STATES = [0, 2, 1, 1, 1, 1]  # phone 1 is silence
SILENCE = [1]


def some_frames(seed: int = 0, frames: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Contexts [N, 4] and features [N, 2] whose mean depends on the neighbours."""
    rng = np.random.default_rng(seed)
    context = rng.integers([0, 1, 0, 0], [6, 6, 6, 1], size=(frames, 4))
    silence = context[:, 1] == 1
    context[silence, 3] = rng.integers(0, 2, silence.sum())
    effect = rng.normal(size=(2, 6, 6, 2))
    mean = effect[0][context[:, 0], context[:, 1]] + 0.5 * effect[1][context[:, 2], context[:, 1]]
    return context, (mean + 0.5 * rng.normal(size=(frames, 2))).astype(np.float32)


def stats_of(context: np.ndarray, feats: np.ndarray) -> ContextStats:
    return ContextStats.of(context, feats, np.arange(len(feats)))


def data_likelihood(feats: np.ndarray) -> float:
    """Log-likelihood of frames under their own Gaussian, frame by frame."""
    x = feats.astype(np.float64)
    variance = np.maximum(x.var(0), FLOOR)
    return float((-0.5 * (np.log(2 * np.pi * variance) + (x - x.mean(0)) ** 2 / variance)).sum())


def test_log_likelihood_is_that_of_the_frames():
    x = np.random.default_rng(4).normal(size=(50, 2))
    moments = np.concatenate([x.sum(0), (x**2).sum(0)])
    assert log_likelihood(np.array(50.0), moments, FLOOR) == pytest.approx(data_likelihood(x), rel=1e-9)
    assert log_likelihood(np.array(0.0), np.zeros(4), FLOOR) == 0


def test_stats_are_sums_over_frames():
    context, feats = some_frames(frames=300)
    rows = np.random.default_rng(1).permutation(300)
    stats = ContextStats.of(context[rows], feats, rows)
    assert stats.count.sum() == 300
    for key, count, moments in zip(stats.context, stats.count, stats.moments):
        x = feats[(context == key).all(1)].astype(np.float64)
        assert count == len(x)
        np.testing.assert_allclose(moments, np.concatenate([x.sum(0), (x**2).sum(0)]), rtol=1e-9)


def split_by_brute_force(context, feats, mask, questions, min_count):
    """Best (gain, side, question) of the frames in ``mask``."""
    best = (0.0, -1, -1)
    for side, q in itertools.product((0, 1), range(len(questions))):
        yes = mask & np.isin(context[:, 2 * side], questions[q])
        no = mask & ~yes
        if min(yes.sum(), no.sum()) >= min_count:
            gain = data_likelihood(feats[yes]) + data_likelihood(feats[no]) - data_likelihood(feats[mask])
            best = max(best, (gain, -side, -q))
    return best[0], -best[1], -best[2]


def test_splits_are_the_best_first_of_all_questions():
    """Grow the same tree by brute force: at each step try every question at every leaf."""
    context, feats = some_frames()
    questions = make_questions(stats_of(context, feats), SILENCE, FLOOR)
    leaves = 14
    tree = build_tree(stats_of(context, feats), NUM_STATES, SILENCE, leaves, FLOOR, min_count=60)
    assert tree.questions == questions

    cells = [(context[:, 1] == p) & (context[:, 3] == s) for p in range(6) for s in range(NUM_STATES[p])]
    while len(cells) < leaves:
        options = [
            (*split_by_brute_force(context, feats, c, questions, 60), i)
            for i, c in enumerate(cells)
            if context[c][0, 1] not in SILENCE
        ]
        _, side, q, i = max(options)
        yes = cells[i] & np.isin(context[:, 2 * side], questions[q])
        cells[i : i + 1] = [yes, cells[i] & ~yes]
    cell_of = np.argmax(np.stack(cells), axis=0)
    pdfs = np.array([tree.pdf(*c) for c in context.tolist()])
    assert tree.num_pdfs == leaves
    assert len(set(zip(cell_of.tolist(), pdfs.tolist()))) == leaves  # the same partition of the frames


def test_min_count_and_silence_hold():
    context, feats = some_frames()
    tree = build_tree(stats_of(context, feats), NUM_STATES, SILENCE, 1000, FLOOR, min_count=100)
    pdfs = np.array([tree.pdf(*c) for c in context.tolist()])
    assert np.bincount(pdfs, minlength=tree.num_pdfs).min() >= 100
    assert tree.num_pdfs > 15
    assert (np.bincount(tree.pdf_phone)[1:2] == 2).all()
    for c, pdf in zip(context.tolist(), pdfs):
        assert (tree.pdf_phone[pdf], tree.pdf_state[pdf]) == (c[1], c[3])


def test_questions_join_phones_that_sound_alike():
    rng = np.random.default_rng(5)
    phone = rng.integers(2, 6, 2000)
    context = np.stack([phone * 0, phone, phone * 0, phone * 0], axis=1)
    feats = np.array([[0, 0], [0, 0], [0, 0], [4, 4], [0, 0.2], [4, 4.2]])[phone] + rng.normal(size=(2000, 2))
    questions = make_questions(stats_of(context, feats.astype(np.float32)), SILENCE, FLOOR)
    assert [2, 4] in questions
    assert [3, 5] in questions
    assert [2, 3] not in questions
    assert [0] in questions
    assert [1] in questions
