"""A corpus of three speakers who distort what they say, with all GMM systems trained on it."""

import pytest
from gmm_world import corpus, distorted, write_features, write_lang

from asr_parallel.align import run as align_run
from asr_parallel.config import AlignConfig, LdaMlltConfig, MonoConfig, SatConfig, TriConfig


@pytest.fixture(scope="package")
def adapted_world(tmp_path_factory) -> AlignConfig:
    data = tmp_path_factory.mktemp("sat")
    write_features(data, "train", distorted(corpus(48)[0]))
    write_features(data, "dev", distorted(corpus(18, seed=1, name="dev")[0]))
    size = {"iterations": 6, "leaves": 28, "gaussians": 32}
    config = AlignConfig(
        jobs=1,
        data=data,
        lang=write_lang(data / "lang"),
        out=data / "exp",
        dev=["dev"],
        mono=MonoConfig(iterations=6, gaussians=40, utterances=48),
        tri=TriConfig(**size),
        lda_mllt=LdaMlltConfig(**size, context=1, dim=6, mllt=[2, 3]),
        sat=SatConfig(**size, fmllr=[2, 4], min_frames=100),
    )
    align_run.run(config)
    return config
