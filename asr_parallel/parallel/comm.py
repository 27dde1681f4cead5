"""How workers talk: few operations, each of them met by every worker, each with a deadline."""

from __future__ import annotations

import contextlib
import copy
import datetime
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.parallel.background import in_thread
from asr_parallel.parallel.place import Place


class Stopped(Exception):
    """The work was asked to stop; everything is saved."""


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


class TorchComm(Comm):
    """``torch.distributed``: gloo, or nccl for what lies on GPUs (small things then go through gloo all the same).

    Before each operation a worker notes in the common store how many it has begun; when one fails, the ranks
    that are behind are the ones that are missing.
    """

    def __init__(self, place: Place, backend: str, timeout: float):
        super().__init__()
        self.rank, self.size, self.timeout = place.rank, place.size, timeout
        self.begun, self.name = 0, "begun"
        self.store: Any = None
        deadline = datetime.timedelta(seconds=timeout)
        try:
            serve = place.rank == 0 and not place.store_is_there
            store = dist.TCPStore(place.host, place.port, place.size, serve, deadline, wait_for_workers=False)
            self.store = dist.PrefixStore(place.run, store)
            self.store.set(f"begun/{self.rank}", "0")
            self.store.wait([f"begun/{rank}" for rank in range(self.size)], deadline)
            dist.init_process_group(backend, store=self.store, rank=place.rank, world_size=place.size, timeout=deadline)
        except (RuntimeError, dist.DistError) as error:
            raise UserError(
                f"rank {place.rank} of {place.size} did not find the others at {place.host}:{place.port} within "
                f"{timeout:g} s: {self._missing() if self.store else 'rank 0 is not there'} ({_first_line(error)}). "
                "Check that all workers were started and can reach that address"
            ) from None
        self.backend = backend
        self.twin: TorchComm | None = None  # for what runs in the background
        self.large: Any = None  # the group of vectors; None is the one of all
        self.small: Any = dist.new_group(backend="gloo", timeout=deadline) if backend != "gloo" else None

    def meet(self) -> None:
        flag = torch.tensor([int(self.asked_to_stop)])
        with self._together("meeting"):
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.small)
        self.stopping = bool(flag.item())

    def all_reduce_mean(self, flat: Tensor) -> int:
        with self._together("averaging"):
            dist.all_reduce(flat, dist.ReduceOp.SUM, group=self.large)  # not every type and backend has AVG
            flat.div_(self.size)
            if flat.is_cuda:
                torch.cuda.current_stream(flat.device).synchronize()
        return 2 * flat.nbytes * (self.size - 1) // self.size  # of a ring

    def swap(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        own = parts[self.rank]
        received = [own.clone() if rank == self.rank else own.new_empty(size) for rank, size in enumerate(sizes)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        operations = [
            dist.P2POp(dist.isend, parts[rank].contiguous(), rank, self.large) for rank in others if len(parts[rank])
        ]
        operations += [dist.P2POp(dist.irecv, received[rank], rank, self.large) for rank in others if sizes[rank]]
        with self._together("swapping"):
            for work in dist.batch_isend_irecv(operations) if operations else []:
                work.wait()
            if own.is_cuda:
                torch.cuda.current_stream(own.device).synchronize()
        return received

    def sum(self, values: Tensor) -> Tensor:
        total = values.clone()
        with self._together("summing"):
            dist.all_reduce(total, dist.ReduceOp.SUM, group=self.small)
        return total

    def broadcast(self, tensor: Tensor) -> None:
        with self._together("a broadcast"):
            dist.broadcast(tensor, 0, group=self.large if tensor.is_cuda else self.small)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        tensor = tensor.detach().cpu().contiguous()
        rows = torch.zeros(self.size, dtype=torch.int64)
        rows[self.rank] = len(tensor)
        rows = self.sum(rows)
        padded = torch.zeros((int(rows.max()), *tensor.shape[1:]), dtype=tensor.dtype)
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in range(self.size)] if self.rank == 0 else None
        with self._together("gathering"):
            dist.gather(padded, parts, 0, group=self.small)
        return [part[:n] for part, n in zip(parts or [], rows.tolist())]

    def in_background(self, work: Callable[[Comm], int]) -> Callable[[], int]:
        if self.twin is None:
            self.twin = self._make_twin()
        return in_thread(work, self.twin)

    def _make_twin(self) -> TorchComm:
        """The same workers over groups of their own; all workers make theirs at the same step."""
        deadline = datetime.timedelta(seconds=self.timeout)
        twin = copy.copy(self)
        twin.begun, twin.name = 0, "begun_aside"
        twin.large = dist.new_group(backend=self.backend, timeout=deadline)
        twin.small = dist.new_group(backend="gloo", timeout=deadline) if self.backend != "gloo" else twin.large
        return twin

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()

    @contextlib.contextmanager
    def _together(self, what: str) -> Iterator[None]:
        self.begun += 1
        start = time.monotonic()
        try:
            self.store.set(f"{self.name}/{self.rank}", str(self.begun))
            yield
        except (RuntimeError, dist.DistError) as error:
            raise UserError(
                f"rank {self.rank}: {what} failed after {time.monotonic() - start:.0f} s: {self._missing()} "
                f"({_first_line(error)}). See the log of that rank; --timeout is {self.timeout:g} s"
            ) from None

    def _missing(self) -> str:
        """Which ranks have not begun the operation that failed here."""
        late = []
        try:
            for rank in range(self.size):
                key = f"{self.name}/{rank}"
                if rank != self.rank and (not self.store.check([key]) or int(self.store.get(key)) < self.begun):
                    late.append(str(rank))
        except (RuntimeError, dist.DistError):
            return "the first worker or the launcher has ended"
        return f"rank {', '.join(late)} did not come" if late else "a rank has ended"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
