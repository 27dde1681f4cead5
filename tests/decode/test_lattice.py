"""Lattices against all of their paths, one by one."""

from __future__ import annotations

import itertools
from collections import defaultdict

import kaldifst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr_parallel.decode.arcs import Arcs, compact, sort_states
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.log import UserError

LMWTS, WIPS = (1.0, 5.0, 12.0, 20.0), (-1.0, 0.0, 0.5, 3.0)
WORDS = dict(enumerate(["<eps>", "A", "B", "C", "D", "E"]))


def paths(arcs):
    """All (words, graph, acoustic) of an ``Arcs`` or a ``WordLattice``, by recursion."""
    start, final = (arcs.start, arcs.final) if isinstance(arcs, Arcs) else (0, len(arcs.level) - 1)
    out = defaultdict(list)
    for arc in zip(*(getattr(arcs, n).tolist() for n in ("src", "dst", "word", "graph", "acoustic"))):
        out[arc[0]].append(arc[1:])

    def walk(state):
        if state == final:
            yield (), 0.0, 0.0
        for dst, word, graph, acoustic in out[state]:
            for words, g, a in walk(dst):
                yield ((word, *words) if word else words), g + graph, a + acoustic

    return list(walk(start))


def price(path, lmwt, wip):
    words, graph, acoustic = path
    return graph + acoustic / lmwt + wip * len(words)


def best_of_each(found, lmwt):
    """Cost of the best path of each word sequence."""
    best: dict[tuple, float] = {}
    for path in found:
        best[path[0]] = min(price(path, lmwt, 0.0), best.get(path[0], np.inf))
    return best


def random_arcs(rng, states=12, arcs=26, words=4, eps=0.6):
    """An acyclic lattice whose states are numbered at random, dead ends and parallel arcs included."""
    number = rng.permutation(states)
    ends = np.sort(np.array([rng.choice(states, 2, replace=False) for _ in range(arcs)]), axis=1)
    word = np.where(rng.random(arcs) < eps, 0, rng.integers(1, words + 1, arcs))
    return Arcs(
        start=int(number[0]),
        final=int(number[-1]),
        src=number[ends[:, 0]],
        dst=number[ends[:, 1]],
        word=word,
        graph=rng.uniform(0, 4, arcs).round(3),
        acoustic=rng.uniform(-30, 60, arcs).round(3),
    )


def connected(arcs):
    """Without dead ends, made by asking for the paths of every state."""
    forward, backward = {arcs.start}, {arcs.final}
    for _ in range(arcs.num_states):
        forward |= {d for s, d in zip(arcs.src.tolist(), arcs.dst.tolist()) if s in forward}
        backward |= {s for s, d in zip(arcs.src.tolist(), arcs.dst.tolist()) if d in backward}
    return arcs[np.array([s in forward and d in backward for s, d in zip(arcs.src, arcs.dst)], bool)]


def as_lattices(*lattices):
    utts = [f"spk-{i}" for i in range(len(lattices))]
    return Lattices.join(utts, ["ok" if len(x.src) else "empty" for x in lattices], lattices, WORDS)


def linear(*words):
    n = len(words)
    return Arcs(0, n, np.arange(n), np.arange(1, n + 1), np.array(words), np.full(n, 1.5), np.full(n, 12.0))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.6, 0.9]))
