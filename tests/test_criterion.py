"""CTC against the sum over all paths, and its share of right labels by hand."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from asr_parallel.criterion import BLANK, Ctc, FrameCrossEntropy, collapsed, correct


def batch_of(lengths, targets):
    """A minibatch of utterances with so many frames and these labels."""
    flat = [label for labels in targets for label in labels]
    return SimpleNamespace(
        y=torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)),
        lengths=torch.tensor(lengths),
        targets=torch.tensor(flat, dtype=torch.int64),
        target_lengths=torch.tensor([len(labels) for labels in targets]),
    )


def said(path):
    """What a path stands for, one step after another."""
    labels, before = [], None
    for label in path:
        if label not in (before, BLANK):
            labels.append(label)
        before = label
    return labels


def brute_force(logp, labels):
    """-log of the probability of all paths through logp [T, V] that stand for labels."""
    paths = itertools.product(range(logp.shape[1]), repeat=len(logp))
    costs = [sum(logp[t, k] for t, k in enumerate(path)) for path in paths if said(path) == labels]
    return -torch.logsumexp(torch.stack(costs), 0)


CASES = [([4], [[1, 2]]), ([3, 5], [[1, 1], [2]]), ([5, 2, 3], [[2, 2, 1], [], [1]])]


@pytest.mark.parametrize(("lengths", "targets"), CASES)
def test_loss_is_the_sum_over_all_paths(lengths, targets):
    logits = torch.randn(sum(lengths), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parts = logits.log_softmax(1).split(lengths)
    expected = sum(brute_force(part, labels) for part, labels in zip(parts, targets)) / sum(lengths)
    assert float(Ctc().loss(logits, batch_of(lengths, targets))) == pytest.approx(float(expected), rel=1e-9)


def test_utterances_do_not_see_each_other():
    """Loss and gradient of a minibatch are those of its utterances alone, whatever is padded."""
    logits = torch.randn(9, 4, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(1))
    batch = batch_of([2, 7], [[1], [3, 2, 3]])
    together = Ctc().loss(logits, batch) * 9
    (gradient,) = torch.autograd.grad(together, logits)
    alone = [Ctc().loss(logits[:2], batch_of([2], [[1]])) * 2, Ctc().loss(logits[2:], batch_of([7], [[3, 2, 3]])) * 7]
    (expected,) = torch.autograd.grad(sum(alone), logits)
    assert torch.allclose(together, sum(alone))
    assert torch.allclose(gradient, expected)
    assert (gradient.abs().sum(1) > 0).all()


def test_paths_are_collapsed():
    for path in itertools.product(range(3), repeat=5):
        assert collapsed(torch.tensor(path)).tolist() == said(path)


def test_right_frames_are_weighted_by_labels():
    paths = [[1, 1, 0, 2], [0, 0, 3], [2, 2], [0, 1]]  # says 1 2; 3; 2; 1
    targets = [[1, 3], [3], [1, 2, 1], []]  # half right; right; one of three; nothing was to be said
    logits = 5.0 * torch.nn.functional.one_hot(torch.tensor([k for path in paths for k in path]), 4)
    got = float(Ctc().right(logits, batch_of([4, 3, 2, 2], targets)))
    assert got == pytest.approx(4 * 0.5 + 3 * 1 + 2 * (1 / 3) + 2 * 0)


def test_more_errors_than_labels_are_no_less_than_none_right():
    logits = 5.0 * torch.nn.functional.one_hot(torch.tensor([1, 2, 1, 2]), 3)
    assert float(Ctc().right(logits, batch_of([4], [[2]]))) == 0


@pytest.mark.parametrize("criterion", [Ctc(), FrameCrossEntropy()])
def test_figures_are_sums(criterion):
    logits = torch.randn(9, 4, generator=torch.Generator().manual_seed(2))
    batch = batch_of([4, 5], [[1, 2], [3]])
    loss, right, frames = criterion.figures(logits, batch).tolist()
    assert frames == 9
    assert loss == pytest.approx(float(criterion.loss(logits, batch)) * 9, rel=1e-5)
    assert right == pytest.approx(float(criterion.right(logits, batch)))


def test_frames_are_right_where_the_label_is_best():
    logits, y = torch.tensor([[1.0, 2.0], [3.0, 0.0], [1.0, 1.0]]), torch.tensor([1, 1, 0])
    assert int(correct(logits, y)) == 2
