"""n-best, posteriors and minimum Bayes risk against all paths of small lattices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asr_parallel.decode import determinise as determinise_module
from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.determinise import determinise, pruned, sorted_lattice
from asr_parallel.decode.lattice import WordLattice
from asr_parallel.decode.mbr import confidences, minimum_bayes_risk
from asr_parallel.decode.nbest import n_best

LMWT, WIP = 7.0, 0.3
SEEDS = st.integers(0, 2**32 - 1)


def random_lattice(seed, states=9, arcs=18, words=3, eps=0.4):
    rng = np.random.default_rng(seed)
    ends = np.sort(np.array([rng.choice(states, 2, replace=False) for _ in range(arcs)]), axis=1)
    word = np.where(rng.random(arcs) < eps, 0, rng.integers(1, words + 1, arcs))
    costs = rng.uniform(-2, 4, arcs).round(3), rng.uniform(-9, 9, arcs).round(3)
    return WordLattice.of(Arcs(0, states - 1, ends[:, 0], ends[:, 1], word, *costs))


def best_paths(lattice, lmwt=LMWT):
    """{words: (graph, acoustic)} of the best path of each word sequence at ``lmwt``, by recursion over all paths."""
    arcs = list(zip(*(getattr(lattice, n).tolist() for n in ("src", "dst", "word", "graph", "acoustic"))))
    last = len(lattice.level) - 1
    best: dict = {}

    def walk(state, words, graph, acoustic):
        if state == last:
            now = graph + acoustic / lmwt
            if words not in best or now < best[words][0] + best[words][1] / lmwt:
                best[words] = (graph, acoustic)
            return
        for src, dst, word, g, a in arcs:
            if src == state:
                walk(dst, words + ((word,) if word else ()), graph + g, acoustic + a)

    if arcs:
        walk(0, (), 0.0, 0.0)
    return best


def posteriors(lattice):
    """Probability of each word sequence, which its best path stands for."""
    weight = {w: math.exp(-(g + a / LMWT + WIP * len(w))) for w, (g, a) in best_paths(lattice).items()}
    return {w: x / sum(weight.values()) for w, x in weight.items()}


def edit_distance(x, y):
    row = list(range(len(y) + 1))
    for i, a in enumerate(x, 1):
        above, row = row, [i]
        for j, b in enumerate(y, 1):
            row.append(min(above[j - 1] + (a != b), above[j] + 1, row[-1] + 1))
    return row[-1]


def expected_errors(words, posterior):
    return sum(p * edit_distance(words, said) for said, p in posterior.items())


def tree(seed, paths=6, words=3):
    """A deterministic lattice in which every word sequence has states of its own, and their costs."""
    rng = np.random.default_rng(seed)
    said = {tuple(rng.integers(1, words + 1, rng.integers(1, 5)).tolist()) for _ in range(paths)}
    number, rows = {(): 0}, []
    for words in sorted(said):
        for n in range(len(words)):
            if words[: n + 1] not in number:
                number[words[: n + 1]] = len(number)
                rows.append((number[words[:n]], number[words[: n + 1]], words[n], *rng.uniform(0, 2, 2)))
    end = len(number)
    rows += [(number[words], end, 0, *rng.uniform(0, 2, 2)) for words in sorted(said)]
    src, dst, word, graph, acoustic = (np.array(c) for c in zip(*rows))
    return sorted_lattice(Arcs(0, end, src, dst, word, graph, acoustic))


@settings(max_examples=150, deadline=None)
@given(SEEDS)
@example(5590840)  # the worst path is worse than the best by all costs there are
def test_determinised_lattice_has_the_same_words_with_the_same_best_costs(seed):
    raw = random_lattice(seed)
    small = determinise(raw, LMWT).lattice
    expected, got = best_paths(raw), best_paths(small)
    assert got.keys() == expected.keys()
    for words, pair in expected.items():
        assert got[words] == pytest.approx(pair, abs=1e-3), words
    labels = list(zip(small.src.tolist(), small.word.tolist()))
    assert len(set(labels)) == len(labels)
    assert (small.dst[small.word == 0] == len(small.level) - 1).all()


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.floats(0.1, 4))
def test_beam_keeps_what_is_within_it(seed, beam):
    raw = random_lattice(seed)
    price = {w: g + a / LMWT + WIP * len(w) for w, (g, a) in best_paths(raw).items()}
    kept = best_paths(determinise(raw, LMWT, WIP, beam).lattice)
    for words, cost in price.items():
        if cost < min(price.values()) + beam - 1e-3:
            assert words in kept
    for arcs in (pruned(raw, LMWT, WIP, beam), raw):  # every arc of the pruned one lies on a path within the beam
        assert len(arcs.src) <= len(raw.src)


def test_result_that_is_too_large_gets_a_narrower_beam(monkeypatch):
    wide = determinise(random_lattice(5, states=12, arcs=40), LMWT, beam=50.0)
    monkeypatch.setattr(determinise_module, "GROWTH", 0)
    monkeypatch.setattr(determinise_module, "LEAST", len(wide.lattice.src) // 3)
    narrow = determinise(random_lattice(5, states=12, arcs=40), LMWT, beam=50.0)
    assert narrow.beam < wide.beam == 50.0
    assert 0 < len(narrow.lattice.src) <= len(wide.lattice.src) // 3
    assert n_best(narrow.lattice, 1, LMWT) == n_best(wide.lattice, 1, LMWT)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(1, 12))
def test_n_best_equals_brute_force(seed, n):
    raw = random_lattice(seed)
    found = n_best(determinise(raw, LMWT).lattice, n, LMWT, WIP)
    price = {w: g + a / LMWT + WIP * len(w) for w, (g, a) in best_paths(raw).items()}
    assert [h.cost for h in found] == pytest.approx(sorted(price.values())[:n], abs=1e-3)
    assert len({h.words for h in found}) == len(found) == min(n, len(price))
    for h in found:
        assert h.cost == pytest.approx(price[h.words], abs=1e-3)
        assert h.graph + h.acoustic / LMWT + WIP * len(h.words) == pytest.approx(h.cost, abs=1e-4)


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.lists(st.integers(1, 4), max_size=4))
def test_risk_is_the_expected_edit_distance(seed, hypothesis):
    """Exact on a tree, for words that the lattice has and for others (word 4)."""
    lattice = tree(seed)
    risk = confidences(lattice, hypothesis, LMWT, WIP).risk
    assert risk == pytest.approx(expected_errors(tuple(hypothesis), posteriors(lattice)), abs=1e-3)


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.lists(st.integers(1, 3), max_size=4))
def test_risk_is_a_bound_where_paths_share_states(seed, hypothesis):
    lattice = determinise(random_lattice(seed), LMWT).lattice
    if len(lattice.src):
        risk = confidences(lattice, hypothesis, LMWT, WIP).risk
        assert risk >= expected_errors(tuple(hypothesis), posteriors(lattice)) - 1e-6


def all_sequences(words=3, length=4):
    found = [()]
    for said in found:
        if len(said) < length:
            found += [(*said, w) for w in range(1, words + 1)]
    return found


def test_minimum_bayes_risk_equals_the_enumeration_of_all_hypotheses():
    """The search climbs from the best path, so it may stop before the least risk of all; it hardly ever does."""
    least = []
    for seed in range(60):
        lattice = tree(seed)
        posterior = posteriors(lattice)
        found = minimum_bayes_risk(lattice, LMWT, WIP)
        risk = expected_errors(found.words, posterior)
        assert risk == pytest.approx(found.risk, abs=1e-3)
        assert risk <= expected_errors(max(posterior, key=posterior.get), posterior) + 1e-6
        best = min(expected_errors(words, posterior) for words in all_sequences())
        least.append(risk < best + 1e-6)
        assert risk < 1.25 * best + 1e-6
    assert sum(least) >= 0.9 * len(least)


def test_minimum_bayes_risk_beats_the_best_path():
    """Three sequences, of which the likeliest shares no word with the others."""
    rows = [(0, 1, 1, 1.0), (1, 7, 1, 0.0), (0, 2, 2, 1.2), (2, 7, 3, 0.0), (0, 3, 3, 1.2), (3, 7, 3, 0.0)]
    src, dst, word, graph = (np.array(c) for c in zip(*rows))
    lattice = sorted_lattice(Arcs(0, 7, src, dst, word, graph.astype(float), np.zeros(len(rows))))
    p = np.exp([-1.0, -1.2, -1.2])
    p /= p.sum()
    assert n_best(lattice, 1, LMWT)[0].words == (1, 1)
    found = minimum_bayes_risk(lattice, LMWT)
    assert found.words in ((2, 3), (3, 3), (1, 3))
    assert found.confidence[1] == pytest.approx(p[1] + p[2])
    assert found.risk == pytest.approx(p[0] + min(1 - p[0], 1 - p[1]), abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_confidences_are_posteriors(seed):
    """Of words that stand in the same place of every path: each bin has the probability of the paths with that word."""
    rng = np.random.default_rng(seed)
    rows = [(n, n + 1, w, rng.uniform(0, 2), rng.uniform(0, 5)) for n in range(4) for w in (3 * n + 1, 3 * n + 2)]
    src, dst, word, graph, acoustic = (np.array(c) for c in zip(*rows))
    lattice = sorted_lattice(Arcs(0, 4, src, dst, word, graph, acoustic))
    posterior = posteriors(lattice)
    best = n_best(lattice, 1, LMWT, WIP)[0].words
    found = confidences(lattice, best, LMWT, WIP)
    expected = [sum(p for said, p in posterior.items() if said[i] == w) for i, w in enumerate(best)]
    assert found.confidence == pytest.approx(expected, abs=1e-6)
    assert found.risk == pytest.approx(4 - sum(expected), abs=1e-6)
    assert all(sum(b.values()) == pytest.approx(1.0, abs=1e-3) for b in found.bins)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_bins_hold_all_probability(seed):
    lattice = determinise(random_lattice(seed), LMWT).lattice
    found = minimum_bayes_risk(lattice, LMWT, WIP)
    if found is None:
        assert not len(lattice.src)
        return
    assert len(found.bins) == 2 * len(found.words) + 1
    assert all(sum(b.values()) == pytest.approx(1.0, abs=2e-3) for b in found.bins)
    assert all(0 <= c <= 1 + 1e-9 for c in found.confidence)


def test_empty_lattice_has_no_hypothesis():
    nothing = determinise(WordLattice.empty(), LMWT).lattice
    assert n_best(nothing, 5, LMWT) == []
    assert minimum_bayes_risk(nothing, LMWT) is None
