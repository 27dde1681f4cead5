"""The search against kaldi-decoder, on random graphs."""

from __future__ import annotations

import itertools

import kaldifst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kaldi_decoder import (
    DecodableCtc,
    FasterDecoder,
    FasterDecoderOptions,
    LatticeSimpleDecoder,
    LatticeSimpleDecoderConfig,
)

from asr_parallel.decode import search as search_module
from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.decode.search import Beams, Search
from asr_parallel.decode.search_graph import Graph
from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.log import UserError

ACWT, PDFS = 0.1, 8
ALL = Beams(1000.0, 1000.0, 10**6, 10**6)
WORDS = {i: f"W{i}" for i in range(1, 9)}


def make(source, arcs, finals, start=0):
    return FstArrays.build(start, np.array(finals), np.array(source), np.array(arcs, ARC))


def random_fst(rng, states=25, arcs=90):
    """Loops and epsilons; words on a third of the arcs.  Epsilons lead to higher states, so that none make a cycle."""
    source, rows = [], []
    for _ in range(arcs):
        src, dst = rng.integers(0, states, 2).tolist()
        silent = dst > src and rng.random() < 0.3
        word = int(rng.integers(1, 9)) if rng.random() < 0.35 else 0
        source.append(src)
        rows.append((0 if silent else int(rng.integers(1, PDFS + 1)), word, rng.uniform(0, 3), dst))
    for state in range(states):
        source.append(state)
        rows.append((int(rng.integers(1, PDFS + 1)), 0, 0.3, (state + 1) % states))
    return make(source, rows, np.where(rng.random(states) < 0.3, rng.uniform(0, 2, states), np.inf))


def random_loglikes(rng, frames):
    return rng.normal(-20, 12, (frames, PDFS)).astype(np.float32)


def kaldi_lattice(fst, loglikes, beam, lattice_beam):
    """The state-level lattice of ``LatticeSimpleDecoder``, read from its text form."""
    graph = fst.to_fst()  # the decoder does not keep it alive
    decoder = LatticeSimpleDecoder(graph, LatticeSimpleDecoderConfig(beam=beam, lattice_beam=lattice_beam))
    ended = decoder.decode(DecodableCtc(loglikes * np.float32(ACWT)))
    alive, raw = decoder.get_raw_lattice()
    if not alive:
        return None, False
    rows = [line.split() for line in raw.to_str().splitlines() if line.split()]
    final = raw.num_states
    table = []
    for row in rows:
        costs = [float(x) for x in row[-1].split(",")] if "," in row[-1] else [0.0, 0.0]
        row = [int(x) for x in row if "," not in x]
        src, dst, _, word = row if len(row) == 4 else (row[0], final, 0, 0)
        table.append((src, dst, word, costs[0], costs[1] / ACWT))
    src, dst, word, graph_cost, acoustic = np.array(table).T
    return Arcs(raw.start, final, src.astype(int), dst.astype(int), word.astype(int), graph_cost, acoustic), ended


def run(search, loglikes, beams):
    """What the search finds, which must be something."""
    found = search.run(loglikes, ACWT, beams)
    assert found is not None
    return found


def costs(arcs, lmwt, wip):
    return lattices(arcs).costs(lmwt, wip)[0]


def lattices(*arcs):
    names = [str(i) for i in range(len(arcs))]
    return Lattices.join(names, ["ok"] * len(arcs), [WordLattice.of(a) for a in arcs], WORDS)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_same_lattice_costs_as_kaldi(seed, frames):
    rng = np.random.default_rng(seed)
    fst, loglikes = random_fst(rng), random_loglikes(rng, frames)
    theirs, ended = kaldi_lattice(fst, loglikes, 1000.0, 1000.0)
    ours = run(Search(Graph.of(fst)), loglikes, ALL)
    assert ours.ended == ended
    both = lattices(ours.arcs, theirs)
    for lmwt, wip in itertools.product((3.0, 10.0, 25.0), (-1.0, 0.0, 1.0)):
        mine, kaldi = both.costs(lmwt, wip)
        assert mine == pytest.approx(kaldi, abs=2e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 2.0, 5.0]))
def test_narrow_lattice_has_all_paths_within_its_beam(seed, lattice_beam):
    rng = np.random.default_rng(seed)
    fst, loglikes = random_fst(rng, states=12, arcs=30), random_loglikes(rng, 7)
    search = Search(Graph.of(fst))
    wide = run(search, loglikes, ALL)
    narrow = run(search, loglikes, Beams(1000.0, lattice_beam, 10**6, 10**6))
    expected, found = (word_costs(x.arcs) for x in (wide, narrow))
    best = min(expected.values())
    for words, cost in expected.items():
        if cost < best + lattice_beam - 1e-3:
            assert found[words] == pytest.approx(cost, abs=1e-3)
    assert narrow.emitting <= wide.emitting


def word_costs(arcs):
    """Cost of the best path of each word sequence at the decoding scale."""
    lattice = WordLattice.of(arcs)
    best: list[dict] = [{} for _ in lattice.level]
    best[0][()] = 0.0
    scaled = lattice.graph.astype(float) + ACWT * lattice.acoustic.astype(float)
    for src, dst, word, cost in sorted(zip(lattice.src, lattice.dst, lattice.word, scaled), key=lambda a: a[1]):
        for words, before in best[src].items():
            words = (*words, int(word)) if word else words
            best[dst][words] = min(before + cost, best[dst].get(words, np.inf))
    return best[-1]


