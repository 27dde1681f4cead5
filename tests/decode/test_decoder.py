"""The decoder on graphs that are small enough to walk all paths."""

from __future__ import annotations

import itertools

import kaldifst
import numpy as np
import pytest

from asr_parallel.decode import search as search_module
from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.decode.reach import Reach, reach
from asr_parallel.decode.search import Beams, Search
from asr_parallel.decode.search_graph import Graph
from asr_parallel.lang.arrays import FstArrays

ACWT = 0.1
WORDS = dict(enumerate(["<eps>", "A", "B", "C"]))
# ilabel = pdf + 1; epsilons at the start, between words and in a back-off; homophones A and B
ARCS = [
    (0, 1, 0, 1, 0.4),
    (0, 2, 0, 0, 0.9),
    (1, 3, 1, 0, 0.3),
    (2, 3, 1, 2, 0.1),
    (2, 4, 2, 3, 0.2),
    (3, 3, 1, 0, 0.5),
    (3, 4, 3, 0, 0.7),
    (4, 4, 3, 0, 0.6),
    (4, 0, 0, 0, 1.1),
    (3, 0, 0, 3, 0.2),
]
FINALS = {4: 0.3, 3: 1.5}


def graph(arcs=ARCS, finals=FINALS):
    lines = [" ".join(map(str, arc)) for arc in arcs] + [f"{s} {c}" for s, c in finals.items()]
    return Graph.of(FstArrays.from_fst(kaldifst.compile("\n".join(lines) + "\n", acceptor=False)))


def all_paths(loglikes, arcs=ARCS, finals=FINALS):
    """(words, graph cost, acoustic cost) of every way through the graph that takes all frames."""

    def walk(state, t, words, cost, acoustic):
        if t == len(loglikes) and state in finals:
            yield words, cost + finals[state], acoustic
        for src, dst, ilabel, olabel, weight in arcs:
            if src != state or (ilabel and t == len(loglikes)):
                continue
            score = loglikes[t, ilabel - 1] if ilabel else 0.0
            yield from walk(
                dst, t + bool(ilabel), words + ((WORDS[olabel],) if olabel else ()), cost + weight, acoustic - score
            )

    return list(walk(0, 0, (), 0.0, 0.0))


def decoder(fst, beam=1000.0, lattice_beam=1000.0, num_pdfs=3):
    scorer = Scorer("mfcc", num_pdfs, num_pdfs, lambda feats: feats)
    return Decoder(fst, scorer, ACWT, Beams(beam, lattice_beam, 1000, 1000))


def random_loglikes(seed, frames, pdfs=3):
    return np.random.default_rng(seed).normal(-20, 10, (frames, pdfs)).astype(np.float32)


def lattices_of(decoded):
    return Lattices.join(["spk-u"], [decoded.flag], [decoded.lattice], WORDS)


