import numpy as np
import pytest
import torch
import torchaudio
from test_features import RATE, corpus, wave

from asr_parallel.config import FeaturesConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import run
from asr_parallel.data.frontend import Frontend
from asr_parallel.data.manifests import load_cuts, read_jsonl
from asr_parallel.log import UserError

FOUR = {"b-1": 8000, "a-2": 12345, "b-0": 30001, "a-1": 2000}

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # in Lhotse


def test_copies_are_lhotses(tmp_path):
    data = corpus(tmp_path, FOUR)
    run(FeaturesConfig(data=data, speed=[0.9, 1.1], jobs=1))
    features = FeatureSet.open(data, "train", "fbank")
    assert features.utts == [*FOUR, *(f"{u}_sp0.9" for u in FOUR), *(f"{u}_sp1.1" for u in FOUR)]
    assert features.speakers == ["a", "a_sp0.9", "a_sp1.1", "b", "b_sp0.9", "b_sp1.1"]
    assert features.texts[4:8] == features.texts[:4]
    theirs = {c.id: c for f in (0.9, 1.1) for c in load_cuts(data, "train").perturb_speed(f)}
    for utt, cut in theirs.items():
        # by another route: Lhotse's cut loads its audio; our frontend is tested elsewhere
        expected = Frontend(RATE)(cut.load_audio()[0].astype(np.float32))["fbank"]
        i = features.row_of[utt]
        got = features.frames[features.offsets[i] : features.offsets[i + 1]]
        np.testing.assert_array_equal(got, expected)
        assert features.durations[i] == pytest.approx(cut.duration)
    lengths = np.diff(features.offsets)
    np.testing.assert_allclose(lengths[4:8] / lengths[:4], 1 / 0.9, atol=0.03)
    cuts = load_cuts(data, "train", "fbank")
    assert [c.id for c in cuts] == features.utts
    for cut in cuts:
        assert cut.supervisions[0].id == cut.id == cut.recording.id
        assert cut.load_features().shape == (cut.num_frames, 40)
    assert len(read_jsonl(cuts_path(data, "train"))) == 4  # what `prepare` left is as it was


def test_a_copy_is_the_wave_resampled(tmp_path):
    """The oracle does not know Lhotse: 1.1 times as fast means that 10 samples stand for 11."""
    data = corpus(tmp_path, {"a-1": 8000})
    run(FeaturesConfig(data=data, kinds=["fbank"], speed=[1.1], jobs=1))
    features = FeatureSet.open(data, "train", "fbank")
    x = torch.from_numpy(np.round(wave(8000) * 32768) / 32768).float()
    fast = torchaudio.functional.resample(x, 11, 10).numpy()
    expected = Frontend(RATE)(fast)["fbank"]
    got = features.frames[features.offsets[1] :]
    assert len(got) == len(expected) == 91
    assert np.abs(got - expected).mean() < 0.05


def test_only_chosen_sets_get_copies_and_results_are_kept(tmp_path):
    data = corpus(tmp_path, FOUR)
    plain = FeaturesConfig(data=data, kinds=["mfcc"], jobs=1)
    store = data / "train" / "feats_mfcc.frames"
    run(plain)
    first = store.stat().st_ino
    run(FeaturesConfig(data=data, kinds=["mfcc"], jobs=1, speed=[0.9], perturb_sets=["other"]))
    assert store.stat().st_ino == first
    run(FeaturesConfig(data=data, kinds=["mfcc"], jobs=1, speed=[0.9]))
    one_job, second = store.read_bytes(), store.stat().st_ino
    assert second != first
    run(FeaturesConfig(data=data, kinds=["mfcc"], jobs=1, speed=[0.9]))
    assert store.stat().st_ino == second
    run(FeaturesConfig(data=data, kinds=["mfcc"], jobs=2, speed=[0.9], force=True))
    assert store.read_bytes() == one_job


@pytest.mark.parametrize("factors", [[1.0], [0.9, 0.9], [0.0], [9.0]])
def test_bad_factors(tmp_path, factors):
    data = corpus(tmp_path, {"a-1": 8000})
    with pytest.raises(UserError, match=r"--speed .*such as 0\.9 1\.1"):
        run(FeaturesConfig(data=data, speed=factors, jobs=1))
    assert [p.name for p in (data / "train").iterdir()] == ["cuts.jsonl.gz"]
