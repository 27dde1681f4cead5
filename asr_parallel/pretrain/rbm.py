"""Restricted Boltzmann machines trained by contrastive divergence, with the statistics and constants of Kaldi.

Visible units are Gaussian with variance 1 or Bernoulli, hidden units Bernoulli; W is [hidden, visible], as in
``nn.Linear``:  E(v, h) = E_v(v) - c.h - h.W v  with  E_v = |v - b|^2 / 2  (Gaussian)  or  -b.v  (Bernoulli).
``docs/rbm.md`` explains the method; sources are Kaldi's ``nnet-rbm`` and ``rbm-train-cd1-frmshuff``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.log import UserError, logger

Visible = Literal["gaussian", "bernoulli"]

MEAN_CLIP = 1e-4  # mean activations are clipped to [1e-4, 1 - 1e-4] before their logit is taken
EXPLOSION = 2.0  # a reconstruction with so many times the data's standard deviation is about to explode
RESCUE_LR = 0.9  # the rate is multiplied by this at a rescue, until the next step of the ramp
MAX_RESCUES = 50  # rescues in a row after which training is given up


@dataclass(frozen=True)
class RbmOptions:
    """How one RBM is trained. Rate and momentum are stated for minibatches of ``reference_batch`` frames."""

    lr: float = 0.4  # Kaldi: 0.4 for Bernoulli visibles, 0.01 for Gaussian ones
    epochs: int = 1  # Kaldi: 1 for Bernoulli visibles, 2 for Gaussian ones
    l2: float = 0.0002  # on weights, not on biases
    k: int = 1  # Gibbs steps of contrastive divergence
    momentum: Literal["kaldi", "intended"] = "kaldi"  # kaldi: its last value is applied from the start
    momentum_first: float = 0.5
    momentum_last: float = 0.9
    ramp_steps: int = 40  # steps from first to last; the rate is lr x (1 - momentum of the ramp)
    ramp_frames: int = 500_000  # frames from one step to the next
    reference_batch: int = 100
    sample_visible: bool = False  # sample reconstructions too: a true Gibbs chain; Kaldi takes their means
    stddev: float = 0.1  # of the initial weights

    def ramp(self, frames: int) -> float:
        """Nominal momentum after ``frames`` frames."""
        step = min(frames // self.ramp_frames, self.ramp_steps)
        return self.momentum_first + step * (self.momentum_last - self.momentum_first) / self.ramp_steps

    def rates(self, frames: int, batch: int) -> tuple[float, float]:
        """Learning rate and momentum for the next minibatch of ``batch`` frames, after ``frames`` frames.

        For another batch than the reference, momentum forgets as fast per frame, and lr / (1 - momentum), the
        way that a constant gradient moves the weights, is the same per frame.
        """
        nominal = self.ramp(frames)
        reference = self.momentum_last if self.momentum == "kaldi" else nominal
        share = batch / self.reference_batch
        applied = reference**share
        lr = self.lr * (1 - nominal) * share
        return lr * (1 - applied) / (1 - reference), applied


class Rbm:
    """Weights [H, V], visible biases [V] and hidden biases [H], which are views into ``flat``."""

    def __init__(self, visible: Visible, num_visible: int, num_hidden: int, device: torch.device | str = "cpu"):
        self.visible, self.num_visible, self.num_hidden = visible, num_visible, num_hidden
        self.flat = torch.zeros(num_hidden * num_visible + num_visible + num_hidden, device=device)
        self.weight, self.visible_bias, self.hidden_bias = self.views(self.flat)

    def views(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weight, visible bias and hidden bias inside a vector that is laid out like ``flat``."""
        h, v = self.num_hidden, self.num_visible
        return flat[: h * v].view(h, v), flat[h * v : h * v + v], flat[h * v + v :]

    def initialise(self, generator: torch.Generator, stddev: float = 0.1, mean: Tensor | None = None) -> Rbm:
        """Weights N(0, stddev^2), biases 0; Bernoulli visibles' biases the logit of their ``mean`` activation [V]."""
        self.flat.zero_()
        self.weight.normal_(0.0, stddev, generator=generator)
        if mean is not None and self.visible == "bernoulli":
            self.visible_bias.copy_(torch.logit(mean.to(self.flat), eps=MEAN_CLIP))
        return self

    def hidden_probs(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """p(h = 1 | v) [N, H] for v [N, V]."""
        return torch.addmm(self.hidden_bias, v, self.weight.T, out=out).sigmoid_()

    def visible_means(self, h: Tensor, out: Tensor | None = None) -> Tensor:
        """E[v | h] [N, V] for h [N, H]."""
        mean = torch.addmm(self.visible_bias, h, self.weight, out=out)
        return mean.sigmoid_() if self.visible == "bernoulli" else mean

    def free_energy(self, v: Tensor) -> Tensor:
        """-log sum_h exp(-E(v, h)) [N] for v [N, V]; smaller is likelier, up to one constant of the model."""
        visible = (
            -(v @ self.visible_bias) if self.visible == "bernoulli" else (v - self.visible_bias).square().sum(1) / 2
        )
        return visible - F.softplus(torch.addmm(self.hidden_bias, v, self.weight.T)).sum(1)


class ContrastiveDivergence:
    """Trains ``rbm`` minibatch by minibatch; keeps momentum, counts and buffers.

    Each of ``workers`` workers counts the ``frames`` of all, which the ramp goes by.
    """

    def __init__(self, rbm: Rbm, options: RbmOptions, generator: torch.Generator, name: str = "RBM", workers: int = 1):
        self.rbm, self.options, self.generator, self.name, self.workers = rbm, options, generator, name, workers
        self.velocity = torch.zeros_like(rbm.flat)
        self.frames = self.rescues = self.rescues_in_row = 0
        self.rescue_scale, self.ramp = 1.0, options.ramp(0)
        self.buffers: tuple[Tensor, Tensor, Tensor] | None = None

    def step(self, v: Tensor) -> float:
        """Update on a minibatch v [N, V]; give the mean squared error of the reconstruction, per visible unit.

        Raises ``UserError`` when training has diverged.
        """
        n = len(v)
        visible, hidden = self._statistics(v)
        error = float(F.mse_loss(visible[n:], visible[:n]))
        if not math.isfinite(error):
            raise UserError(f"{self.name} has diverged after {self.frames} frames: lower its learning rate")
        lr, momentum = self._rates(n)
        self.frames += n * self.workers
        if self.rbm.visible == "gaussian" and self._explodes(visible[:n], visible[n:]):
            return error
        self._update(visible, hidden, n, lr, momentum)
        return error

    def _statistics(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Visible [2N, V] and hidden [2N, H] units: N rows driven by the data over N rows of the reconstruction.

        Hidden units are sampled to make a reconstruction and nowhere else; all statistics are probabilities.
        """
        n, rbm, o = len(v), self.rbm, self.options
        if self.buffers is None or len(self.buffers[2]) != n:
            self.buffers = (
                v.new_empty(2 * n, v.shape[1]),
                v.new_empty(2 * n, rbm.num_hidden),
                v.new_empty(n, rbm.num_hidden),
            )
        visible, hidden, sample = self.buffers
        visible[:n].copy_(v)
        probs = rbm.hidden_probs(visible[:n], out=hidden[:n])
        for _ in range(o.k):
            torch.lt(sample.uniform_(generator=self.generator), probs, out=sample)
            rbm.visible_means(sample, out=visible[n:])
            if o.sample_visible:
                self._sample_visible(visible[n:])
            probs = rbm.hidden_probs(visible[n:], out=hidden[n:])
        return visible, hidden

    def _sample_visible(self, mean: Tensor) -> None:
        noise = torch.empty_like(mean)
        if self.rbm.visible == "bernoulli":
            mean.copy_(noise.uniform_(generator=self.generator) < mean)
        else:
            mean.add_(noise.normal_(generator=self.generator))

    def _rates(self, n: int) -> tuple[float, float]:
        if self.options.ramp(self.frames) != self.ramp:
            self.ramp, self.rescue_scale = self.options.ramp(self.frames), 1.0
        lr, momentum = self.options.rates(self.frames, n)
        return lr * self.rescue_scale, momentum

    def _explodes(self, data: Tensor, reconstruction: Tensor) -> bool:
        """Kaldi's rescue: too wide a reconstruction shrinks all parameters and costs momentum and this update."""
        ratio = float(reconstruction.std() / data.std().clamp(min=1e-20))
        if ratio <= EXPLOSION:
            self.rescues_in_row = 0
            return False
        self.rescues += 1
        self.rescues_in_row += 1
        if self.rescues_in_row > MAX_RESCUES:
            raise UserError(
                f"{self.name} explodes: {MAX_RESCUES} minibatches in a row were reconstructed with more than "
                f"{EXPLOSION:g} times the data's standard deviation; lower its learning rate or its initial weights"
            )
        self.rbm.flat.mul_(1 / ratio)
        self.velocity.zero_()
        self.rescue_scale *= RESCUE_LR
        logger(__name__).warning(
            "%s after %d frames: reconstruction %.1f times as wide as the data; weights x %.3f, rate x %.3f",
            self.name, self.frames, ratio, 1 / ratio, self.rescue_scale,
        )  # fmt: skip
        return True

    def _update(self, visible: Tensor, hidden: Tensor, n: int, lr: float, momentum: float) -> None:
        """velocity <- momentum velocity + lr [(data - reconstruction) / N - l2 W];  parameters += velocity."""
        hidden[n:].neg_()  # then one product of 2N rows is the difference of the two correlations
        weight, visible_bias, hidden_bias = self.rbm.views(self.velocity)
        weight.addmm_(hidden.T, visible, beta=momentum, alpha=lr / n)
        weight.add_(self.rbm.weight, alpha=-lr * self.options.l2)
        hidden_bias.mul_(momentum).add_(hidden.sum(0), alpha=lr / n)
        visible_bias.mul_(momentum).add_(visible[:n].sum(0) - visible[n:].sum(0), alpha=lr / n)
        self.rbm.flat.add_(self.velocity)
