"""Workers that go on without those that are lost, and let them in again; ``membership.py`` says how they agree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

import torch
import torch.distributed as dist

from asr_parallel.config import PretrainConfig, TrainConfig
from asr_parallel.log import UserError, logger
from asr_parallel.parallel.comm import Lost
from asr_parallel.parallel.membership import Plan, Progress, Roll
from asr_parallel.parallel.torch_comm import TorchComm

LOG = logger(__name__)
GRACE_S = 5.0  # beyond the deadline, for the others to see that an operation has failed and to call the roll
IN_VAIN = 3  # generations that end before their first exchange: then it is not one worker that is at fault


def goes_on(config: TrainConfig | PretrainConfig) -> TypeGuard[TrainConfig]:
    """Whether training goes on when a worker is lost."""
    return isinstance(config, TrainConfig) and config.on_failure == "continue"


def check(config: TrainConfig, e: Mapping[str, str] = os.environ) -> None:
    """Raise ``UserError`` if training could not go on without a worker."""
    strategy = config.strategy
    refused = [
        (config.backend == "mpi", "--backend mpi: a job of MPI ends when one of its processes does"),
        (config.backend == "simulated", "--backend simulated: its workers are one process"),
        (config.backend == "nccl", "--backend nccl, which may hang when a worker dies: give --backend gloo"),
        ("TORCHELASTIC_RUN_ID" in e, "torchrun, which ends all when one ends and begins again (--max-restarts)"),
        (
            strategy.name == "independent_subnets",
            "--strategy.name independent_subnets: nobody else holds what a lost worker has trained",
        ),
        (
            strategy.topology == "butterfly",
            "--strategy.topology butterfly, which is not for every number of workers: give hopping_ring",
        ),
        (bool(strategy.alone), "--strategy.alone: without rank 0 the others have nothing to go on from"),
        (bool(config.model.add_layer_every), "--model.add_layer_every: one worker's minibatches say when"),
    ]
    for holds, what in refused:
        if holds:
            raise UserError(f"--on_failure continue is not for {what}")
    if config.restarts < 0:
        raise UserError(f"--restarts {config.restarts}: give 0 or more")


class SurvivingComm(TorchComm):
    """Workers of one generation after the other.  Operations raise ``Lost`` where another has failed or is missing, and
    ``changing`` turns true after a ``meet`` if a worker asks to be let in; then all call ``regroup``."""

    failure = Lost
    in_vain = 0

    @property
    def plan(self) -> Plan:
        return self.roll.plan

    @property
    def seats(self) -> tuple[int, ...]:
        return self.plan.seats

    def _join(self) -> None:
        seat = self.place.rank
        self.roll = Roll(self.root, seat, self.place.size)
        with self._reaching():
            late = self.roll.comes_late()
            if late:
                LOG.info("rank %d was lost before, and asks to be let in again", seat)
                self.roll.ask()
        self._form_generation()
        if not late:
            with self._reaching():
                self.roll.open()

    def _form_generation(self) -> None:
        plan, self.changing = self.plan, False
        store = dist.PrefixStore(f"generation/{plan.number}", self.root)
        self._form(store, plan.seats.index(self.place.rank), len(plan.seats))

    def meet(self) -> None:
        asked = self.rank == 0 and bool(self._asking())
        flags = torch.tensor([int(self.asked_to_stop), int(asked)])
        with self._together("meeting"):
            dist.all_reduce(flags, dist.ReduceOp.MAX, group=self.small)
        self.stopping, self.changing = (bool(flag) for flag in flags.tolist())
        self.in_vain = 0

    def _asking(self) -> list[int]:
        with self._reaching():
            return self.roll.asking()

    def regroup(self, progress: Progress, average: bool) -> Plan:
        """Form the next generation with all who are left, and give it; ``average``: an operation has failed.

        Raises ``UserError`` if the others went on without this worker, or if the workers cannot reach each other.
        """
        while True:
            self.in_vain += 1
            if self.in_vain > IN_VAIN:
                raise UserError(
                    f"rank {self.place.rank}: {IN_VAIN} times in a row workers that are there could not exchange "
                    "anything: check the network between them (GLOO_SOCKET_IFNAME)"
                )
            if average:
                self.close()  # so that the others fail too
            before = self.plan
            with self._reaching():
                plan = self.roll.call(progress, average, self.since + self.timeout + GRACE_S)
            self.close()
            try:
                self._form_generation()
            except Lost as error:
                LOG.warning("%s", error)
                average = True
                continue
            if self.rank == 0:
                _tell(before, plan)
            return plan

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """Explain what it means that the store does not answer."""
        try:
            yield
        except (RuntimeError, dist.DistError):
            raise UserError(
                f"rank {self.place.rank}: the launcher, or the worker that serves the common store, has ended"
            ) from None


def _tell(before: Plan, plan: Plan) -> None:
    gone = [seat for seat in before.seats if seat not in plan.seats]
    new = [seat for seat in plan.seats if seat not in before.seats]
    parts = [f"rank {_words(seats)} {what}" for seats, what in ((gone, "lost"), (new, "back")) if seats]
    LOG.warning(
        "%s: going on with %d workers, rank %s (generation %d)",
        "; ".join(parts) or "an exchange failed",
        len(plan.seats),
        _words(plan.seats),
        plan.number,
    )


def _words(seats: Sequence[int]) -> str:
    return ", ".join(str(seat) for seat in seats)
