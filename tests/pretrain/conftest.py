import sys
from pathlib import Path

import numpy as np
import pytest

from asr_parallel.align.labels import Labels
from asr_parallel.config import ModelConfig, PretrainConfig, TrainConfig, cuts_path
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile
from asr_parallel.files import write_json

sys.path.append(str(Path(__file__).parents[1] / "parallel"))  # for `forked`

DIM, PDFS = 4, 3


def write_set(root: Path, name: str, utts: int, seed: int, scale: float = 1.0) -> None:
    """Utterances of 20 to 40 frames around one mean a pdf, in the layout that ``features`` and ``align`` leave."""
    random, data = np.random.default_rng(seed), root / "data"
    means = 3 * np.random.default_rng(7).normal(size=(PDFS, DIM))
    names, pdfs, offsets, rows = [f"{name}-{i:03d}" for i in range(utts)], {}, [0], []
    with FrameFile(store_path(data, name, "fbank")) as frames:
        for utt in names:
            pdfs[utt] = np.repeat(random.integers(PDFS, size=random.integers(5, 11)), 4).astype(np.int32)
            rows.append((means[pdfs[utt]] + random.normal(size=(len(pdfs[utt]), DIM))).astype(np.float32))
            frames.append(scale * rows[-1])
            offsets.append(offsets[-1] + len(rows[-1]))
    every = np.concatenate(rows)
    Cmvn(["s"], every.mean(0)[None], every.std(0)[None]).save(cmvn_path(data, name, "fbank"))
    Index(names, ["s"] * utts, ["A"] * utts, np.array(offsets), np.ones(utts), "toy").save(
        index_path(data, name, "fbank")
    )
    cuts_path(data, name, "fbank").write_bytes(b"")  # `pretrain` and `train` read what is made of it
    labels = Labels.from_dict(pdfs)
    labels.save(root / f"ali_{name}.npz")
    if name == "train":
        np.savez(root / "priors.npz", counts=labels.counts(PDFS))


@pytest.fixture(scope="session")
def toy_root(tmp_path_factory):
    """A folder with a toy corpus in ``data`` and its labels."""
    root = tmp_path_factory.mktemp("pretrain")
    write_set(root, "train", 40, 1)
    write_set(root, "dev", 6, 2)
    write_json(root / "hmm.json", {})
    return root


@pytest.fixture
def toy(toy_root, tmp_path):
    """A function that gives a configuration for pretraining on the toy corpus."""

    def config(out: str = "dbn", **changes) -> PretrainConfig:
        values = {"data": toy_root / "data", "out": tmp_path / out, "dev": ["dev"], "context": 1, "batch": 20}
        values |= {"layers": 3, "width": 8, "held_out": 50, "threads": 1, "timeout": 30.0, "average_every": 7}
        return PretrainConfig(**(values | changes))

    return config


@pytest.fixture
def network(toy_root, tmp_path):
    """A function that gives a configuration for training a network on the toy corpus from the DBN in ``dbn``."""

    def config(**changes) -> TrainConfig:
        model = {"layers": 3, "width": 8, "activation": "sigmoid", "init": "dbn", "context": 1}
        model |= {"dbn": str(tmp_path / "dbn")} | changes.pop("model", {})
        values = {"data": toy_root / "data", "ali": toy_root, "out": tmp_path / "dnn", "dev": ["dev"], "batch": 20}
        return TrainConfig(**(values | {"threads": 1, "model": ModelConfig(**model)} | changes))

    return config
