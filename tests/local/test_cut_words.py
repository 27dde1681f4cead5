"""Words cut out of an aligned corpus: which ones, whose they are, and from where to where."""

import argparse
import hashlib
from collections import Counter

import cut_words
import numpy as np
import prepare_speech_commands as prepare
import pytest
import soundfile
from cut_words import Said

from asr_parallel.data.manifests import Utt, load_cuts, write
from asr_parallel.log import UserError

RATE = 8000
HERTZ = {"GO": 500, "STOP": 1500}  # each word is a tone
SPANS = (("GO", 0, 30), ("STOP", 40, 60), ("GO", 70, 82))  # frames of 10 ms


def words(utt):
    return [Said(utt, *span) for span in SPANS]


def test_most_frequent_words_and_of_each_the_longest():
    said = [*words("b-1"), *words("a-1"), Said("a-1", "UP", 90, 95), *(Said("c-1", "A", t, t + 9) for t in range(50))]
    kept = cut_words.chosen(said, 2, 0.1, 3)
    assert {word.word for word in kept} == {"GO", "STOP"}  # A is said most often, but not for 0.1 s
    assert [(w.utt, w.word, w.begin) for w in kept] == [
        *(("a-1", *place) for place in (("GO", 0), ("STOP", 40), ("GO", 70))),
        *(("b-1", *place) for place in (("GO", 0), ("STOP", 40))),
    ]
    assert len(cut_words.chosen(said, 2, 0.1, 0)) == 6
    assert {word.word for word in cut_words.chosen(said, 1, 0.0, 0)} == {"A"}


@pytest.fixture
def args(tmp_path):
    """Two utterances of speaker ``a`` and one of ``b`` in each set, all of the same words."""
    t = np.arange(RATE) / RATE
    samples = sum(
        0.3 * np.sin(2 * np.pi * HERTZ[word] * t) * ((t >= begin / 100) & (t < end / 100)) for word, begin, end in SPANS
    )
    soundfile.write(tmp_path / "all.wav", samples, RATE)
    for name in ("train", "dev", "test"):
        utts = [Utt(f"{utt}{name}", utt[0], "GO STOP GO", str(tmp_path / "all.wav"), RATE, RATE)
                for utt in ("a-1", "a-2", "b-1")]  # fmt: skip
        write(tmp_path / name, utts)
    return argparse.Namespace(data=tmp_path, out=tmp_path / "clips", words=2, least=0.1, most=0)


def heard(path):
    """Seconds of a clip, and the frequency that is loudest in it."""
    samples, rate = soundfile.read(path)
    assert rate == prepare.RATE
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 16 * len(samples)))
    return len(samples) / rate, np.argmax(spectrum) * rate / 16 / len(samples)


def test_a_clip_has_the_word_and_nothing_else_and_the_speakers_next_number(args):
    spans = [word for cut in load_cuts(args.data, "train") for word in words(cut.id)]
    paths = list(cut_words.cut(args, "train", spans, Counter()))
    a, b = (hashlib.sha1(name.encode()).hexdigest()[:8] for name in "ab")
    assert paths == [
        *(f"go/{a}_nohash_0.wav", f"stop/{a}_nohash_0.wav", f"go/{a}_nohash_1.wav"),
        *(f"go/{a}_nohash_2.wav", f"stop/{a}_nohash_1.wav", f"go/{a}_nohash_3.wav"),
        *(f"go/{b}_nohash_0.wav", f"stop/{b}_nohash_0.wav", f"go/{b}_nohash_1.wav"),
    ]
    for path, said in zip(paths, spans, strict=True):
        seconds, hertz = heard(args.out / path)
        assert seconds == pytest.approx(said.seconds)
        assert hertz == pytest.approx(HERTZ[said.word], abs=10)


def test_lists_are_those_that_the_recipe_reads(args, monkeypatch):
    monkeypatch.setattr(
        cut_words, "words_of", lambda a, name: [w for c in load_cuts(a.data, name) for w in words(c.id)]
    )
    monkeypatch.setattr("preparing.setup", lambda: None)  # it would take the log away from pytest
    args.sets, args.most = ["train", "dev", "test"], 2
    cut_words.work(args)
    assert prepare.main(["--source", str(args.out), "--out", str(args.data / "made"), "--jobs", "1"]) == 0
    counts = {name: Counter(c.supervisions[0].text for c in load_cuts(args.data / "made", name)) for name in args.sets}
    assert counts == {"train": {"GO": 2, "STOP": 2}, "dev": {"GO": 6, "STOP": 3}, "test": {"GO": 6, "STOP": 3}}


def test_two_sets_are_refused(args):
    args.sets = ["train", "dev"]
    with pytest.raises(UserError, match="TRAIN DEV TEST"):
        cut_words.work(args)
