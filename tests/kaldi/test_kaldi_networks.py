"""Networks and feature transforms in nnet1's and nnet3's text forms, computed by what the formats say."""

from __future__ import annotations

import numpy as np
import published
import pytest
import torch

from asr_parallel.config import ModelConfig
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.kaldi.cmvn import transformed
from asr_parallel.kaldi.layers import layers_of
from asr_parallel.kaldi.nnet1 import read_transform, write_nnet1
from asr_parallel.kaldi.nnet3 import write_nnet3
from asr_parallel.log import UserError
from asr_parallel.model import Predictor, make_model

DIM, PDFS = 5, 9
RNG = np.random.default_rng(1)
FEATS = RNG.standard_normal((20, DIM)).astype(np.float32)
PRIORS = RNG.dirichlet(np.ones(PDFS))


def network(**options) -> Predictor:
    """A network whose batch norm, if it has any, has seen frames."""
    config = ModelConfig(**{"layers": 2, "width": 7, "context": 2} | options)
    model = make_model(config, DIM * (2 * config.context + 1), PDFS, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        for _ in range(20):
            model(torch.randn(64, model.input_dim) * 2 + 1)
    return Predictor("kaldi", config.context, model.eval(), np.log(PRIORS).astype(np.float32))


NETWORKS = {
    "sigmoid": {"activation": "sigmoid"},
    "tanh": {"activation": "tanh", "layers": 1},
    "relu": {"activation": "relu", "layers": 3},
    "no context": {"activation": "relu", "context": 0},
    "no bias": {"activation": "tanh", "bias": False},
    "batch norm": {"activation": "sigmoid", "batch_norm": True},
    "norm of the output": {"activation": "relu", "batch_norm": True, "output_norm": True, "bias": False},
    "dropout": {"activation": "relu", "dropout": 0.4},
    "pnorm": {"activation": "pnorm", "pnorm_group": 3},
}


@pytest.mark.parametrize("name", [n for n in NETWORKS if n != "pnorm"])
def test_nnet1(tmp_path, name):
    predictor = network(**NETWORKS[name])
    files = write_nnet1(tmp_path, layers_of(predictor.model), predictor.model.config, PRIORS)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(files)
    inputs = published.nnet1((tmp_path / "final.feature_transform").read_text(), FEATS)
    posteriors = published.nnet1((tmp_path / "final.nnet").read_text(), inputs)
    np.testing.assert_allclose(np.log(posteriors), predictor.log_posteriors(FEATS), atol=2e-5)
    counts = published.Words((tmp_path / "ali_train_pdf.counts").read_text()).numbers()
    np.testing.assert_allclose(counts, PRIORS, rtol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_nnet3(tmp_path, name):
    predictor = network(**NETWORKS[name])
    assert write_nnet3(tmp_path, layers_of(predictor.model), predictor.model.config, PRIORS) == [
        "final.raw",
        "priors.vec",
    ]
    found = published.nnet3((tmp_path / "final.raw").read_text(), FEATS)
    np.testing.assert_allclose(found, predictor.log_posteriors(FEATS), atol=2e-5)


def test_what_a_form_lacks(tmp_path):
    model = network(activation="pnorm", pnorm_group=3, pnorm_p=3.0).model
    with pytest.raises(UserError, match="nnet1 has no pnorm"):
        write_nnet1(tmp_path, layers_of(model), model.config, PRIORS)
    with pytest.raises(UserError, match="p-norm of p = 2 alone, not 3"):
        write_nnet3(tmp_path, layers_of(model), model.config, PRIORS)
    assert not list(tmp_path.iterdir())


def transform_text(context: int, shift: np.ndarray, scale: np.ndarray, coefficients: bool = True) -> str:
    """As ``nnet-initialize``, ``cmvn-to-nnet`` and ``nnet-concat`` leave it in text; older ones had no coefficients."""
    wide = len(shift)
    head = "<LearnRateCoef> 0 " if coefficients else ""
    end = "<!EndOfComponent> \n" if coefficients else ""
    offsets = " ".join(map(str, range(-context, context + 1)))
    parts = [f"<Nnet> \n<Splice> {wide} {wide // (2 * context + 1)} \n[ {offsets} ]\n{end}"]
    for kind, values in (("AddShift", shift), ("Rescale", scale)):
        numbers = " ".join(f"{v:.8g}" for v in values)
        parts.append(f"<{kind}> {wide} {wide} \n{head} [ {numbers} ]\n{end}")
    return "".join([*parts, "</Nnet> \n"])


@pytest.mark.parametrize("coefficients", [True, False])
def test_a_transform_is_a_normalisation(tmp_path, coefficients):
    """What it does to spliced frames is what our normalisation, then splicing, does."""
    context = 2
    shift, scale = np.tile(RNG.standard_normal(DIM), 5), np.tile(RNG.uniform(0.5, 2, DIM), 5)
    text = transform_text(context, shift, scale, coefficients)
    (tmp_path / "t").write_text(text)
    found = read_transform(tmp_path / "t")
    assert found.context == context
    mean, std = RNG.standard_normal((1, DIM)).astype(np.float32), np.full((1, DIM), 1.5, np.float32)
    cmvn = transformed(Cmvn(["s"], mean, std), found)
    ours = published.spliced((FEATS - cmvn.mean) / cmvn.std, [-2, -1, 0, 1, 2])
    theirs = (published.spliced((FEATS - mean) / std, [-2, -1, 0, 1, 2]) + shift) * scale
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    if coefficients:
        np.testing.assert_allclose(published.nnet1(text, (FEATS - mean) / std), theirs, atol=2e-5)


def test_order_of_components(tmp_path):
    """Shift before splicing, scale, another shift after it: x becomes (x + 1) 2 + 3 = (x + 2.5) 2."""
    (tmp_path / "t").write_text(
        "<Nnet>\n<AddShift> 1 1\n<LearnRateCoef> 0 [ 1 ]\n<!EndOfComponent>\n<Splice> 3 1\n[ -1 0 1 ]\n"
        "<!EndOfComponent>\n<Rescale> 3 3\n<LearnRateCoef> 0 [ 2 2 2 ]\n<!EndOfComponent>\n<AddShift> 3 3\n"
        " [ 3 3 3 ]\n</Nnet>\n"
    )
    found = read_transform(tmp_path / "t")
    assert (found.context, found.shift.tolist(), found.scale.tolist()) == (1, [2.5], [2.0])


def test_a_binary_transform(tmp_path):
    def number(n):
        return b"\4" + np.int32(n).tobytes()

    data = b"\0B<Nnet> <Splice> " + number(3) + number(1) + b"\4" + np.array([3, -1, 0, 1], "<i4").tobytes()
    data += b"<!EndOfComponent> <AddShift> " + number(3) + number(3) + b"<LearnRateCoef> \4" + np.float32(0).tobytes()
    data += b"FV " + number(3) + np.full(3, 0.25, "<f4").tobytes() + b"<!EndOfComponent> </Nnet> "
    (tmp_path / "t").write_bytes(data)
    found = read_transform(tmp_path / "t")
    assert (found.context, found.shift.tolist(), found.scale.tolist()) == (1, [0.25], [1.0])


@pytest.mark.parametrize(("text", "why"), [
    ("<Nnet>\n<Splice> 3 1\n[ 0 1 2 ]\n</Nnet>\n", r"splices frames \[0, 1, 2\]"),
    ("<Nnet>\n<Splice> 3 1\n[ -1 0 1 ]\n<AddShift> 3 3\n [ 0 0.2 0 ]\n</Nnet>\n", "differently, by up to 0.13"),
    ("<Nnet>\n<Rescale> 1 1\n [ -1 ]\n</Nnet>\n", "turns them round"),
    ("<Nnet>\n<LinearTransform> 1 1\n [ 1 ]\n</Nnet>\n", "component <LinearTransform>, where Splice"),
    ("<Nnet>\n<AddShift> 2 2\n [ 1 ]\n</Nnet>\n", "no feature transform that can be used"),
    ("<Nnet>\n<AddShift> 2 2\n", "it ends"),
])  # fmt: skip
def test_transforms_that_cannot_be_used(tmp_path, text, why):
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError, match=why):
        read_transform(tmp_path / "t")
