import math

import numpy as np
import pytest

from asr_parallel.score.significance import MIN_SPEAKERS, bootstrap, compare


def one_word_utts(n, wrong):
    return [1] * wrong + [0] * (n - wrong), [1] * n


def test_interval_of_independent_words_is_binomial():
    errors, words = one_word_utts(1000, 300)
    interval = bootstrap(errors, words)
    half = 1.96 * 100 * math.sqrt(0.3 * 0.7 / 1000)
    assert interval.wer == pytest.approx(30)
    assert interval.low == pytest.approx(30 - half, abs=0.15)
    assert interval.high == pytest.approx(30 + half, abs=0.15)
    assert interval.unit == "utterances"


def test_interval_equals_kaldialign():
    kaldialign = pytest.importorskip("kaldialign")
    rng = np.random.default_rng(3)
    refs = [["w"] * int(n) for n in rng.integers(1, 15, size=200)]
    hyps = [[w if rng.random() < 0.7 else "x" for w in ref] for ref in refs]
    hyps2 = [[w if rng.random() < 0.72 else "x" for w in ref] for ref in refs]
    errors, errors2 = ([sum(a != b for a, b in zip(r, h)) for r, h in zip(refs, hh)] for hh in (hyps, hyps2))
    words = [len(r) for r in refs]
    theirs = kaldialign.bootstrap_wer_ci(refs, hyps, hyps2, replications=10_000)
    ours = bootstrap(errors, words)
    assert ours.low == pytest.approx(100 * theirs["system1"]["ci95min"], abs=0.2)
    assert ours.high == pytest.approx(100 * theirs["system1"]["ci95max"], abs=0.2)
    both = compare(errors, errors2, words)
    assert both.p_better == pytest.approx(theirs["p_s2_improv_over_s1"], abs=0.02)
    assert both.wer_b == pytest.approx(100 * sum(errors2) / sum(words))


def test_utterances_of_a_speaker_are_drawn_together():
    # 12 speakers, each all right or all wrong: the interval is that of 12 coins, not of 1,200
    spks = [f"s{i // 100:02d}" for i in range(1200)]
    errors = [int(spk < "s06") for spk in spks]
    by_spk, by_utt = bootstrap(errors, [1] * 1200, spks), bootstrap(errors, [1] * 1200)
    assert (by_spk.unit, by_utt.unit) == ("speakers", "utterances")
    assert by_spk.high - by_spk.low == pytest.approx(2 * 1.96 * 50 / math.sqrt(12), rel=0.15)
    assert by_utt.high - by_utt.low == pytest.approx(2 * 1.96 * 50 / math.sqrt(1200), rel=0.1)


def test_few_speakers_do_not_replace_utterances():
    spks = [f"s{i % (MIN_SPEAKERS - 1)}" for i in range(90)]
    assert bootstrap([1] * 90, [2] * 90, spks).unit == "utterances"


def test_same_seed_same_interval_other_seed_close():
    errors, words = one_word_utts(400, 100)
    assert bootstrap(errors, words, seed=1) == bootstrap(errors, words, seed=1)
    assert bootstrap(errors, words, seed=1).low == pytest.approx(bootstrap(errors, words, seed=2).low, abs=0.3)


def test_memory_blocks_do_not_change_the_draws(monkeypatch):
    errors, words = one_word_utts(50, 10)
    whole = bootstrap(errors, words)
    monkeypatch.setattr("asr_parallel.score.significance._CELLS", 333)
    assert bootstrap(errors, words) == whole


def test_no_words_no_interval_and_empty_references_survive():
    assert bootstrap([1, 2], [0, 0]) is None
    assert compare([1, 2], [0, 0], [0, 0]) is None
    interval = bootstrap([1, 0, 0], [0, 1, 0])  # draws without any word are put aside
    assert math.isfinite(interval.high)
    assert interval.wer == 100


def test_a_system_against_itself_is_even():
    errors, words = one_word_utts(100, 30)
    result = compare(errors, errors, words)
    assert (result.p_better, result.relative, result.low, result.high, result.p) == (0.5, 0, 0, 0, 1)


def test_p_is_that_of_a_normal_test():
    # one utterance in 25 is better and one in 40 worse
    gain = np.repeat([1, -1, 0], [40, 25, 935])
    result = compare([1] * 1000, list(1 - gain), [1] * 1000)
    z = gain.mean() / (gain.std() / math.sqrt(1000))
    assert result.p == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.015)


def test_other_reference_words_of_the_new_system():
    errors, words = one_word_utts(100, 30)
    result = compare(errors, errors, words, words_b=[2] * 100)
    assert (result.wer_a, result.wer_b, result.relative, result.p_better) == (30, 15, 50, 1)
    assert result.low < 15 < result.high
    assert result.high - result.low == pytest.approx(2 * 1.96 * 50 * math.sqrt(0.21 / 100), rel=0.1)


def test_pairing_sees_what_two_intervals_hide():
    # B is right once more in every tenth utterance: the intervals overlap, yet B is never worse
    rng = np.random.default_rng(0)
    errors_a = rng.integers(1, 8, size=300)
    errors_b = errors_a - (np.arange(300) % 10 == 0)
    words = [10] * 300
    a, b = bootstrap(errors_a, words), bootstrap(errors_b, words)
    assert a.low < b.high
    result = compare(errors_a, errors_b, words)
    assert result.p_better == 1
    assert 0 < result.low < a.wer - b.wer < result.high
    assert result.relative == pytest.approx(100 * 30 / sum(errors_a))
    assert compare(errors_b, errors_a, words).p_better == 0
