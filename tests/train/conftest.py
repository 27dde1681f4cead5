import sys
from pathlib import Path

import numpy as np
import pytest

from asr_parallel.align.labels import Labels
from asr_parallel.config import ModelConfig, OptimConfig, ScheduleConfig, StrategyConfig, TrainConfig
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile

sys.path.append(str(Path(__file__).parents[1] / "parallel"))  # for `forked`

DIM, PDFS = 4, 6


def write_set(data: Path, ali: Path, name: str, utts: int, seed: int) -> None:
    """Frames around one mean a pdf, pdfs in runs of four; in the layout that ``features`` and ``align`` leave."""
    random = np.random.default_rng(seed)
    means = np.random.default_rng(99).normal(size=(PDFS, DIM)) * 2
    names, pdfs, offsets = [f"{name}-{i:03d}" for i in range(utts)], {}, [0]
    with FrameFile(store_path(data, name, "fbank")) as frames:
        for utt in names:
            runs = random.integers(PDFS, size=random.integers(5, 14))
            pdfs[utt] = np.repeat(runs, 4).astype(np.int32)
            frames.append((means[pdfs[utt]] + random.normal(size=(len(pdfs[utt]), DIM))).astype(np.float32))
            offsets.append(offsets[-1] + len(pdfs[utt]))
    Labels.from_dict(pdfs).save(ali / f"ali_{name}.npz")
    Cmvn(["s"], np.zeros((1, DIM), np.float32), np.ones((1, DIM), np.float32)).save(cmvn_path(data, name, "fbank"))
    Index(names, ["s"] * utts, ["A"] * utts, np.array(offsets), np.ones(utts), "toy").save(
        index_path(data, name, "fbank")
    )
    if name == "train":
        np.savez(ali / "priors.npz", counts=Labels.from_dict(pdfs).counts(PDFS))


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """A function that makes a configuration for training on a toy corpus in a new folder."""
    root = tmp_path_factory.mktemp("toy")
    ali = root / "ali"
    ali.mkdir()
    write_set(root / "data", ali, "train", 60, 1)
    write_set(root / "data", ali, "dev_a", 8, 2)
    write_set(root / "data", ali, "dev_b", 6, 3)
    (ali / "hmm.json").write_text("{}")
    made = []

    def config(**changes) -> TrainConfig:
        made.append(1)
        values = {
            "data": root / "data",
            "ali": ali,
            "out": root / f"exp{len(made)}",
            "dev": ["dev_a", "dev_b"],
            "batch": 32,
            "threads": 1,
            "timeout": 30.0,
            "model": ModelConfig(2, 16, "sigmoid", "nnet1", context=1),
            "optim": OptimConfig("sgd", lr=0.2, momentum=0.5),
            "schedule": ScheduleConfig(epochs=3),
        }
        if changes.get("workers", 1) > 1:
            values["strategy"] = StrategyConfig("model_average", every="5 minibatches")
        return TrainConfig(**(values | changes))

    return config
