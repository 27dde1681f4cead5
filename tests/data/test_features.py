import gzip
import json
from pathlib import Path

import lhotse
import numpy as np
import pytest
import soundfile
import torch
import torchaudio

from asr_parallel.config import FeaturesConfig
from asr_parallel.data import frontend
from asr_parallel.data.cmvn import MIN_FRAMES, Cmvn, CmvnStats
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import run
from asr_parallel.data.frontend import FLOOR, Frontend
from asr_parallel.data.transforms import deltas, splice
from asr_parallel.log import UserError

RATE = 8000

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # in Lhotse


def wave(samples: int, seed: int = 0) -> np.ndarray:
    """Coloured noise with a tone and an offset, whose level rises and falls."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / RATE
    noise = np.convolve(rng.standard_normal(samples + 7), np.hanning(8), "valid")
    x = 0.05 * noise * (1.1 + np.sin(3 * t)) + 0.1 * np.sin(2 * np.pi * (300 + 100 * seed) * t) + 0.01
    return x.astype(np.float32)


def corpus(root: Path, lengths: dict[str, int], channels: int = 1) -> Path:
    """A set ``train`` of wav files with these numbers of samples; speaker is what comes before ``-``."""
    (root / "train").mkdir(parents=True)
    cuts = []
    for i, (utt, samples) in enumerate(lengths.items()):
        path = root / f"{utt}.wav"
        soundfile.write(path, np.stack([wave(samples, i + 10 * c) for c in range(channels)], 1), RATE, "PCM_16")
        source = lhotse.AudioSource("file", list(range(channels)), str(path))
        recording = lhotse.Recording(utt, [source], RATE, samples, samples / RATE)
        supervision = lhotse.SupervisionSegment(
            utt, utt, 0, samples / RATE, text=f"WORD  {utt.upper()}", speaker=utt.split("-")[0]
        )
        cuts.append(lhotse.MonoCut(utt, 0, samples / RATE, 0, [supervision], recording=recording))
    lhotse.CutSet.from_cuts(cuts).to_file(root / "train" / "cuts.jsonl.gz")
    return root


FOUR = {"b-1": 8000, "a-2": 12345, "b-0": 30001, "a-1": 200}


@pytest.mark.parametrize("samples", [200, 239, 240, 279, 280, 281, 8000, 12345])
def test_frontend_against_torchaudio(samples):
    """Reference: torchaudio's port of Kaldi's code.  Largest difference seen: 2e-4 on values up to 100."""
    x = wave(samples)
    ours = Frontend(RATE)(x)
    scaled = torch.from_numpy(x)[None] * 32768
    options = {"sample_frequency": RATE, "snip_edges": False, "dither": 0.0}
    fbank = torchaudio.compliance.kaldi.fbank(scaled, num_mel_bins=40, **options).numpy()
    mfcc = torchaudio.compliance.kaldi.mfcc(scaled, num_mel_bins=23, num_ceps=13, **options).numpy()
    assert (fbank > np.log(FLOOR) + 1).all()  # else the comparison would say little
    np.testing.assert_allclose(ours["fbank"], fbank, atol=1e-3)
    np.testing.assert_allclose(ours["mfcc"], mfcc, atol=2e-3)
    assert len(fbank) == (samples + 40) // 80


def test_frontend_against_lhotse():
    x = wave(20011)
    options = {"sampling_rate": RATE, "high_freq": 0.0}
    fbank = lhotse.Fbank(lhotse.FbankConfig(num_filters=40, **options)).extract(x * 32768, RATE)
    mfcc = lhotse.Mfcc(lhotse.MfccConfig(**options)).extract(x * 32768, RATE)
    hires = lhotse.Mfcc(lhotse.MfccConfig(num_filters=40, num_ceps=40, **options)).extract(x * 32768, RATE)
    ours = Frontend(RATE)(x)
    np.testing.assert_allclose(ours["fbank"], fbank, atol=1e-3)
    np.testing.assert_allclose(ours["mfcc"], mfcc, atol=2e-3)
    np.testing.assert_allclose(ours["mfcc_hires"], hires, atol=5e-3)


def test_every_filter_has_a_bin():
    for rate, filters in ((8000, 40), (11025, 40), (16000, 80)):
        assert (Frontend(rate, filters)._filters.sum(0) > 0).all()


def test_digital_silence_looks_like_kaldis_dither():
    silence = Frontend(RATE)(np.zeros(8000, np.float32))["fbank"]
    np.testing.assert_allclose(silence, np.log(FLOOR), rtol=1e-6)
    dither = np.random.default_rng(0).standard_normal((1, 80000)).astype(np.float32)
    options = {"sample_frequency": RATE, "snip_edges": False, "dither": 0.0, "num_mel_bins": 40}
    kaldi = torchaudio.compliance.kaldi.fbank(torch.from_numpy(dither), **options).numpy()
    assert abs(kaldi.mean() - np.log(FLOOR)) < 1.5


def test_run_leaves_what_the_contract_says(tmp_path):
    data = corpus(tmp_path / "data", FOUR)
    run(FeaturesConfig(data=data, jobs=1))
    for kind, dim in (("mfcc", 13), ("fbank", 40)):
        cuts = list(lhotse.CutSet.from_file(data / "train" / f"cuts_{kind}.jsonl.gz"))
        features = FeatureSet.open(data, "train", kind)
        assert [c.id for c in cuts] == features.utts == list(FOUR)
        assert features.texts == [f"WORD {u.upper()}" for u in FOUR]
        np.testing.assert_allclose(features.durations, [n / RATE for n in FOUR.values()])
        assert features.dim == dim
        expected = [Frontend(RATE)(soundfile.read(data / f"{u}.wav", dtype="float32")[0])[kind] for u in FOUR]
        np.testing.assert_array_equal(features.frames, np.concatenate(expected))
        for cut, feats in zip(cuts, expected):
            lhotse.qa.validate_features(cut.features, feats_data=cut.load_features(), read_data=True)
            np.testing.assert_array_equal(cut.load_features(), feats)
            assert features.num_frames(cut.id) == len(feats) == cut.num_frames
            assert features[cut.id].shape == feats.shape
        assert features.speakers == ["a", "b"]
        assert features.speaker_of.tolist() == [1, 0, 1, 0]
        b = np.concatenate([features["b-1"], features["b-0"]])  # normalised by its own 475 frames
        np.testing.assert_allclose(b.mean(0), 0, atol=1e-3)
        np.testing.assert_allclose(b.std(0), 1, atol=1e-3)
        with pytest.raises(UserError, match="c-1"):
            features["c-1"]


def test_number_of_jobs_does_not_matter(tmp_path):
    data = corpus(tmp_path / "data", {f"s{i % 3}-{i:02d}": 3000 + 777 * i for i in range(36)})
    (data / "s1-01.wav").unlink()
    seen = []
    for jobs in (1, 3):
        run(FeaturesConfig(data=data, jobs=jobs, max_bad=0.1, force=True))
        seen.append({p.name: p.read_bytes() for p in (data / "train").iterdir() if ".npz" not in p.name})
        seen[-1].update({k: np.load(data / "train" / f"cmvn_{k}.npz")["mean"].tobytes() for k in ("mfcc", "fbank")})
    assert seen[0] == seen[1]
    assert len(FeatureSet.open(data, "train", "fbank")) == 35


def test_bad_audio_is_listed_and_survived(tmp_path):
    data = corpus(tmp_path / "data", {f"s-{i}": 4000 for i in range(8)})
    (data / "s-1.wav").write_bytes(b"")
    soundfile.write(data / "s-2.wav", wave(100), RATE)  # shorter than a window
    soundfile.write(data / "s-3.wav", wave(2000), RATE)  # ends early
    soundfile.write(data / "s-4.wav", wave(8000), 2 * RATE)
    soundfile.write(data / "s-5.wav", np.full(4000, np.nan, np.float32), RATE, "FLOAT")
    (data / "s-6.wav").unlink()
    soundfile.write(data / "s-7.wav", wave(3900), RATE)  # a little short: filled up
    run(FeaturesConfig(data=data, jobs=2, max_bad=0.8))
    bad = dict(line.split("\t") for line in (data / "train" / "features_bad.tsv").read_text().splitlines())
    assert list(bad) == [f"s-{i}" for i in range(1, 7)]
    assert "less than a window" in bad["s-2"]
    assert "2000 samples where the manifest says 4000" in bad["s-3"]
    assert "16000 Hz" in bad["s-4"]
    assert "not numbers" in bad["s-5"]
    for kind in ("mfcc", "fbank"):
        features = FeatureSet.open(data, "train", kind)
        assert features.utts == ["s-0", "s-7"]
        assert features.num_frames("s-7") == 50
        assert [c.id for c in lhotse.CutSet.from_file(data / "train" / f"cuts_{kind}.jsonl.gz")] == ["s-0", "s-7"]


def test_too_many_bad_leave_nothing(tmp_path):
    data = corpus(tmp_path / "data", {"s-0": 4000, "s-1": 4000})
    (data / "s-1.wav").unlink()
    with pytest.raises(UserError, match=r"1 of 2 utterances of train .*s-1.*max_bad"):
        run(FeaturesConfig(data=data, jobs=1))
    left = sorted(p.name for p in (data / "train").iterdir())
    assert left == ["cuts.jsonl.gz", "features_bad.tsv"]


def test_resume(tmp_path):
    data = corpus(tmp_path / "data", FOUR)
    config = FeaturesConfig(data=data, jobs=1)
    store = {k: data / "train" / f"feats_{k}.frames" for k in ("mfcc", "fbank")}

    def inodes() -> dict[str, int]:
        return {k: p.stat().st_ino for k, p in store.items()}

    run(config)
    first = inodes()
    whole = store["fbank"].read_bytes()
    run(config)
    assert inodes() == first
    store["fbank"].write_bytes(whole[:-100])
    run(config)
    assert inodes()["mfcc"] == first["mfcc"]
    assert store["fbank"].read_bytes() == whole
    run(FeaturesConfig(data=data, jobs=1, num_mel=24))
    assert FeatureSet.open(data, "train", "fbank").dim == 24
    assert inodes()["mfcc"] == first["mfcc"]
    (data / "train" / "cuts_mfcc.jsonl.gz").unlink()
    run(FeaturesConfig(data=data, jobs=1, num_mel=24))
    assert (data / "train" / "cuts_mfcc.jsonl.gz").exists()


def test_part_of_a_channel(tmp_path):
    data = corpus(tmp_path / "data", {"s-0": 16000}, channels=2)
    path = data / "train" / "cuts.jsonl.gz"
    (whole,) = lhotse.CutSet.from_file(path)
    cut = whole.truncate(offset=0.5, duration=0.7, preserve_id=True)
    cut.channel = 1
    lhotse.CutSet.from_cuts([cut]).to_file(path)
    run(FeaturesConfig(data=data, jobs=1, kinds=["fbank"]))
    samples = soundfile.read(data / "s-0.wav", dtype="float32")[0][4000:9600, 1]
    features = FeatureSet.open(data, "train", "fbank")
    np.testing.assert_array_equal(features.frames, Frontend(RATE)(np.ascontiguousarray(samples))["fbank"])


def test_audio_that_only_lhotse_can_read(tmp_path):
    data = corpus(tmp_path / "data", {"s-0": 16000})
    (cut,) = lhotse.CutSet.from_file(data / "train" / "cuts.jsonl.gz")
    in_memory = cut.move_to_memory(audio_format="wav")
    np.testing.assert_allclose(frontend.read_audio(in_memory), frontend.read_audio(cut), atol=1e-4)


def test_bad_manifests(tmp_path):
    with pytest.raises(UserError, match="run `prepare` first"):
        run(FeaturesConfig(data=tmp_path))
    data = corpus(tmp_path / "data", FOUR)
    with pytest.raises(UserError, match="choose other sets"):
        run(FeaturesConfig(data=data, sets=["dev"]))
    path = data / "train" / "cuts.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]

    def write(rows: list[dict]) -> None:
        path.write_bytes(gzip.compress(b"".join(json.dumps(r).encode() + b"\n" for r in rows)))

    write([])
    with pytest.raises(UserError, match="holds no cuts"):
        run(FeaturesConfig(data=data))
    write([*rows[:1], {**rows[1], "supervisions": []}])
    with pytest.raises(UserError, match="a-2 is not a MonoCut with one supervision"):
        run(FeaturesConfig(data=data))
    write([*rows[:1], {**rows[1], "recording": {**rows[1]["recording"], "sampling_rate": 16000}}])
    with pytest.raises(UserError, match="b-1 has 8000 Hz, a-2 has 16000"):
        run(FeaturesConfig(data=data))
    write([*rows, rows[1]])
    with pytest.raises(UserError, match="a-2 is there twice"):
        run(FeaturesConfig(data=data))
    path.write_bytes(b"not gzip")
    with pytest.raises(UserError, match="is not a cut manifest"):
        run(FeaturesConfig(data=data))


def test_files_of_different_runs(tmp_path):
    data = corpus(tmp_path / "data", FOUR)
    run(FeaturesConfig(data=data, jobs=1))
    train = data / "train"
    (train / "cmvn_fbank.npz").write_bytes((train / "cmvn_mfcc.npz").read_bytes())
    with pytest.raises(UserError, match="different runs"):
        FeatureSet.open(data, "train", "fbank")
    (train / "feats_mfcc.index.npz").write_bytes(b"PK junk")
    with pytest.raises(UserError, match="damaged"):
        FeatureSet.open(data, "train", "mfcc")
    with pytest.raises(UserError, match="run `features` first"):
        FeatureSet.open(data, "dev", "mfcc")


def test_cmvn_of_short_and_long_speakers(tmp_path):
    rng = np.random.default_rng(0)
    long = rng.normal(3.0, 2.0, (5000, 4)).astype(np.float32)
    short = rng.normal(9.0, 2.0, (3, 4)).astype(np.float32)
    short[:, 3] = 7.0  # without top-up this would have no variance
    stats = CmvnStats()
    for part in np.array_split(long, 7):
        stats.add("long", part)
    stats.add("short", short)
    cmvn = stats.cmvn()
    cmvn.save(tmp_path / "cmvn.npz")
    loaded = Cmvn.load(tmp_path / "cmvn.npz")
    assert loaded.speakers == ["long", "short"]
    np.testing.assert_allclose(loaded.mean[0], long.mean(0, dtype=np.float64), rtol=1e-5)
    np.testing.assert_allclose(loaded.std[0], long.std(0, dtype=np.float64), rtol=1e-5)
    everything = np.concatenate([long, short]).astype(np.float64)
    share = len(short) / MIN_FRAMES
    np.testing.assert_allclose(loaded.mean[1], share * short.mean(0) + (1 - share) * everything.mean(0), rtol=1e-5)
    assert (abs(loaded.std[1] - everything.std(0)) < 0.3).all()


def test_cmvn_of_a_constant():
    stats = CmvnStats()
    stats.add("s", np.full((1000, 2), 5.0, np.float32))
    cmvn = stats.cmvn()
    assert (cmvn.std > 0).all()
    assert np.isfinite((5.0 - cmvn.mean) / cmvn.std).all()


def test_splice():
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    for context in (0, 1, 5, 9):
        y = splice(x, context)
        assert y.shape == (7, 3 * (2 * context + 1))
        for t in range(7):
            parts = [x[min(max(t + i, 0), 6)] for i in range(-context, context + 1)]
            np.testing.assert_array_equal(y[t], np.concatenate(parts))


def test_deltas():
    x = np.random.default_rng(0).standard_normal((12, 3))
    y = deltas(x)
    assert y.shape == (12, 9)
    np.testing.assert_array_equal(y[:, :3], x)
    first = torchaudio.functional.compute_deltas(torch.from_numpy(x.T), win_length=5).numpy().T
    np.testing.assert_allclose(y[:, 3:6], first, atol=1e-12)
    for t in range(12):  # Kaldi's DeltaFeatures::Process, written out: the second filter is the first one twice
        second = np.zeros(3)
        for i in range(-2, 3):
            for j in range(-2, 3):
                second += i * j / 100 * x[min(max(t + i + j, 0), 11)]
        np.testing.assert_allclose(y[t, 6:], second, atol=1e-12)
    assert deltas(x.astype(np.float32)).dtype == np.float32
