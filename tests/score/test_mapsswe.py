"""MAPSSWE against NIST's sc_stats, and its segments by hand."""

import random
import re

import pytest
from scipy import stats

from asr_parallel.score.align import SCLITE, align
from asr_parallel.score.mapsswe import mapsswe, segments


def aligned(ref, *hyps):
    return [align(ref.split(), hyp.split(), SCLITE) for hyp in hyps]


@pytest.mark.parametrize(
    ("ref", "a", "b", "expected"),
    [
        ("a b c d", "a b c d", "a b c d", []),
        ("a b c d", "x b c d", "a b c d", [(1, 0)]),
        # two right words part the errors, one does not
        ("a b c d e f g", "x b c y e f g", "a b c d e f g", [(1, 0), (1, 0)]),
        ("a b c d e f g", "x b y d e f g", "a b c d e f z", [(2, 0), (0, 1)]),
        # right in one system only is not right
        ("a b c d e f g", "x b c d e f y", "a b x d e f g", [(1, 1), (1, 0)]),
        # an insertion between two right words keeps them from parting
        ("a b c d e", "x b q c d e", "a b c d z", [(2, 0), (0, 1)]),
        ("a b c d", "x b q c y", "a b c d", [(3, 0)]),
        # insertions before the first and after the last word
        ("a b c d", "q a b c d", "a b c d r s", [(1, 0), (0, 2)]),
        ("", "q", "r s", [(1, 2)]),
        ("a", "", "a", [(1, 0)]),
    ],
)
def test_segments_by_hand(ref, a, b, expected):
    assert segments(*aligned(ref, a, b)) == expected


def test_all_errors_are_in_a_segment():
    rng = random.Random(0)
    for _ in range(300):
        ref, a, b = (" ".join(rng.choices("abc", k=rng.randint(0, 9))) for _ in range(3))
        pair = aligned(ref, a, b)
        errors = tuple(sum(r != h for r, h in side) for side in pair)
        found = segments(*pair)
        assert tuple(map(sum, zip(*found, strict=True))) == (errors if found else ())
        assert segments(*pair[::-1]) == [each[::-1] for each in found]


def test_references_that_alternates_made_differ_are_one_segment():
    a, b = [("a", "a"), ("b", "x"), ("c", "c"), ("d", "d"), ("e", "q")], [("a", "a"), ("c", "c")]
    assert segments(a, b) == [(2, 0)]
    assert segments(b, b[:1]) == []


def test_mean_z_and_p_are_those_of_a_normal_test():
    pairs = [aligned("a b c", hyp, "a b c") for hyp in ("x b c", "x y z", "a b c", "a b x")]
    pairs.append(aligned("a b c", "a b c", "a y c"))
    result = mapsswe(pairs)
    z = stats.ttest_1samp([1, 3, 1, -1], 0).statistic
    assert (result.segments, result.mean) == (4, 1.0)
    assert result.z == pytest.approx(z)
    assert result.p == pytest.approx(2 * stats.norm.sf(z))


def test_where_there_is_no_spread_there_is_no_test():
    assert mapsswe([aligned("a b", "a b", "a b")]) == mapsswe([])
    assert (mapsswe([]).segments, mapsswe([]).p) == (0, 1.0)
    assert mapsswe([aligned("a b", "x b", "a y")]).p == 1.0
    one = mapsswe([aligned("a b", "x b", "a b")])
    assert (one.segments, one.mean, one.z, one.p) == (1, 1.0, None, None)


def distort(rng, words, rate):
    for word in words:
        chance = rng.random()
        if chance > 0.4 * rate:
            yield word if chance > 1.4 * rate else rng.choice("abcdefgh")
        if rng.random() < rate / 3:
            yield rng.choice("abcdefgh")


def test_equals_sc_stats(sctk):
    rng = random.Random(5)
    names = [f"s{i % 5}-{i:03d}" for i in range(150)]
    refs = [rng.choices("abcdefgh", k=rng.randint(1, 14)) for _ in names]
    systems = {name: [list(distort(rng, r, rate)) for r in refs] for name, rate in (("A", 0.2), ("B", 0.15))}
    for name, texts in {"R": refs, **systems}.items():
        lines = [" ".join([*text, f"({utt})"]) for utt, text in zip(names, texts)]
        (sctk.folder / name).write_text("\n".join(lines) + "\n")
    hyps = [x for name in systems for x in ("-h", name, "trn", name)]
    sctk.run("sclite", "-r", "R", "trn", *hyps, "-i", "spu_id", "-s", "-o", "sgml", "-O", ".")
    sgml = "".join((sctk.folder / f"{name}.sgml").read_text() for name in systems)
    said = sctk.run("sc_stats", "-p", "-t", "mapsswe", "-v", "-n", "-", stdin=sgml)
    found = re.search(r"# segs: (\d+).*mean: *(\S+)\).*Z Stat: *(\S+)\)", said)
    pairs = [[align(r, h, SCLITE) for h in each] for r, *each in zip(refs, *systems.values(), strict=True)]
    result = mapsswe(pairs)
    assert result.segments == int(found[1])
    assert result.mean == pytest.approx(float(found[2]), abs=5e-4)
    assert result.z == pytest.approx(float(found[3]), abs=5e-4)