def test_compact_keeps_words_and_best_costs(seed, eps):
    arcs = random_arcs(np.random.default_rng(seed), eps=eps)
    small = compact(arcs)
    assert len(small) <= len(arcs)
    before, after = paths(arcs), paths(small)
    for lmwt in LMWTS:
        assert best_of_each(after, lmwt) == pytest.approx(best_of_each(before, lmwt))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_best_grid_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    raw = [random_arcs(rng) for _ in range(3)]
    lattices = as_lattices(*(WordLattice.of(arcs) for arcs in raw))
    grid = lattices.best_grid(LMWTS, WIPS)
    assert set(grid) == set(itertools.product(LMWTS, WIPS))
    for (lmwt, wip), hyps in grid.items():
        costs = lattices.costs(lmwt, wip)
        for utt, arcs, cost in zip(lattices.utts, raw, costs):
            found = paths(arcs)
            if not found:
                assert hyps[utt] == []
                continue
            least = min(price(p, lmwt, wip) for p in found)
            assert cost == pytest.approx(least, abs=1e-4)
            allowed = {p[0] for p in found if price(p, lmwt, wip) < least + 1e-4}
            assert tuple("_ABCDE".index(w) for w in hyps[utt]) in allowed


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_reversed_lattice_has_the_same_best_costs(seed):
    arcs = random_arcs(np.random.default_rng(seed), states=30, arcs=120)
    both = as_lattices(WordLattice.of(arcs), WordLattice.of(arcs.reverse()))
    for lmwt, wip in itertools.product(LMWTS, WIPS):
        there, back = both.costs(lmwt, wip)
        assert there == pytest.approx(back, abs=1e-4)
        hyps = both.best_all(lmwt, wip)
        assert hyps["spk-0"] == hyps["spk-1"][::-1]


def test_best_path_agrees_with_openfst():
    for seed in range(20):
        arcs = connected(random_arcs(np.random.default_rng(seed), states=20, arcs=60))
        arcs, level = sort_states(arcs)
        costs = arcs.graph + arcs.acoustic / 7
        rows = [f"{s} {d} {w} {w} {c:.9f}" for s, d, w, c in zip(arcs.src, arcs.dst, arcs.word, costs)]
        start_first = sorted(rows, key=lambda r: int(r.split()[0]))
        fst = kaldifst.compile("\n".join([*start_first, str(len(level) - 1)]) + "\n", acceptor=False)
        _, _, words, weight = kaldifst.get_linear_symbol_sequence(kaldifst.shortest_path(fst))
        lattices = as_lattices(WordLattice.of(arcs))
        assert lattices.costs(7, 0)[0] == pytest.approx(weight.value, abs=1e-3)
        assert lattices.best("spk-0", 7, 0) == [WORDS[w] for w in words]


def test_states_are_sorted():
    for seed in range(20):
        arcs, level = sort_states(connected(random_arcs(np.random.default_rng(seed), states=20, arcs=60)))
        assert arcs.start == 0
        assert arcs.final == len(level) - 1
        assert (level[arcs.src] < level[arcs.dst]).all()
        assert (np.diff(arcs.dst) >= 0).all()


def test_cycle_is_refused():
    cycle = Arcs(0, 2, np.array([0, 1, 1, 2]), np.array([1, 1, 2, 1]), *(np.zeros(4, t) for t in (int, float, float)))
    for function in (sort_states, compact):
        with pytest.raises(ValueError, match="cycle"):
            function(cycle)


def test_chains_become_one_arc_a_word():
    small = compact(linear(0, 0, 1, 0, 0, 0, 2, 0))
    assert len(small) == 2
    assert sorted(small.word.tolist()) == [1, 2]
    assert small.graph.sum() == pytest.approx(8 * 1.5)
    assert small.acoustic.sum() == pytest.approx(8 * 12.0)


def useful(costs):
    """What is left of parallel arcs with these (graph, acoustic) costs."""
    graph, acoustic = np.array(costs, float).T
    none = np.zeros(len(costs), int)
    kept = compact(Arcs(0, 1, none, none + 1, none + 3, graph, acoustic))
    return sorted(zip(kept.graph.tolist(), kept.acoustic.tolist()))


def test_parallel_arcs_that_are_never_best_go():
    costs = [(1.0, 9.0), (2.0, 5.0), (3.0, 5.0), (2.5, 4.0), (1.0, 9.0), (1.5, 8.0), (2.25, 4.75), (2.2, 4.7)]
    assert useful(costs) == useful(costs[::-1]) == [(1.0, 9.0), (2.0, 5.0), (2.5, 4.0)]


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(-50, 50)), min_size=1, max_size=200), st.floats(0.1, 100))
def test_useful_costs_hold_the_best_one(costs, lmwt):
    least = min(g + a / lmwt for g, a in costs)
    assert min(g + a / lmwt for g, a in useful(costs)) == pytest.approx(least, abs=1e-9)


