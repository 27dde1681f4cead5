"""Volumes, noises and rooms, against the same done by hand on samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.signal
import soundfile
import torch
from test_features import RATE, corpus, wave

from asr_parallel.config import FeaturesConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import run
from asr_parallel.data.frontend import Frontend, read_audio
from asr_parallel.data.manifests import load_cuts
from asr_parallel.log import UserError

FOUR = {"b-1": 8000, "a-2": 12345, "b-0": 30001, "a-1": 4000}

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # in Lhotse


@pytest.fixture(autouse=True)
def _one_thread():
    """As ``features`` has it: Lhotse's random rooms are other ones, a little, with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def noises(tmp_path):
    """Two noises, shorter and longer than the speech, one of another rate, and a file that is none."""
    folder = tmp_path / "musan" / "noise"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    soundfile.write(folder / "short.wav", 0.3 * rng.standard_normal(3000), RATE)
    soundfile.write(folder / "long.wav", 0.1 * rng.standard_normal(100000), 2 * RATE)
    (folder / "broken.wav").write_bytes(b"RIFFjunk")
    (folder / "README").write_text("noises")
    return folder


def perturbed(data, **options):
    config = FeaturesConfig(data=data, kinds=["fbank"], jobs=1, **options)
    run(config)
    return FeatureSet.open(data, "train", "fbank"), {c.id: c for c in load_cuts(data, "train", "fbank")}


def clean(data, utt):
    return soundfile.read(data / f"{utt}.wav", dtype="float32")[0]


def test_noise_is_added_at_the_ratio(tmp_path, noises):
    data = corpus(tmp_path / "data", FOUR)
    features, cuts = perturbed(data, noise=noises, snr=[6.0, 6.0])
    assert features.utts == [*FOUR, *(f"{u}_noise" for u in FOUR)]
    assert features.speakers == ["a", "a_noise", "b", "b_noise"]
    assert features.texts[4:] == features.texts[:4]
    for utt in FOUR:
        x, y = clean(data, utt), read_audio(cuts[f"{utt}_noise"])
        noise = y - x
        assert len(y) == len(x)
        heard = noise[: int(len(x) - 0.1 * RATE)] if utt != "a-1" else noise[: int(len(x) - 0.05 * RATE)]
        assert 10 * np.log10(np.mean(x**2) / np.mean(heard**2)) == pytest.approx(6.0, abs=1.0)
        assert abs(np.corrcoef(x, noise)[0, 1]) < 0.1
        i = features.row_of[f"{utt}_noise"]
        got = features.frames[features.offsets[i] : features.offsets[i + 1]]
        np.testing.assert_array_equal(got, Frontend(RATE)(y)["fbank"])


def test_rooms_of_a_folder_are_a_convolution(tmp_path):
    data = corpus(tmp_path / "data", FOUR)
    rooms = tmp_path / "rirs"
    rooms.mkdir()
    response = np.zeros(2000)
    response[[100, 400, 1500]] = 0.9, 0.5, -0.3
    soundfile.write(rooms / "r.wav", response, RATE, "FLOAT")
    features, cuts = perturbed(data, reverb=rooms)
    assert features.utts == [*FOUR, *(f"{u}_rvb" for u in FOUR)]
    assert features.speakers == ["a", "a_rvb", "b", "b_rvb"]
    for utt in FOUR:
        x = clean(data, utt)
        expected = scipy.signal.fftconvolve(x, response)[100 : 100 + len(x)]  # the direct sound stays where it was
        expected *= np.sqrt(np.sum(x**2) / np.sum(expected**2))
        np.testing.assert_allclose(read_audio(cuts[f"{utt}_rvb"]), expected, atol=1e-4)
    same = np.diff(features.offsets)
    assert (same[:4] == same[4:]).all()


