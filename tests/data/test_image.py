"""The log-mel picture of a word against its formula, and its way through the store."""

import numpy as np
import pytest
import soundfile

from asr_parallel.config import FeaturesConfig
from asr_parallel.data import features, manifests
from asr_parallel.data.cmvn import EVERYBODY, Cmvn
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.image import FILTERS, FRAMES, WordImage
from asr_parallel.data.kinds import extractor

SHAPE = (FILTERS, FRAMES)


def mel(hz):
    """Slaney's scale: linear up to 1 kHz, then logarithmic."""
    return np.where(hz < 1000, 3 * hz / 200, 15 + 27 * np.log(np.maximum(hz, 1000) / 1000) / np.log(6.4))


def explicit(samples, rate):
    """The same from the formulas: windows around each 32 ms, DFT as sums, triangles of equal area, dB below the top."""
    size, hop = round(0.128 * rate), round(0.032 * rate)
    padded = np.pad(samples.astype(np.float64) * 32768, size // 2)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames = np.stack([padded[i * hop : i * hop + size] * window for i in range(FRAMES)])
    hz = np.arange(size // 2 + 1) * rate / size
    power = np.abs(np.fft.fft(frames)[:, : len(hz)]) ** 2
    grid = np.linspace(0, 10000, 2_000_001)
    edges = np.interp(np.linspace(0, mel(np.array(rate / 2)), FILTERS + 2), mel(grid), grid)
    rows = []
    for low, centre, high in zip(edges, edges[1:], edges[2:]):
        triangle = np.clip(np.minimum((hz - low) / (centre - low), (high - hz) / (high - centre)), 0, None)
        rows.append(power @ triangle * 2 / (high - low))
    db = 10 * np.log10(np.maximum(np.stack(rows), 1e-10))
    return np.maximum(db - db.max(), -80) / 40 + 1


def speech_like(rate, seconds=1.0, seed=0):
    rng, t = np.random.default_rng(seed), np.arange(round(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * f * t * (1 + 0.1 * t)) / k for k, f in enumerate((130, 260, 900, 2100, 3300), 1))
    return (0.1 * voice * np.hanning(len(t)) + 1e-4 * rng.normal(size=len(t))).astype(np.float32)


def image(samples, rate=16000):
    return WordImage(rate)(samples)["image"].reshape(SHAPE)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_values_are_those_of_the_formula(rate):
    samples = speech_like(rate)
    found, expected = image(samples, rate), explicit(samples, rate)
    assert expected.min() < -0.5  # there is a range
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_shape_and_range():
    for rate in (8000, 11025, 16000, 22050, 44100):
        found = WordImage(rate)(speech_like(rate))["image"]
        assert found.shape == (1, 4096)
        assert found.dtype == np.float32
        assert found.max() == 1
        assert found.min() >= -1


def test_a_tone_is_a_row_and_a_click_is_a_column():
    tone = 0.3 * np.sin(2 * np.pi * 1500 * np.arange(16000) / 16000).astype(np.float32)
    rows = image(tone)[:, 4:28].argmax(0)
    assert set(rows.tolist()) == {round(float(mel(np.array(1500)) / mel(np.array(8000)) * (FILTERS + 1))) - 1}
    click = np.zeros(16000, np.float32)
    click[20 * 512] = 0.5
    assert set(image(click).argmax(1).tolist()) == {20}


def test_loudness_makes_no_difference_and_silence_is_no_accident():
    samples = speech_like(16000)
    np.testing.assert_allclose(image(0.05 * samples), image(samples), atol=1e-3)
    assert (image(np.zeros(16000, np.float32)) == 1).all()


def test_a_short_word_is_in_the_middle_and_of_a_long_one_the_middle_is_taken():
    word = speech_like(16000, 0.4)
    padded = np.pad(word, (4800, 4800))
    np.testing.assert_array_equal(image(word), image(padded))
    assert (image(word)[:, :6] == -1).all()
    np.testing.assert_array_equal(image(np.pad(padded, (3000, 3000), constant_values=0.9)), image(padded))
    odd = np.pad(word[:-1], (4800, 4801))
    np.testing.assert_array_equal(image(word[:-1]), image(odd))


@pytest.fixture
def corpus(tmp_path):
    """Four clips by two speakers, one of them far louder."""
    rows = []
    for i, (speaker, word) in enumerate((("a", "YES"), ("a", "NO"), ("b", "YES"), ("b", "NO"))):
        samples = speech_like(16000, 0.5 + 0.2 * i, i) * (0.1 if speaker == "a" else 1)
        path = tmp_path / f"{speaker}{i}.wav"
        soundfile.write(path, samples, 16000)
        rows.append(manifests.Utt(f"{speaker}-{i}", speaker, word, str(path), 16000, len(samples)))
    manifests.write(tmp_path / "data" / "train", rows)
    return tmp_path / "data"


def test_the_store_has_one_row_a_clip_as_it_was_made(corpus):
    features.run(FeaturesConfig(data=corpus, kinds=["image", "fbank"], jobs=1))
    found = FeatureSet.open(corpus, "train", "image")
    assert (found.dim, len(found.frames), found.texts) == (4096, 4, ["YES", "NO", "YES", "NO"])
    assert found.speakers == [EVERYBODY]
    for i, utt in enumerate(found.utts):
        samples = soundfile.read(corpus.parent / f"{utt.replace('-', '')}.wav", dtype="float32")[0]
        np.testing.assert_array_equal(found[utt], WordImage(16000)(samples)["image"], err_msg=str(i))
    cuts = {cut.id: cut for cut in manifests.load_cuts(corpus, "train", "image")}
    np.testing.assert_array_equal(cuts["b-2"].load_features(), found["b-2"])


def test_pictures_do_not_change_other_kinds(corpus):
    samples = speech_like(16000)
    both, alone = extractor(["image", "fbank"], 16000, 40, 13)(samples), extractor(["fbank"], 16000, 40, 13)(samples)
    np.testing.assert_array_equal(both["fbank"], alone["fbank"])
    assert "image" not in alone


def test_a_normalisation_for_all_has_no_speakers():
    assert Cmvn.none(3).rows(["x", "y"]).tolist() == [0, 0]
    own = Cmvn(["x", "y"], np.zeros((2, 3)), np.ones((2, 3)))
    assert own.rows(["y", "x", "y"]).tolist() == [1, 0, 1]
    assert own.rows(["x", EVERYBODY]) is None
