"""How workers talk: few operations, each of them met by every worker, each with a deadline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor

from asr_parallel.log import UserError


class Stopped(Exception):
    """The work was asked to stop; everything is saved."""


class Changed(Exception):
    """The workers are to change: whoever catches this calls ``SurvivingComm.regroup``."""


class Lost(UserError, Changed):
    """Another worker is not there any more, and those that are left may go on."""


class Comm(ABC):
    """Worker ``rank`` of ``size``.

    ``stopping`` turns true on all workers at the same ``meet`` after any of them was asked to stop, so that
    they leave at the same step.  Collective operations raise ``UserError`` that names the missing rank.

    A new transport gives ``rank``, ``size`` and the abstract operations; ``pass_on`` and ``all_gather`` are made of
    ``swap``.  It may give ``in_background``; without it exchanges are right, but hide no time.
    """

    rank: int
    size: int

    def __init__(self) -> None:
        self.asked_to_stop = False
        self.stopping = False
        self.changing = False  # likewise: whether the workers are to change (``Changed``) after the exchange under way

    @property
    def seats(self) -> tuple[int, ...]:
        """For each rank the one that its worker was started as: another where workers were lost."""
        return tuple(range(self.size))

    def request_stop(self) -> None:
        """Ask for a stop at the next step where all agree.  Safe in a signal handler."""
        self.asked_to_stop = True

    @abstractmethod
    def meet(self) -> None:
        """Wait for all workers, and agree whether to stop."""

    @abstractmethod
    def all_reduce_mean(self, flat: Tensor) -> int:
        """Replace ``flat`` by its mean over workers (sum, then divide); give the bytes this worker sent."""

    @abstractmethod
    def swap(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        """Send the vector ``parts[r]`` to each rank r; give what each has sent here, copied, ``sizes[r]`` values of it.

        All parts of all workers are of one type and on one kind of device; a part of no values is not sent.
        """

    def pass_on(self, flat: Tensor, to: int, source: int) -> Tensor:
        """Send ``flat`` to the rank ``to``, and give the vector like it that the rank ``source`` has sent here."""
        parts = [flat if rank == to else flat[:0] for rank in range(self.size)]
        return self.swap(parts, [len(flat) if rank == source else 0 for rank in range(self.size)])[source]

    def all_gather(self, flat: Tensor) -> list[Tensor]:
        """The vectors of all workers, which are of one length, in the order of ranks."""
        return self.swap([flat] * self.size, [len(flat)] * self.size)

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """Sum of a small tensor in main memory over workers, the same bits on each."""

    @abstractmethod
    def broadcast(self, tensor: Tensor) -> None:
        """Overwrite ``tensor`` on all workers by that of rank 0."""

    @abstractmethod
    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all workers, in the order of ranks, at rank 0 (empty elsewhere).

        The first dimension may differ from worker to worker.
        """

    def in_background(self, work: Callable[[Comm], int]) -> Callable[[], int]:
        """Begin ``work``, which talks through the ``Comm`` it is given; the result waits for its end and gives what it
        gave.  All workers call this at the same step, and one such work is under way at a time.

        Here the work is done at once.  Where it runs beside what follows, its line to the others is one of its own.
        """
        given = work(self)
        return lambda: given

    def close(self) -> None:  # noqa: B027
        """Leave the others."""

    def abandon(self) -> None:
        """Leave after a failure; the others must not wait for this worker."""
        self.close()


class SoloComm(Comm):
    """A worker alone."""

    rank, size = 0, 1

    def request_stop(self) -> None:
        self.asked_to_stop = self.stopping = True

    def meet(self) -> None:
        pass

    def all_reduce_mean(self, flat: Tensor) -> int:
        return 0

    def swap(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        return [parts[0].clone()]

    def sum(self, values: Tensor) -> Tensor:
        return values

    def broadcast(self, tensor: Tensor) -> None:
        pass

    def gather(self, tensor: Tensor) -> list[Tensor]:
        return [tensor.clone()]