def test_random_rooms_differ_by_utterance_and_seed(tmp_path):
    data = corpus(tmp_path / "data", {"a-1": 8000, "a-2": 8000})
    _, cuts = perturbed(data, reverb=Path("random"))
    heard = [read_audio(cuts[f"{utt}_rvb"]) / clean(data, utt).std() for utt in ("a-1", "a-2")]
    assert all(abs(x - clean(data, u) / clean(data, u).std()).max() > 0.1 for x, u in zip(heard, ("a-1", "a-2")))
    rirs = [cut.recording.transforms[-1].rir_generator for utt, cut in cuts.items() if utt.endswith("_rvb")]
    assert len({(r.room_seed, r.source_seed) for r in rirs}) == 2
    again = perturbed(data, reverb=Path("random"), seed=1)[1]
    assert abs(read_audio(again["a-1_rvb"]) - read_audio(cuts["a-1_rvb"])).max() > 0.01


def test_volumes_are_gains_within_the_range(tmp_path):
    data = corpus(tmp_path / "data", FOUR)
    features, cuts = perturbed(data, volume=[0.25, 2.0], speed=[0.9])
    assert features.utts == [*FOUR, *(f"{u}_sp0.9" for u in FOUR)]
    gains = []
    for utt in FOUR:
        x, y = clean(data, utt), read_audio(cuts[utt])
        gains.append(float(y @ x / (x @ x)))
        np.testing.assert_allclose(y, gains[-1] * x, atol=1e-5)
    assert len({round(g, 3) for g in gains}) == 4
    assert min(gains) >= 0.25
    assert max(gains) <= 2.0


def test_t23_jobs_and_other_utterances_do_not_matter(tmp_path, noises):
    """What is drawn for an utterance depends on its id and the seed alone."""
    heard = []
    for jobs, utts in ((1, FOUR), (2, FOUR), (1, {"b-1": FOUR["b-1"]})):
        data = corpus(tmp_path / f"data{len(heard)}", utts)
        run(FeaturesConfig(data=data, jobs=jobs, noise=noises, reverb=Path("random"), volume=[0.5, 2.0]))
        heard.append({cut.id: read_audio(cut) for cut in load_cuts(data, "train", "mfcc")})
    assert len(heard[0]) == 12
    for cut in load_cuts(tmp_path / "data0", "train", "mfcc"):
        np.testing.assert_array_equal(read_audio(cut), read_audio(cut))
    for other in heard[1:]:
        assert {"b-1", "b-1_noise", "b-1_rvb"} <= set(other)
        for utt in other:
            np.testing.assert_array_equal(other[utt], heard[0][utt])
    frames = [(tmp_path / f"data{i}/train/feats_mfcc.frames").read_bytes() for i in (0, 1)]
    assert frames[0] == frames[1]


def test_changed_noises_make_features_stale(tmp_path, noises):
    data = corpus(tmp_path / "data", FOUR)
    store = data / "train" / "feats_fbank.frames"
    perturbed(data, noise=noises)
    first = store.stat().st_ino
    perturbed(data, noise=noises)
    assert store.stat().st_ino == first
    soundfile.write(noises / "third.wav", wave(4000, 7), RATE)
    perturbed(data, noise=noises)
    assert store.stat().st_ino != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"volume": [1.0]}, "--volume"), ({"volume": [2.0, 1.0]}, "--volume"), ({"volume": [0.0, 1.0]}, "--volume"),
        ({"snr": [20.0, 5.0]}, "--snr"), ({"noise": Path("nowhere")}, "nowhere has no audio files"),
        ({"reverb": Path("nowhere")}, "nowhere has no audio files"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(tmp_path, options, message):
    data = corpus(tmp_path / "data", {"a-1": 8000})
    with pytest.raises(UserError, match=message):
        perturbed(data, **options)


def test_silence_cannot_be_mixed_and_is_listed(tmp_path, noises):
    data = corpus(tmp_path / "data", FOUR)
    soundfile.write(data / "a-1.wav", np.zeros(4000), RATE)
    features, _ = perturbed(data, noise=noises, max_bad=0.2)
    assert "a-1" in features
    assert len(features) >= 7
