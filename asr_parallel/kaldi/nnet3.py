"""Our network as a raw nnet3 network in Kaldi's text form (``nnet3/nnet-nnet.cc`` and the components' files).

``nnet3-am-init final.mdl final.raw`` and ``nnet3-am-adjust-priors`` make an acoustic model of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asr_parallel.config import ModelConfig
from asr_parallel.files import write_text
from asr_parallel.kaldi.layers import Layer
from asr_parallel.kaldi.values import text_matrix, text_vector
from asr_parallel.log import UserError

ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "RectifiedLinear"}
Component = tuple[str, str, str]  # its name, what it takes in, and its text


def write_nnet3(folder: Path, layers: list[Layer], config: ModelConfig, priors: np.ndarray) -> list[str]:
    """Leave ``final.raw`` and ``priors.vec`` (``priors`` [pdfs]) in ``folder``; give their names.

    Raises ``UserError`` for a p-norm whose p is not 2, which nnet3 lacks.
    """
    if config.activation == "pnorm" and config.pnorm_p != 2:
        raise UserError(f"nnet3 has a p-norm of p = 2 alone, not {config.pnorm_p:g}: write the --scores of the network")
    components, node = list[Component](), _spliced(config.context)
    for i, layer in enumerate(layers, 1):
        hidden = i < len(layers)
        name = f"affine{i}" if hidden else "output.affine"
        components.append((name, node, _affine(layer)))
        components += _after(name, i, layer, layers[i].weight.shape[1], config.activation) if hidden else []
        node = components[-1][0]
    components.append(("output.log-softmax", node, _nonlinear("LogSoftmax", len(layers[-1].bias))))
    dim = layers[0].weight.shape[1] // (2 * config.context + 1)
    write_text(folder / "final.raw", _network(components, dim))
    write_text(folder / "priors.vec", text_vector(priors))
    return ["final.raw", "priors.vec"]


def _spliced(context: int) -> str:
    if not context:
        return "input"
    frames = (f"Offset(input, {t})" if t else "input" for t in range(-context, context + 1))
    return f"Append({', '.join(frames)})"


def _after(node: str, i: int, layer: Layer, width: int, activation: str) -> list[Component]:
    """What stands behind hidden layer ``i``, which gives ``width`` values."""
    wide = len(layer.bias)
    if activation != "pnorm":
        return [(f"{activation}{i}", node, _nonlinear(ACTIVATIONS[activation], wide))]
    pnorm = f"<PnormComponent> <InputDim> {wide} <OutputDim> {width} </PnormComponent>\n"
    rms = f"<NormalizeComponent> <InputDim> {width} <TargetRms> 1 <AddLogStddev> F </NormalizeComponent>\n"
    return [(f"pnorm{i}", node, pnorm), (f"renorm{i}", f"pnorm{i}", rms)]


def _affine(layer: Layer) -> str:
    weight, bias = text_matrix(layer.weight), text_vector(layer.bias)
    kind, end = "<NaturalGradientAffineComponent>", "</NaturalGradientAffineComponent>\n"
    options = "<RankIn> 20 <RankOut> 80 <UpdatePeriod> 4 <NumSamplesHistory> 2000 <Alpha> 4 "
    return f"{kind} <LearningRate> 0.001 <LinearParams> {weight}<BiasParams> {bias}{options}{end}"


def _nonlinear(kind: str, dim: int) -> str:
    counts = "<Count> 0 <NumDimsSelfRepaired> 0 <NumDimsProcessed> 0"
    return f"<{kind}Component> <Dim> {dim} <ValueAvg>  [ ]\n<DerivAvg>  [ ]\n{counts} </{kind}Component>\n"


def _network(components: list[Component], dim: int) -> str:
    """Nodes, a blank line, components: the blank line ends the former."""
    nodes = [f"component-node name={name} component={name} input={node}\n" for name, node, _ in components]
    output = f"output-node name=output input={components[-1][0]} objective=linear\n"
    parts = [f"<ComponentName> {name} {text}" for name, _, text in components]
    head = ["<Nnet3> \n", f"input-node name=input dim={dim}\n", *nodes, output, "\n"]
    return "".join([*head, f"<NumComponents> {len(components)}\n", *parts, "</Nnet3>\n"])
