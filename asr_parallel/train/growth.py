"""A network that grows: layer-wise discriminative pretraining, as the beginning of training.

Training begins with one hidden layer; after every so many minibatches another one is put below the softmax layer,
which starts afresh, and all layers are trained on (Seide et al. 2011; Kaldi's nnet2, ``add_layers_period``).  All
parameters are there from the beginning: those of layers to come have no gradient.  The depth depends on the position
in the first epoch alone, so there is nothing to save.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from asr_parallel.config import ModelConfig
from asr_parallel.log import UserError, logger
from asr_parallel.model import Dnn, make_model
from asr_parallel.optim.optimizer import Optimizer
from asr_parallel.parallel.clock import Clock, Every
from asr_parallel.parallel.strategy import Strategy

LOG = logger(__name__)
OPTION = "--model.add_layer_every"


@dataclass(frozen=True)
class Growth:
    """``period`` minibatches of a worker lie between two layers."""

    model: Dnn
    optimizer: Optimizer
    period: int
    seed: int

    @classmethod
    def of(cls, model: nn.Module, strategy: Strategy, optimizer: Optimizer, period: int, seed: int) -> Growth:
        """Raises ``UserError`` if the strategy keeps another network than the one that grows."""
        if not isinstance(model, Dnn) or strategy.consensus() is not model:
            name = strategy.config.name
            raise UserError(f"{OPTION}: strategy {name} keeps another network than it trains: take another one")
        return cls(model, optimizer, period, seed)

    def prepare(self, clock: Clock) -> None:
        """Give the network the depth that is due for the coming minibatch."""
        layers, done = self.model.config.layers, clock.minibatch
        self.model.depth = layers if clock.epoch > 1 else min(layers, 1 + done // self.period)
        if clock.epoch == 1 and done and done % self.period == 0 and done // self.period < layers:
            self._add()

    @torch.no_grad()
    def _add(self) -> None:
        """Start the new hidden layer, the softmax layer and the optimizer's state afresh, alike on all workers."""
        model = self.model
        seed = np.random.SeedSequence((self.seed, model.depth)).generate_state(1)[0]
        fresh = make_model(model.config, model.input_dim, model.num_pdfs, int(seed))
        for i in (model.depth - 1, -1):
            for old, new in zip(model.layers[i].parameters(), fresh.layers[i].parameters()):
                old.copy_(new)
        self.optimizer.begin_anew()
        LOG.info("hidden layer %d of %d is added", model.depth, model.config.layers)


def grown_after(config: ModelConfig, minibatches: int, batch: int) -> int:
    """Minibatches of a worker, of ``batch`` frames, between two layers; 0 if the network does not grow.

    Raises ``UserError`` if it would not be whole at the end of the first epoch, of ``minibatches``.
    """
    if not config.add_layer_every:
        return 0
    every = Every.parse(config.add_layer_every, OPTION)
    period = -(-every.count // every.size(batch))
    if config.init in ("dbn", "network"):
        raise UserError(f"{OPTION} is for a random start, not for --model.init {config.init}: leave one of them out")
    if (config.layers - 1) * period >= minibatches:
        raise UserError(
            f"{OPTION}: {config.layers} hidden layers, one every {period} minibatches, are not reached in the first "
            f"epoch, which has {minibatches}: give at most {(minibatches - 1) // (config.layers - 1)} minibatches"
        )
    return period