def test_ladder_of_alignments_collapses():
    """Two ways through each of 30 frames, one of them never better: nothing but the word remains."""
    state = np.arange(30)
    frame = Arcs(
        0,
        30,
        np.repeat(state, 2),
        np.repeat(state + 1, 2),
        np.where(np.arange(60) // 2 == 11, 4, 0),
        np.tile([1.0, 2.0], 30),
        np.tile([3.0, 3.0], 30),
    )
    small = compact(frame)
    assert (small.word.tolist(), small.graph.tolist(), small.acoustic.tolist()) == ([4], [30.0], [90.0])


def test_penalty_counts_words_only():
    lattices = as_lattices(WordLattice.of(linear(0, 1, 2, 0, 3)))
    assert lattices.costs(12, 0.5) - lattices.costs(12, 0) == pytest.approx([1.5])
    assert lattices.costs(12, 0) == pytest.approx([5 * 1.5 + 5])


def test_lm_weight_trades_graph_for_acoustic_costs():
    a = Arcs(0, 1, np.array([0, 0]), np.array([1, 1]), np.array([1, 2]), np.array([5.0, 1.0]), np.array([0.0, 40.0]))
    lattices = as_lattices(WordLattice.of(a))  # A: 5, B: 1 + 40 / lmwt, equal at 10
    assert [lattices.best("spk-0", lmwt, 0) for lmwt in (9, 11)] == [["A"], ["B"]]


def test_empty_lattice_gives_no_words():
    nothing = WordLattice.of(Arcs(0, 3, np.array([0]), np.array([1]), np.array([1]), np.zeros(1), np.zeros(1)))
    lattices = as_lattices(nothing, WordLattice.of(linear(1)), WordLattice.empty())
    assert lattices.flags == ["empty", "ok", "empty"]
    assert lattices.best_all(12, 0) == {"spk-0": [], "spk-1": ["A"], "spk-2": []}
    assert lattices.costs(12, 0).tolist() == [0.0, 2.5, 0.0]


def test_chunks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(3)
    lattices = as_lattices(*(WordLattice.of(random_arcs(rng)) for _ in range(15)))
    whole = lattices.best_grid(LMWTS, WIPS)
    monkeypatch.setattr("asr_parallel.decode.lattice.CELLS", 100)
    assert len(list(lattices._chunks(len(LMWTS) * len(WIPS)))) > 5
    assert lattices.best_grid(LMWTS, WIPS) == whole


def test_save_and_load(tmp_path):
    rng = np.random.default_rng(4)
    lattices = as_lattices(*(WordLattice.of(random_arcs(rng)) for _ in range(4)), WordLattice.empty())
    lattices.save(tmp_path / "lattices.npz")
    again = Lattices.load(tmp_path / "lattices.npz")
    assert (again.utts, again.flags, again.words) == (lattices.utts, lattices.flags, lattices.words)
    assert again.best_grid(LMWTS, WIPS) == lattices.best_grid(LMWTS, WIPS)


def test_only_used_words_are_kept():
    lattices = as_lattices(WordLattice.of(linear(2, 5)))
    assert lattices.words == ["<eps>", "B", "E"]
    assert lattices.best("spk-0", 12, 0) == ["B", "E"]


@pytest.mark.parametrize("damage", ["missing", "cut", "inconsistent"])
def test_damaged_file_is_a_user_error(tmp_path, damage):
    path = tmp_path / "lattices.npz"
    lattices = as_lattices(WordLattice.of(linear(1, 2)))
    if damage == "inconsistent":
        lattices.utts.append("spk-9")
    if damage != "missing":
        lattices.save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match=r"lattices\.npz"):
        Lattices.load(path)


def test_unknown_utterance_is_a_user_error():
    with pytest.raises(UserError, match="spk-7"):
        as_lattices(WordLattice.of(linear(1))).best("spk-7", 12, 0)
