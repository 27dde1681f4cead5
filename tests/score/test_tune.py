import pytest

from asr_parallel.log import UserError
from asr_parallel.score.references import Reference
from asr_parallel.score.tune import choose, edge_warnings, score_grid
from asr_parallel.score.wer import Counts, score_set


def grid(errors):
    return {point: Counts(words=100, subs=n, sents=10, wrong=5) for point, n in errors.items()}


def test_fewest_errors_win():
    assert choose(grid({(9, 0.0): 12, (10, 0.0): 11, (10, 0.5): 10, (11, 0.0): 13})) == (10, 0.5)


def test_ties_go_to_the_middle_then_to_the_smaller():
    assert choose(grid({(8, 0.0): 5, (9, 0.0): 5, (10, 0.0): 5, (11, 0.0): 9})) == (9, 0.0)
    assert choose(grid({(8, 0.5): 5, (9, 0.5): 5, (8, 0.0): 5, (9, 0.0): 5})) == (8, 0.0)
    assert choose(dict(reversed(grid({(8, 0.0): 5, (9, 0.0): 5}).items()))) == (8, 0.0)


def test_edge_of_the_range_is_told():
    scores = grid({(n, w): abs(n - 7) for n in range(7, 12) for w in (0.0, 0.5, 1.0)})
    (lmwt,) = edge_warnings((7, 0.5), scores)
    assert "lmwt, 7, is at the edge" in lmwt
    assert "7 to 11" in lmwt
    assert edge_warnings((8, 0.5), scores) == []
    assert edge_warnings((8, 0.0), scores) == []
    assert len(edge_warnings((11, 1.0), scores)) == 2
    assert edge_warnings((8, 0.0), grid({(8, 0.0): 1})) == []


def test_grid_counts_equal_those_of_the_set():
    refs = {"a": Reference("s", ["A", "B", "C"]), "b": Reference("s", ["D"]), "c": Reference("s", [])}
    hyps = {
        (7, 0.0): {"a": ["A", "B"], "b": ["D"], "c": ["X"]},
        (8, 0.0): {"a": ["A", "B"], "b": [], "c": []},
        (9, 0.0): {"a": ["A", "X", "C"], "b": ["D"]},
    }
    scores = score_grid(refs, hyps)
    assert scores == {point: score_set(refs, h).counts for point, h in hyps.items()}
    assert [scores[p].errors for p in hyps] == [2, 2, 1]


def test_foreign_hypotheses_are_refused():
    with pytest.raises(UserError, match="lattices of dev: 1 of 2 utterances have no reference"):
        score_grid({"a": Reference("s", ["A"])}, {(7, 0.0): {"a": ["A"], "z": ["A"]}}, "lattices of dev")