@pytest.mark.parametrize("frames", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_best_path_at_any_weight_equals_brute_force(frames, seed):
    loglikes = random_loglikes(seed, frames)
    decoded = decoder(graph()).decode(loglikes)
    assert decoded.flag == "ok"
    lattices, found = lattices_of(decoded), all_paths(loglikes)
    for lmwt, wip in itertools.product((1.0, 4.0, 10.0, 30.0), (-0.5, 0.0, 1.0)):
        costs = [g + a / lmwt + wip * len(w) for w, g, a in found]
        best = int(np.argmin(costs))
        assert lattices.costs(lmwt, wip)[0] == pytest.approx(costs[best], abs=1e-3)
        assert tuple(lattices.best("spk-u", lmwt, wip)) == found[best][0]


def test_lattice_beam_prunes():
    loglikes = random_loglikes(0, 40)
    wide, narrow = (decoder(graph(), 100.0, b).decode(loglikes) for b in (20.0, 1.0))
    assert len(narrow.lattice.src) < len(wide.lattice.src)
    assert narrow.arcs < wide.arcs


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_fail_with_their_frame(bad):
    good = random_loglikes(0, 9)
    scores = good.copy()
    scores[4, 1] = bad
    decoded = decoder(graph()).decode(scores)
    assert decoded.flag == "failed"
    assert "features are not finite" in decoded.reason
    assert "(1 of 9 frames, first frame 4)" in decoded.reason
    broken = Decoder(graph(), Scorer("mfcc", 3, 3, lambda feats: scores), ACWT, Beams(10.0, 5.0, 100)).decode(good)
    assert broken.flag == "failed"
    assert "model's scores are not finite" in broken.reason
    assert "(1 of 9 frames, first frame 4)" in broken.reason


def test_no_frames_fail():
    assert decoder(graph()).decode(np.zeros((0, 3), np.float32)).reason == "it has no frames"


# pdf 0 loops for ever in state 1, which is not final; pdf 1 leads to the end at a cost
TRAP = [(0, 1, 1, 1, 0.0), (1, 1, 1, 0, 0.0), (0, 2, 2, 2, 0.0), (2, 2, 2, 0, 0.0)]


def trap(per_frame, frames=10, beam=1.0):
    loglikes = np.zeros((frames, 2), np.float32)
    loglikes[:, 1] = -per_frame / ACWT
    return decoder(graph(TRAP, {2: 0.0}), beam, 1.0, 2).decode(loglikes)


def test_wider_beam_is_tried_when_no_path_ends():
    decoded = trap(0.21)  # ends 2.1 behind the best
    assert (decoded.flag, decoded.reason) == ("retried", "beam 2.5")
    assert lattices_of(decoded).best("spk-u", 1 / ACWT, 0) == ["B"]


def test_unfinished_path_is_kept_and_flagged():
    decoded = trap(1.0)
    assert decoded.flag == "partial"
    assert "final state" in decoded.reason
    assert lattices_of(decoded).best("spk-u", 1 / ACWT, 0) == ["A"]


def test_graph_without_a_way_through_fails():
    dead_end = graph([(0, 1, 1, 1, 0.0)], {1: 0.0})
    decoded = decoder(dead_end).decode(random_loglikes(0, 4))
    assert decoded.flag == "failed"
    assert "no path survives" in decoded.reason
    assert len(decoded.lattice.src) == 0


def test_no_path_in_the_graph_is_told_from_a_narrow_beam():
    """A chain that takes four frames at most, and a likely trap that takes three: the beam loses the chain."""
    chain = [(0, 1, 1, 1, 0.0), (1, 2, 2, 0, 0.0), (2, 3, 2, 0, 0.0), (3, 4, 2, 0, 0.0), (0, 5, 3, 2, 0.0)]
    chain += [(5, 6, 3, 0, 0.0), (6, 7, 3, 0, 0.0)]
    loglikes = np.zeros((4, 3), np.float32)
    loglikes[:, :2] = -3.0 / ACWT

    def decode(frames, beam):
        scores = np.concatenate([loglikes, loglikes])[:frames]
        return decoder(graph(chain, {4: 0.0}), beam, 5.0).decode(scores)

    assert decode(4, 20.0).flag == "ok"
    narrow, long, short = decode(4, 1.0), decode(6, 20.0), decode(3, 20.0)
    assert (narrow.flag, long.flag, short.flag) == ("failed", "failed", "partial")
    assert "the beam is too narrow (the graph has such paths, but beam 2.5 loses them" in narrow.reason
    assert "not made for this model or utterance (of 6 frames, and it has no path of more than 4)" in long.reason
    assert "not made for this model or utterance (of 3 frames, and it has no path of that length" in short.reason


@pytest.mark.parametrize("seed", range(20))
def test_reach_is_that_of_all_paths(seed):
    rng = np.random.default_rng(seed)
    rows = [(*sorted(rng.choice(6, 2, replace=False)), int(rng.integers(0, 3)), 0, 0.0) for _ in range(9)]
    rows = [(0, 1, 1, 0, 0.0), *((int(s), int(d), *rest) for s, d, *rest in rows)]
    finals = {int(rng.integers(1, 6)): 0.0, 1: 0.0}
    for frames in range(6):
        found = reach(graph(rows, finals), frames)
        ends = [t for t in range(frames + 1) if all_paths(np.zeros((t, 3)), rows, finals)]
        lengths = [t for t in range(frames + 1) if all_paths(np.zeros((t, 3)), rows, dict.fromkeys(range(6), 0.0))]
        assert found == Reach(max(lengths), frames in ends)


def memory_for(monkeypatch, widest):
    """Let the search run out of memory at beams wider than ``widest``."""
    run = Search.run

    def limited(self, loglikes, acwt, beams):
        if beams.beam > widest:
            raise MemoryError
        return run(self, loglikes, acwt, beams)

    monkeypatch.setattr("asr_parallel.decode.decoder.Search.run", limited)


def test_out_of_memory_is_survived(monkeypatch):
    memory_for(monkeypatch, 0.0)
    decoded = decoder(graph()).decode(random_loglikes(0, 4))
    assert decoded.flag == "failed"
    assert decoded.reason == "out of memory: use fewer jobs (even at beam 350)"


def test_search_that_ran_out_of_memory_leaves_no_trace(monkeypatch):
    """Memory ends in the third frame, whose tokens are then numbered; the next utterance must not find them."""
    loglikes = random_loglikes(0, 4)
    expected = decoder(graph()).decode(loglikes)
    search, calls = Search(graph()), []
    real = search_module.close

    def limited(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(search_module, "close", limited)
    wide = Beams(1000.0, 1000.0, 1000, 1000)
    with pytest.raises(MemoryError):
        search.run(loglikes, ACWT, wide)
    again = search.run(loglikes, ACWT, wide)
    assert WordLattice.of(again.arcs).graph.tolist() == expected.lattice.graph.tolist()


def test_narrower_beam_is_tried_when_memory_does_not_suffice(monkeypatch):
    loglikes = random_loglikes(0, 4)
    expected = decoder(graph(), 500.0).decode(loglikes)
    memory_for(monkeypatch, 600.0)
    decoded = decoder(graph()).decode(loglikes)
    assert (decoded.flag, decoded.reason) == ("retried", "beam 500: out of memory at 1000")
    assert lattices_of(decoded).best_all(10, 0) == lattices_of(expected).best_all(10, 0)
    memory_for(monkeypatch, 1.2)
    assert trap(1.0, beam=1.2).flag == "partial"  # no memory for wider beams
    assert "no path survives at 1.2" not in trap(1.0, beam=1.2).reason
