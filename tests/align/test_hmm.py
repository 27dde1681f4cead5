import json
from pathlib import Path

import numpy as np
import pytest
from gmm_world import PHONES, SILENCE, monophones

from asr_parallel.align.hmm import HmmModel, make_topology
from asr_parallel.align.tree import ContextTree, monophone_tree
from asr_parallel.log import UserError

A, B = PHONES.index("A"), PHONES.index("B")


def triphones() -> HmmModel:
    """A's first state asks whether the left phone is silence; one pdf for each other state."""
    topology = make_topology(len(PHONES), SILENCE)
    roots: list[list] = [[0] * len(s) for s in topology.states]
    leaf = 0
    for phone, states in enumerate(roots):
        for state in range(len(states)):
            if (phone, state) == (A, 0):
                roots[phone][state] = [0, 1, leaf, [1, 0, leaf + 1, leaf + 2]]
                leaf += 2
            else:
                roots[phone][state] = leaf
            leaf += 1
    return HmmModel.start(PHONES, SILENCE, topology, ContextTree(3, roots, [[A, B], [0, 1, 2]]))


def test_tree_walks_its_questions():
    tree = triphones().tree
    first = tree.pdf(0, A, B, 0)
    assert first == tree.pdf(1, A, 5, 0)
    assert first + 1 == tree.pdf(B, A, B, 0)
    assert first + 2 == tree.pdf(B, A, 1, 0)
    assert tree.pdf(B, A, B, 1) == tree.pdf(0, A, 0, 1)
    assert (tree.pdf_phone == A).sum() == 5
    assert tree.pdf_state[first : first + 4].tolist() == [0, 0, 0, 1]


def test_leaves_must_be_numbered_without_gap():
    with pytest.raises(ValueError, match="numbered"):
        ContextTree(1, [[], [0, 2]])
    with pytest.raises(ValueError, match="numbered"):
        ContextTree(1, [[], [0, 0]])


@pytest.mark.parametrize("model", [monophones(), triphones()])
def test_round_trip(tmp_path, model):
    model = model.with_counts(np.random.default_rng(0).integers(0, 50, model.log_probs.shape))
    model.save(tmp_path / "hmm.json")
    again = HmmModel.load(tmp_path / "hmm.json")
    assert (again.phones, again.silence, again.topology) == (model.phones, model.silence, model.topology)
    np.testing.assert_array_equal(again.log_probs, model.log_probs)
    assert again.log_probs.dtype == np.float32
    assert again.tree.to_json() == model.tree.to_json()
    for context in [(0, A, B, 0), (B, A, B, 0), (B, A, 1, 2), (A, 1, A, 4)]:
        assert again.tree.pdf(*context) == model.tree.pdf(*context)


@pytest.mark.parametrize("harm", ["", "{", "[]", "cut", "rows"])
def test_damaged_files_are_refused(tmp_path, harm):
    path: Path = tmp_path / "hmm.json"
    monophones().save(path)
    text = path.read_text()
    if harm == "rows":
        damaged = json.loads(text)
        damaged["log_probs"].pop()
        text = json.dumps(damaged)
    else:
        text = text[: len(text) // 2] if harm == "cut" else harm
    path.write_text(text)
    with pytest.raises(UserError, match=r"damaged.*align"):
        HmmModel.load(path)
    with pytest.raises(UserError, match="run `align` first"):
        HmmModel.load(tmp_path / "none.json")


def test_scaled_log_probs_are_kaldis():
    """Scale 1 changes nothing; else staying or leaving has one scale and the way out the other."""
    model = monophones()
    np.testing.assert_allclose(model.scaled_log_probs(1.0, 1.0), model.log_probs, rtol=1e-6)
    scaled = model.scaled_log_probs(0.5, 0.1)
    silence, speech = model.tree.pdf(0, 1, 0, 0), model.tree.pdf(0, A, 0, 0)
    np.testing.assert_allclose(
        scaled[silence], [0.1 * np.log(0.25)] + 3 * [0.5 * np.log(1 / 3) + 0.1 * np.log(0.75)], rtol=1e-6
    )
    np.testing.assert_allclose(scaled[speech, :2], [0.1 * np.log(0.75), 0.1 * np.log(0.25)], rtol=1e-6)
    assert (scaled[speech, 2:] == -np.inf).all()


def labels(model: HmmModel, *phones: tuple[int, list[int]]) -> np.ndarray:
    return np.array([model.tree.pdf(0, p, 0, s) for p, states in phones for s in states], np.int32)


def test_transition_counts_are_counts():
    model = monophones()
    one = labels(model, (1, [0, 0, 2, 4]), (A, [0, 1, 1, 1, 2]), (A, [0, 1, 2, 2]))
    two = labels(model, (1, [0, 1, 3, 3, 4, 4]), (1, [0, 3, 4]))
    offsets = np.array([0, len(one), len(one) + len(two)])
    counts = model.transition_counts(np.concatenate([one, two]), offsets)
    assert counts.sum() == len(one) + len(two)  # each frame takes one transition

    def of(phone: int, state: int) -> list[int]:
        return counts[model.tree.pdf(0, phone, 0, state)].tolist()

    assert of(1, 0) == [1, 1, 1, 1]  # to 0, 1, 2 and 3
    assert of(1, 2) == [0, 0, 0, 1]
    assert of(1, 3) == [0, 0, 1, 2]
    assert of(1, 4) == [1, 3, 0, 0]  # one stays; one leaves for A, one for another silence, one ends
    assert of(A, 0) == [0, 2, 0, 0]
    assert of(A, 1) == [2, 2, 0, 0]
    assert of(A, 2) == [1, 2, 0, 0]


def test_probabilities_follow_counts_with_a_floor():
    model = monophones()
    counts = np.zeros(model.log_probs.shape, np.int64)
    rare, often, never = (model.tree.pdf(0, A, 0, s) for s in range(3))
    counts[rare, :2] = 3, 1
    counts[often, :2] = 30, 10
    counts[never, :2] = 0, 1000
    p = np.exp(model.with_counts(counts).log_probs)
    np.testing.assert_allclose(p[rare, :2], [0.75, 0.25], rtol=1e-6)  # as before
    np.testing.assert_allclose(p[often, :2], [0.75, 0.25], rtol=1e-6)
    np.testing.assert_allclose(p[never, :2], [0.01 / 1.01, 1 / 1.01], rtol=1e-6)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)


def test_phone_starts():
    model = monophones()
    pdfs = labels(model, (1, [0, 2, 4]), (A, [0, 1, 2, 2]), (A, [0, 1, 2]), (B, [0, 1, 2]))
    assert np.flatnonzero(model.phone_starts(pdfs)).tolist() == [0, 3, 7, 10]


def test_monophone_tree_numbers_states_in_order():
    tree = monophone_tree([0, 5, 3])
    assert tree.num_pdfs == 8
    assert tree.pdf(9, 2, 9, 1) == 6
