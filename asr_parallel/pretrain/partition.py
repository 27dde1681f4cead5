"""Annealed importance sampling: an estimate of an RBM's partition function, and so of true likelihoods."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.pretrain.rbm import Rbm


def log_partition(
    rbm: Rbm, generator: torch.Generator, chains: int = 100, temperatures: int = 1000
) -> tuple[float, float]:
    """Estimate log Z and its standard error (Salakhutdinov & Murray 2008).

    Densities f_t(v) = exp(-E_v(v)) prod_j (1 + exp(t (c_j + W_j v))) lead from t = 0, where Z is known, to the
    model at t = 1; each chain multiplies the ratios of neighbouring ones and takes a Gibbs step between.
    """
    start = rbm.visible_bias.expand(chains, -1)
    v = _sample(rbm, start, generator)
    weights = torch.zeros(chains, dtype=torch.float64)
    ladder = torch.linspace(0, 1, temperatures + 1).tolist()
    for cold, hot in itertools.pairwise(ladder):
        field = torch.addmm(rbm.hidden_bias, v, rbm.weight.T)
        weights += (F.softplus(hot * field) - F.softplus(cold * field)).sum(1).double().cpu()
        h = (torch.rand(field.shape, generator=generator, device=v.device) < torch.sigmoid(hot * field)).to(v)
        v = _sample(rbm, torch.addmm(rbm.visible_bias, h, rbm.weight, alpha=hot), generator)
    shifted = (weights - weights.max()).exp()
    mean = float(shifted.mean())
    error = float(shifted.std()) / mean / math.sqrt(chains)
    return _log_partition_without_weights(rbm) + float(weights.max()) + math.log(mean), error


def _log_partition_without_weights(rbm: Rbm) -> float:
    if rbm.visible == "bernoulli":
        visible = float(F.softplus(rbm.visible_bias.double()).sum())
    else:
        visible = rbm.num_visible / 2 * math.log(2 * math.pi)
    return visible + rbm.num_hidden * math.log(2)


def _sample(rbm: Rbm, field: Tensor, generator: torch.Generator) -> Tensor:
    """Visible units whose natural parameter (logit or mean) is ``field`` [N, V]."""
    if rbm.visible == "bernoulli":
        return (torch.rand(field.shape, generator=generator, device=field.device) < torch.sigmoid(field)).to(field)
    return field + torch.randn(field.shape, generator=generator, device=field.device)
