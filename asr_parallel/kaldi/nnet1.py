"""Kaldi's nnet1: a feature transform read as a normalisation of our frames, and our network written as ``final.nnet``.

Layouts are those of ``nnet/nnet-various.h`` and ``nnet/nnet-affine-transform.h``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.config import ModelConfig
from asr_parallel.files import write_text
from asr_parallel.kaldi.layers import Layer
from asr_parallel.kaldi.tables import DAMAGE, open_input
from asr_parallel.kaldi.values import Reader, text_matrix, text_vector
from asr_parallel.log import UserError, logger

log = logger(__name__)
TOLERANCE = 0.05  # standard deviations by which the frames of a context may be treated differently
END = "<!EndOfComponent>"
ACTIVATIONS = {"sigmoid": "<Sigmoid>", "tanh": "<Tanh>", "relu": "<RectifiedLinear>"}


@dataclass(frozen=True)
class Transform:
    """Frames x [D] become (x + shift) * scale, and are joined with ``context`` frames on either side."""

    context: int
    shift: np.ndarray
    scale: np.ndarray


def read_transform(path: Path) -> Transform:
    """Read ``final.feature_transform`` of ``<Splice>``, ``<AddShift>`` and ``<Rescale>``, binary or text.

    What comes after splicing treats each frame of the context by itself; ours treats all alike, by their mean.  Raises
    ``UserError`` if they differ by more than ``TOLERANCE``, and for other components.
    """
    with open_input(Path(path)) as file:
        try:
            reader = Reader(file)
            reader.header()
            offsets, shift, scale = _components(reader)
        except DAMAGE as error:
            raise UserError(f"{path} is no feature transform that can be used: {error}") from None
    context = len(offsets) // 2
    if offsets != list(range(-context, context + 1)):
        raise UserError(
            f"{path} splices frames {offsets}: give one with as many frames on either side, such as -5 to 5"
        )
    dim = len(shift) // len(offsets)
    shifts, scales = shift.reshape(-1, dim), scale.reshape(-1, dim)
    mean_shift, mean_scale = shifts.mean(0), scales.mean(0)
    apart = max(np.abs((shifts - mean_shift) * mean_scale).max(), np.abs(scales / mean_scale - 1).max())
    if apart > TOLERANCE or not (scale > 0).all():
        raise UserError(
            f"{path} treats the frames of a context differently, by up to {apart:.2g} standard deviations, or turns "
            "them round: estimate it anew, or leave it out (our normalisation is by speaker)"
        )
    log.info("%s: frames of a context are treated alike, which moves them by at most %.2g", path, apart)
    return Transform(context, mean_shift, mean_scale)


def _components(reader: Reader) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Offsets of spliced frames, and shift and scale of all spliced values, float64."""
    offsets = [0]
    shift: np.ndarray = np.zeros(0)
    scale: np.ndarray = np.ones(0)
    reader.expect("<Nnet>")
    while (kind := reader.token()) != "</Nnet>":
        if kind == END:
            continue
        out, into = reader.integer(), reader.integer()
        if not len(shift):
            shift, scale = np.zeros(into), np.ones(into)
        if len(shift) != into:
            raise ValueError(f"{kind} takes {into} values, but {len(shift)} come to it")
        if kind == "<Splice>" and offsets == [0]:
            offsets = reader.integers().tolist()
            shift, scale = np.tile(shift, len(offsets)), np.tile(scale, len(offsets))
        elif kind in ("<AddShift>", "<Rescale>"):
            values = _weights(reader)
            if len(values) != into:
                raise ValueError(f"{kind} has {len(values)} values for {into}")
            # (x + shift) scale + v = (x + shift + v / scale) scale
            shift, scale = (shift + values / scale, scale) if kind == "<AddShift>" else (shift, scale * values)
        else:
            raise ValueError(f"component {kind}, where Splice (once), AddShift and Rescale are known")
        if len(shift) != out:
            raise ValueError(f"{kind} gives {len(shift)} values, not {out}")
    return offsets, shift, scale


def _weights(reader: Reader) -> np.ndarray:
    """The values of a component, float64; newer versions have a learning rate before them."""
    reader.skip_blanks()
    if reader.next_byte() == b"<":
        reader.expect("<LearnRateCoef>")
        reader.real()
    return reader.vector().astype(np.float64)


def write_nnet1(folder: Path, layers: list[Layer], config: ModelConfig, priors: np.ndarray) -> list[str]:
    """Leave ``final.nnet``, ``final.feature_transform`` and ``ali_train_pdf.counts`` in ``folder``; give their names.

    ``priors`` [pdfs] are for ``nnet-forward --class-frame-counts``, which takes what is proportional to them.  Raises
    ``UserError`` for an activation that nnet1 lacks.
    """
    if config.activation not in ACTIVATIONS:
        raise UserError(f"nnet1 has no {config.activation}: write --nnet nnet3, or the --scores of the network")
    parts = ["<Nnet>\n"]
    for i, layer in enumerate(layers):
        parts += [
            _affine(layer),
            _plain(ACTIVATIONS[config.activation] if i + 1 < len(layers) else "<Softmax>", len(layer.bias)),
        ]
    write_text(folder / "final.nnet", "".join([*parts, "</Nnet>\n"]))
    context, dim = config.context, layers[0].weight.shape[1]
    offsets = " ".join(map(str, range(-context, context + 1)))
    splice = f"<Nnet>\n<Splice> {dim} {dim // (2 * context + 1)}\n[ {offsets} ]\n{END}\n</Nnet>\n"
    write_text(folder / "final.feature_transform", splice)
    write_text(folder / "ali_train_pdf.counts", text_vector(priors))
    return ["final.nnet", "final.feature_transform", "ali_train_pdf.counts"]


def _affine(layer: Layer) -> str:
    out, into = layer.weight.shape
    head = f"<AffineTransform> {out} {into}\n<LearnRateCoef> 1 <BiasLearnRateCoef> 1 <MaxNorm> 0\n"
    return head + text_matrix(layer.weight) + text_vector(layer.bias) + END + "\n"


def _plain(kind: str, dim: int) -> str:
    return f"{kind} {dim} {dim}\n{END}\n"