@pytest.mark.parametrize("seed", range(8))
def test_best_path_of_faster_decoder_at_a_usual_beam(seed):
    rng = np.random.default_rng(seed)
    fst, loglikes = random_fst(rng, states=200, arcs=900), random_loglikes(rng, 120)
    graph = fst.to_fst()
    decoder = FasterDecoder(graph, FasterDecoderOptions(beam=8.0))
    decoder.decode(DecodableCtc(loglikes * np.float32(ACWT)))
    _, _, words, weight = kaldifst.get_linear_symbol_sequence(decoder.get_best_path()[1])
    found = run(Search(Graph.of(fst)), loglikes, Beams(8.0, 2.0, 10**6))
    assert costs(found.arcs, 1 / ACWT, 0) == pytest.approx(weight.value1 + weight.value2, abs=5e-3)
    assert lattices(found.arcs).best("0", 1 / ACWT, 0) == [WORDS[w] for w in words]


def test_pruning_on_the_way_does_not_change_the_lattice(monkeypatch):
    rng = np.random.default_rng(1)
    fst, loglikes = random_fst(rng, states=60, arcs=250), random_loglikes(rng, 130)
    search, found = Search(Graph.of(fst)), []
    for interval in (7, 50, 1000):
        monkeypatch.setattr(search_module, "PRUNE_INTERVAL", interval)
        found.append(run(search, loglikes, Beams(6.0, 2.0, 10**6)))
    for other in found[1:]:
        assert other.emitting == found[0].emitting
        np.testing.assert_array_equal(other.arcs.acoustic, found[0].arcs.acoustic)


def test_dense_lattice_is_pruned_to_its_best_paths():
    rng = np.random.default_rng(2)
    fst, loglikes = random_fst(rng, states=60, arcs=300), random_loglikes(rng, 50)
    search = Search(Graph.of(fst))
    full = run(search, loglikes, Beams(10.0, 10.0, 10**6, 10**6))
    thin = run(search, loglikes, Beams(10.0, 10.0, 10**6, max_density=5))
    assert thin.emitting <= 5 * 50 + 5 < full.emitting
    assert costs(thin.arcs, 1 / ACWT, 0) == pytest.approx(costs(full.arcs, 1 / ACWT, 0), abs=1e-4)


def test_max_active_limits_the_tokens(monkeypatch):
    rng = np.random.default_rng(3)
    fst, loglikes = random_fst(rng, states=300, arcs=1500), np.zeros((30, PDFS), np.float32)  # tells nothing
    search, counts = Search(Graph.of(fst)), []
    step = search._step

    def counted(tokens, *others):
        counts.append(len(tokens.state))
        return step(tokens, *others)

    monkeypatch.setattr(search, "_step", counted)
    run(search, loglikes, Beams(20.0, 2.0, 10**6))
    unlimited, counts[:] = max(counts), []
    run(search, loglikes, Beams(20.0, 2.0, 20))
    assert max(counts[5:]) < unlimited / 2


def test_search_is_clean_for_the_next_utterance():
    rng = np.random.default_rng(4)
    fst = random_fst(rng)
    first, second = random_loglikes(rng, 9), random_loglikes(rng, 6)
    search = Search(Graph.of(fst))
    run(search, first, Beams(5.0, 3.0, 30))
    again, fresh = (run(s, second, Beams(5.0, 3.0, 30)) for s in (search, Search(Graph.of(fst))))
    np.testing.assert_array_equal(again.arcs.acoustic, fresh.arcs.acoustic)
    assert (search.number == -1).all()


def test_epsilon_paths_are_the_best_of_their_kind():
    rows = [(0, 0, 1.0, 1), (0, 0, 5.0, 2), (0, 3, 2.0, 2), (0, 0, 1.5, 2), (1, 0, 0.0, 2)]
    graph = Graph.of(make([0, 0, 0, 1, 2], rows, [np.inf, np.inf, 0.0]))
    first, count = graph.spans[0, 2:]
    paths = graph.arcs[first : first + count]
    assert sorted(zip(paths[:, 1].tolist(), paths[:, 2].view(np.float32).tolist(), paths[:, 3].tolist())) == [
        (0, 2.5, 2),  # by state 1, which is of no use itself
        (3, 2.0, 2),
    ]


def test_cycle_of_epsilons_is_refused():
    with pytest.raises(UserError, match="cycle of epsilons"):
        Graph.of(make([0, 1, 1], [(0, 0, 1.0, 1), (0, 0, 1.0, 0), (1, 0, 0.0, 1)], [np.inf, 0.0]))


def test_three_words_on_a_path_of_epsilons():
    rows = [(0, 1, 1.0, 1), (0, 2, 1.0, 2), (0, 3, 0.5, 3), (1, 4, 0.25, 3)]
    graph = Graph.of(make([0, 1, 2, 3], rows, [np.inf, np.inf, np.inf, 0.0]))
    assert graph.most_labels() == (1, 4)
    found = run(Search(graph), np.zeros((2, 1), np.float32), Beams(10.0, 10.0, 10))
    assert lattices(found.arcs).best("0", 10, 0) == ["W1", "W2", "W3", "W4", "W4"]
    assert costs(found.arcs, 10, 0) == pytest.approx(3.0)


def test_missing_graph_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="missing"):
        Graph.read(tmp_path / "HCLG.fst")
