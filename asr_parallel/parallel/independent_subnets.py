"""Independent Subnet Training (IST; Yuan, Wolfe, Dun, Tang, Kyrillidis & Jermaine, PVLDB 15(8), 2022).

In each round the hidden units of every layer are dealt to the workers, disjointly and exhaustively.  A worker holds the
network of its own units, with all inputs and outputs, trains it alone, and gives its weights back by index.  Nothing
needs averaging but an output layer's bias, if there is one, which everybody has: there the mean is taken.

Servers keep the weights of the whole network: rank 0 all of them (``central``), or each rank those of its own
units of every layer (``partitioned``).  The whole network is put together only where ``consensus`` is asked for, and
is given up at the next minibatch.  ``docs/ist.md`` has formulas, the rule for the scale of activations, and figures.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from asr_parallel.log import UserError
from asr_parallel.model import Dnn
from asr_parallel.optim.flat import flatten
from asr_parallel.parallel import subnets
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.strategy import Periodic
from asr_parallel.parallel.subnets import Axes, Hand, Place, Shard

SHARDS = {"central": subnets.central, "partitioned": subnets.partitioned}


class IndependentSubnets(Periodic):
    exchanges = "subnets"
    hands: list[Hand]  # of the present round
    kept: list[tuple[Tensor, Axes]]  # what this rank keeps, as a server, of the parameters that have hidden units

    def check(self, workers: int) -> None:
        super().check(workers)
        if self.config.optimizer_state == "average":
            raise UserError(
                "--strategy.optimizer_state average: the workers of independent_subnets train different weights, and "
                "their optimizers begin anew with each subnet: leave it out"
            )

    def start(self, model: nn.Module, comm: Comm) -> nn.Module:
        """Raises ``UserError`` if there are too few hidden units to deal, ``TypeError`` for what is no ``Dnn``."""
        if not isinstance(model, Dnn):
            raise TypeError("independent_subnets knows the layers of a Dnn alone")
        self.comm, self.whole, self.values = comm, model, flatten(model)
        self.round = torch.zeros(1, dtype=torch.int64)
        self.lr_scale = self.scale(comm.size, "none")  # as in the paper: a weight is trained by one worker at a time
        self.optimizer_state = "reset" if comm.size > 1 else "keep"  # what it was about are other units
        comm.broadcast(self.values)
        self.model = model
        if comm.size > 1:
            self.model = self._subnet(model, comm)
            self._take_from_whole()
        return self.model

    def _subnet(self, whole: Dnn, comm: Comm) -> Dnn:
        """A network of as many units as this worker is dealt.  Decides who keeps what."""
        width, least = whole.config.width, comm.size ** (2 if self.config.servers == "partitioned" else 1)
        if width < least:
            raise UserError(
                f"--model.width {width}: {comm.size} workers with {self.config.servers} servers need at least {least} "
                "hidden units to deal: give more --model.width or fewer --workers"
            )
        self.shards = SHARDS[self.config.servers](width, comm.size)
        self.axes = [subnets.axes_of(name, whole.config) for name, _ in whole.named_parameters()]
        config = dataclasses.replace(whole.config, width=subnets.width_of(width, comm.rank, comm.size))
        subnet = Dnn(config, whole.input_dim, whole.num_pdfs).to(self.values.device)
        subnet.keep_no_statistics()  # it is never evaluated
        subnet.gain = width / config.width if self.config.subnet_scale == "fan_in" else 1.0
        flatten(subnet)
        return subnet

    @property
    def alone(self) -> bool:
        return self.model is self.whole

    # who has what

    def _dealt(self, module: nn.Module) -> list[tuple[Tensor, Axes]]:
        """The parameters that have hidden units."""
        pairs = ((p.data, axes) for p, axes in zip(module.parameters(), self.axes))
        return [(tensor, axes) for tensor, axes in pairs if subnets.owner(axes) is not None]

    def _common(self, module: nn.Module) -> list[Tensor]:
        """The others, which all workers have: the output's bias."""
        return [p.data for p, axes in zip(module.parameters(), self.axes) if subnets.owner(axes) is None]

    def _deal(self, number: int) -> list[Hand]:
        return subnets.deal(self.shards, self.whole.config.layers, self.comm.size, self.seed, number)

    def _at_server(self, hands: list[Hand]) -> list[list[Place]]:
        """Of each worker, where its weights are in what this rank keeps."""
        shard = self.shards[self.comm.rank]
        return [[subnets.at_server(kept, axes, hand, shard) for kept, axes in self.kept] for hand in hands]

    def _at_worker(self, hands: list[Hand]) -> list[list[Place]]:
        """Of each server, where the weights that it keeps are in this rank's subnet."""
        own, hand = self._dealt(self.model), hands[self.comm.rank]
        return [[subnets.at_worker(narrow, axes, hand, shard) for narrow, axes in own] for shard in self.shards]

    # the exchange

    def share(self, comm: Comm) -> int:
        if self.alone:
            self.round += 1
            return 0
        mean = [tensor.clone() for tensor in self._common(self.model)]
        sent = sum(comm.all_reduce_mean(tensor) for tensor in mean)
        sent += self._move(self._at_worker(self.hands), self._at_server(self.hands))
        # all of the above may be done again; from here on the old subnet is gone
        hands = self._deal(int(self.round) + 1)
        sent += self._move(self._at_server(hands), self._at_worker(hands))
        self.hands, self.round = hands, self.round + 1
        for tensor, value in zip(self._common(self.model), mean):
            tensor.copy_(value)
        self._give_up_whole()
        return sent

    def _move(self, sources: list[list[Place]], targets: list[list[Place]]) -> int:
        """Send the values at ``sources[r]`` to each rank r, put what it sends to ``targets[r]``; give bytes sent."""
        parts = [subnets.read(places) for places in sources]
        received = self.comm.swap(parts, [subnets.size(places) for places in targets])
        for places, values in zip(targets, received):
            subnets.write(places, values)
        return sum(part.nbytes for rank, part in enumerate(parts) if rank != self.comm.rank)

    # the whole network

    def loss(self, logits: Tensor, batch: Any) -> Tensor:
        if not self.alone:
            self._give_up_whole()
        return super().loss(logits, batch)

    def consensus(self) -> nn.Module:
        """The whole network.  All workers must ask together: after an exchange servers first send what they keep."""
        if not self.alone and not self.values.untyped_storage().nbytes():
            self.values.untyped_storage().resize_(self.values.nbytes)
            own = torch.cat([kept.reshape(-1) for kept, _ in self.kept])
            sections = [self._sections(shard) for shard in self.shards]
            sizes = [sum(section.numel() for section in each) for each in sections]
            for each, values in zip(sections, self.comm.swap([own] * self.comm.size, sizes)):
                for section, piece in zip(each, values.split([s.numel() for s in each])):
                    section.copy_(piece.view(section.shape))
            for tensor, value in zip(self._common(self.whole), self._common(self.model)):
                tensor.copy_(value)
        return self.whole

    def _sections(self, shard: Shard) -> list[Tensor]:
        return [subnets.section(tensor, axes, shard) for tensor, axes in self._dealt(self.whole)]

    def _give_up_whole(self) -> None:
        """Free the memory of the whole network's parameters, whose values are out of date."""
        self.values.untyped_storage().resize_(0)

    def _take_from_whole(self) -> None:
        """Keep what is this server's, and the subnet of the present round, of the whole network, which is there."""
        own = self._sections(self.shards[self.comm.rank])
        self.kept = [(section.clone(), axes) for section, (_, axes) in zip(own, self._dealt(self.whole))]
        self.hands = self._deal(int(self.round))
        everything = (0, self.whole.config.width)
        hand = self.hands[self.comm.rank]
        for (wide, axes), (narrow, _) in zip(self._dealt(self.whole), self._dealt(self.model)):
            source = subnets.at_server(wide, axes, hand, everything)
            subnets.write([subnets.at_worker(narrow, axes, hand, everything)], subnets.read([source]))
        for tensor, value in zip(self._common(self.model), self._common(self.whole)):
            tensor.copy_(value)

    def state(self) -> dict[str, Tensor]:
        """All else follows from the whole network: checkpoints are taken just after exchanges."""
        return super().state() | {"round": self.round}

    def restore(self, state: dict[str, Tensor]) -> None:
        super().restore(state)
        self.round.copy_(state["round"])
        if not self.alone:
            self._take_from_whole()
