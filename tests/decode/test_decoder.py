"""The decoder on graphs that are small enough to walk all paths."""

from __future__ import annotations

import itertools

import kaldifst
import numpy as np
import pytest

from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.search import Beams
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


def test_out_of_memory_is_survived(monkeypatch):
    def run(*_):
        raise MemoryError

    monkeypatch.setattr("asr_parallel.decode.decoder.Search.run", run)
    decoded = decoder(graph()).decode(random_loglikes(0, 4))
    assert decoded.flag == "failed"
    assert "out of memory" in decoded.reason
