"""Networks in Kaldi's text forms, computed in numpy from what the formats say; knows nothing of our writers."""

from __future__ import annotations

import re

import numpy as np


def tokens(text: str) -> list[str]:
    return re.sub(r"([\[\]])", r" \1 ", text).split()


class Words:
    """Tokens of a file, one after another."""

    def __init__(self, text: str):
        self.left = tokens(text)[::-1]

    def next(self) -> str:
        return self.left.pop()

    def expect(self, *wanted: str) -> None:
        for word in wanted:
            assert (found := self.next()) == word, (found, word)

    def numbers(self) -> np.ndarray:
        """What stands in brackets, flat."""
        self.expect("[")
        values = []
        while (word := self.next()) != "]":
            values.append(float(word))
        return np.array(values)


def spliced(x: np.ndarray, offsets: list[int]) -> np.ndarray:
    """Frames beyond the ends of ``x`` [T, D] are the first and last, as in ``splice-feats`` and nnet3."""
    rows = np.arange(len(x))[:, None] + np.array(offsets)
    return x[np.clip(rows, 0, len(x) - 1)].reshape(len(x), -1)


FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "RectifiedLinear": lambda x: np.maximum(x, 0),
    "Softmax": lambda x: np.exp(x - np.log(np.exp(x).sum(1, keepdims=True))),
    "LogSoftmax": lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
}


def nnet1(text: str, x: np.ndarray) -> np.ndarray:
    """``nnet-forward``: <Component> OUT IN, its data, <!EndOfComponent>."""
    words = Words(text)
    words.expect("<Nnet>")
    while (kind := words.next()) != "</Nnet>":
        out, into = int(words.next()), int(words.next())
        assert x.shape[1] == into
        kind = kind.strip("<>")
        if kind == "AffineTransform":
            words.expect("<LearnRateCoef>", "1", "<BiasLearnRateCoef>", "1", "<MaxNorm>", "0")
            weight = words.numbers().reshape(out, into)
            x = x @ weight.T + words.numbers()
        elif kind == "Splice":
            x = spliced(x, words.numbers().astype(int).tolist())
        elif kind in ("AddShift", "Rescale"):
            words.expect("<LearnRateCoef>", "0")
            x = x + words.numbers() if kind == "AddShift" else x * words.numbers()
        else:
            x = FUNCTIONS[kind](x)
        assert x.shape[1] == out
        words.expect("<!EndOfComponent>")
    assert not words.left
    return x


def nnet3_components(text: str) -> dict:
    """Name to function, of what comes after the nodes."""
    words, found = Words(text), {}
    words.expect("<NumComponents>")
    for _ in range(int(words.next())):
        words.expect("<ComponentName>")
        name, kind = words.next(), words.next().strip("<>")
        if kind == "NaturalGradientAffineComponent":
            words.expect("<LearningRate>", "0.001", "<LinearParams>")
            weight = words.numbers()
            words.expect("<BiasParams>")
            bias = words.numbers()
            weight = weight.reshape(len(bias), -1)
            options = [words.next() for _ in range(10)]
            assert options[::2] == ["<RankIn>", "<RankOut>", "<UpdatePeriod>", "<NumSamplesHistory>", "<Alpha>"]
            found[name] = lambda x, w=weight, b=bias: x @ w.T + b
        elif kind == "PnormComponent":
            words.expect("<InputDim>", words.left[-2], "<OutputDim>")
            out = int(words.next())
            found[name] = lambda x, out=out: np.sqrt((x.reshape(len(x), out, -1) ** 2).sum(2))
        elif kind == "NormalizeComponent":
            words.expect("<InputDim>", words.left[-2], "<TargetRms>", "1", "<AddLogStddev>", "F")
            found[name] = lambda x: x / np.sqrt(np.maximum((x**2).mean(1, keepdims=True), 2.0**-66))
        else:
            words.expect("<Dim>", words.left[-2], "<ValueAvg>", "[", "]", "<DerivAvg>", "[", "]", "<Count>", "0")
            words.expect("<NumDimsSelfRepaired>", "0", "<NumDimsProcessed>", "0")
            found[name] = FUNCTIONS[kind.removesuffix("Component")]
        words.expect(f"</{kind}>")
    words.expect("</Nnet3>")
    assert not words.left
    return found


def nnet3(text: str, x: np.ndarray) -> np.ndarray:
    """``nnet3-compute``: nodes up to a blank line, then components."""
    head, _, tail = text.partition("\n\n")
    first, *nodes = head.split("\n")
    assert first.strip() == "<Nnet3>"
    functions, values, output = nnet3_components(tail), {}, None
    for line in nodes:
        kind, _, rest = line.partition(" ")
        fields = dict(re.findall(r"(\w+)=((?:[^ =,]|, ?)+)", rest))
        if kind == "input-node":
            assert int(fields["dim"]) == x.shape[1]
            values[fields["name"]] = x
        elif kind == "component-node":
            values[fields["name"]] = functions[fields["component"]](value(fields["input"], values))
        else:
            assert (kind, fields["name"]) == ("output-node", "output")
            output = value(fields["input"], values)
    return output


def value(descriptor: str, values: dict) -> np.ndarray:
    """``Append(Offset(input, -1), input)`` or a node."""
    if not descriptor.startswith("Append("):
        return values[descriptor]
    parts = re.findall(r"Offset\((\w+), (-?\d+)\)|(\w+)", descriptor[len("Append(") : -1])
    return np.concatenate([spliced(values[name or plain], [int(t or 0)]) for name, t, plain in parts], 1)
