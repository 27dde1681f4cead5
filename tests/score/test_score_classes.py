"""Accuracy by class against scikit-learn and by counting."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, recall_score

from asr_parallel.score.classes import accuracy, by_class, matrix
from asr_parallel.score.references import Reference
from asr_parallel.score.wer import score_set

NAMES = ["go", "no", "stop", "yes"]


def made(utts=400, lost=0):
    """A score of random answers, the classes said and those heard; the first ``lost`` utterances have no answer."""
    rng = np.random.default_rng(3)
    said = rng.choice(NAMES, utts, p=[0.4, 0.3, 0.2, 0.1])
    heard = np.where(rng.random(utts) < 0.7, said, rng.choice(NAMES, utts))
    refs = {f"s{i}": Reference(f"s{i}", (word,)) for i, word in enumerate(said.tolist())}
    hyps = {f"s{i}": (word,) for i, word in enumerate(heard.tolist()) if i >= lost}
    return score_set(refs, hyps), said, heard


def rows_of(table):
    return [line.split("\t") for line in table.splitlines()]


def test_confusions_are_those_of_scikit_learn():
    score, said, heard = made()
    head, *rows = rows_of(matrix(score))
    assert head == ["said", *NAMES]
    assert [row[0] for row in rows] == NAMES
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], int), confusion_matrix(said, heard, labels=NAMES))


def test_accuracy_of_a_class_is_its_recall():
    score, said, heard = made()
    head, *rows = rows_of(by_class(score, 0))
    recall = 100 * recall_score(said, heard, labels=NAMES, average=None)
    np.testing.assert_allclose([float(row[head.index("accuracy")]) for row in rows], recall, atol=0.006)
    for row in rows:
        low, high = (float(row[head.index(name)]) for name in ("low", "high"))
        assert low < float(row[head.index("accuracy")]) < high
        others = [(heard[said == row[0]] == name).sum() for name in NAMES if name != row[0]]
        assert [int(cell.split()[1]) for cell in row[head.index("taken_for")].split(", ")] == sorted(others)[::-1]


def test_accuracy_and_its_interval():
    score, said, heard = made()
    found = accuracy(score.utts, 0)
    right = (said == heard).mean()
    assert (found["utts"], found["right"]) == (400, (said == heard).sum())
    assert found["accuracy"] == pytest.approx(100 * right)
    assert found["accuracy"] == pytest.approx(100 - score.counts.wer)
    half = 196 * np.sqrt(right * (1 - right) / 400)  # speakers say one word each: a binomial's
    np.testing.assert_allclose(found["ci95"], [100 * right - half, 100 * right + half], atol=0.15 * half)


def test_no_answer_is_wrong_and_has_a_column():
    score, said, heard = made(lost=5)
    assert accuracy(score.utts, 0)["right"] == (said == heard)[5:].sum()
    head, *rows = rows_of(matrix(score))
    assert head == ["said", "<eps>", *NAMES]
    assert sum(int(row[1]) for row in rows) == 5
