"""Splits: by speaker, of the sizes asked for, the same for any order, and what happens with few speakers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr_parallel.data.manifests import Utt
from asr_parallel.log import UserError
from asr_parallel.prepare.item import set_of
from asr_parallel.prepare.split import choose, split

SHARES = {"dev": 0.05, "test": 0.1}


def utts(*seconds_by_speaker):
    """Speakers s0, s1, ... with utterances of these seconds."""
    return [
        Utt(f"s{i}-{j}", f"s{i}", "A", "a.wav", 100, round(100 * s))
        for i, seconds in enumerate(seconds_by_speaker)
        for j, s in enumerate(seconds)
    ]


def seconds_of(rows, sets, name):
    return sum(u.duration for u in rows if sets[u.id] == name)


def test_no_speaker_is_in_two_sets_and_sizes_are_near():
    rows = utts(*[[5.0 + i % 3] * 8 for i in range(60)])
    sets, how = split(rows, {}, SHARES, 0)
    assert how == "test and dev drawn by speaker"
    speakers = {name: {u.speaker for u in rows if sets[u.id] == name} for name in ("train", "dev", "test")}
    assert sum(map(len, speakers.values())) == 60
    total = sum(u.duration for u in rows)
    for name, share in SHARES.items():
        assert seconds_of(rows, sets, name) == pytest.approx(share * total, abs=30)


def test_only_the_seed_and_names_decide():
    rows = utts(*[[4.0] * 5 for _ in range(40)])
    shuffled = random.Random(1).sample(rows, len(rows))
    assert split(rows, {}, SHARES, 0)[0] == split(shuffled, {}, SHARES, 0)[0]
    assert split(rows, {}, SHARES, 0)[0] != split(rows, {}, SHARES, 1)[0]


def test_what_the_corpus_says_stays_and_only_the_rest_is_drawn():
    rows = utts(*[[4.0] * 5 for _ in range(40)])
    told = {u.id: "test" for u in rows if u.speaker == "s3"}
    sets, how = split(rows, told, SHARES, 0)
    assert how == "dev drawn by speaker"
    assert {u.id for u in rows if sets[u.id] == "test"} == set(told)
    whole = told | {u.id: "dev" for u in rows if u.speaker == "s4"}
    assert split(rows, whole, SHARES, 0)[1] == "sets as the corpus has them"
    with pytest.raises(UserError, match="no utterance is left for train: all are in test"):
        split(rows, {u.id: "test" for u in rows}, SHARES, 0)


@pytest.mark.parametrize("speakers", [1, 2])
def test_d31_few_speakers(speakers):
    """D31 (kaldi#3419): utterances are drawn then, and it is said."""
    sets, how = split(utts(*[[3.0] * 30] * speakers), {}, SHARES, 0)
    assert "by utterance, for speakers are too few" in how
    assert {"train", "dev", "test"} == set(sets.values())
    with pytest.raises(UserError, match="2 utterances are too few"):
        split(utts([3.0, 3.0]), {}, SHARES, 0)


def test_d31_one_speaker_has_nearly_all():
    rows = utts([10.0] * 90, [5.0] * 8, [5.0] * 6, [5.0] * 4)
    sets, _ = split(rows, {}, SHARES, 0)
    assert all((sets[u.id] == "train") == (u.speaker == "s0") for u in rows)
    assert {"dev", "test"} < set(sets.values())


def test_sets_that_are_not_wanted_are_not_drawn():
    rows = utts(*[[4.0] * 5 for _ in range(10)])
    assert set(split(rows, {}, {"dev": 0.0, "test": 0.0}, 0)[0].values()) == {"train"}


@settings(max_examples=60)
@given(st.dictionaries(st.text(min_size=1), st.floats(0.1, 100), min_size=1), st.floats(0.01, 0.5), st.integers(0, 5))
def test_chosen_groups_are_near_what_was_wanted(seconds, share, seed):
    wanted = share * sum(seconds.values())
    found = choose(seconds, wanted, len(seconds), seed)
    assert len(set(found)) == len(found) >= 1
    total = sum(seconds[name] for name in found)
    assert total <= max(2 * wanted, min(seconds.values())) + 1e-6
    left = [s for name, s in seconds.items() if name not in found]
    # nothing that is left would have come nearer, unless the smallest of all had to be taken
    if total > wanted or len(found) > 1:
        assert all(abs(total + s - wanted) >= abs(total - wanted) - 1e-6 or total + s > wanted for s in left)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train-clean-100", "train"), ("dev-other", "dev"), ("test_clean", "test"), ("validation", "dev"),
        ("valid.tsv", "dev"), ("eval2000", "test"), ("latest", ""), ("contest", ""), ("validated", ""),
        ("TRAIN", "train"),
    ],
)  # fmt: skip
def test_names_that_tell_of_sets(name, expected):
    assert set_of(name) == expected
