"""Workers that talk through ``torch.distributed``, with the rules of ``comm.Comm``."""

from __future__ import annotations

import contextlib
import copy
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.parallel.background import in_thread
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.place import Place


class TorchComm(Comm):
    """``torch.distributed``: gloo, or nccl for what lies on GPUs (small things then go through gloo all the same).

    Before each operation a worker notes in the common store how many it has begun; when one fails, the ranks
    that are behind are the ones that are missing.
    """

    failure: type[UserError] = UserError  # what is raised when an operation fails

    def __init__(self, place: Place, backend: str, timeout: float):
        super().__init__()
        self.place, self.backend, self.timeout = place, backend, timeout
        self.deadline = datetime.timedelta(seconds=timeout)
        serve = place.rank == 0 and not place.store_is_there
        try:
            store = dist.TCPStore(place.host, place.port, place.size, serve, self.deadline, wait_for_workers=False)
        except (RuntimeError, dist.DistError) as error:
            raise self._not_found("rank 0 is not there", error) from None
        self.root = dist.PrefixStore(place.run, store)
        self._join()

    def _join(self) -> None:
        self._form(self.root, self.place.rank, self.place.size)

    def _form(self, store: dist.Store, rank: int, size: int) -> None:
        """Become ``rank`` of the ``size`` workers whose entries are in ``store``."""
        self.store, self.rank, self.size = store, rank, size
        self.begun, self.name, self.since = 0, "begun", time.monotonic()
        try:
            store.set(f"begun/{rank}", "0")
            store.wait([f"begun/{other}" for other in range(size)], self.deadline)
            dist.init_process_group(self.backend, store=store, rank=rank, world_size=size, timeout=self.deadline)
        except (RuntimeError, dist.DistError) as error:
            raise self._not_found(self._missing(), error) from None
        self.twin: TorchComm | None = None  # for what runs in the background
        self.large: Any = None  # the group of vectors; None is the one of all
        self.small: Any = dist.new_group(backend="gloo", timeout=self.deadline) if self.backend != "gloo" else None

    def _not_found(self, why: str, error: Exception) -> UserError:
        place = self.place
        return self.failure(
            f"rank {place.rank} of {place.size} did not find the others at {place.host}:{place.port} within "
            f"{self.timeout:g} s: {why} ({_first_line(error)}). "
            "Check that all workers were started and can reach that address"
        )

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
        # receiving first: gloo's word to a sender that it may begin would wait behind a vector that is on its way
        operations = [dist.P2POp(dist.irecv, received[rank], rank, self.large) for rank in others if sizes[rank]]
        operations += [
            dist.P2POp(dist.isend, parts[rank].contiguous(), rank, self.large) for rank in others if len(parts[rank])
        ]
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
        twin = copy.copy(self)
        twin.begun, twin.name = 0, "begun_aside"
        twin.large = dist.new_group(backend=self.backend, timeout=self.deadline)
        twin.small = dist.new_group(backend="gloo", timeout=self.deadline) if self.backend != "gloo" else twin.large
        return twin

    def close(self) -> None:
        self.twin = None
        with contextlib.suppress(RuntimeError):
            if dist.is_initialized():
                dist.destroy_process_group()

    @contextlib.contextmanager
    def _together(self, what: str) -> Iterator[None]:
        self.begun += 1
        self.since = time.monotonic()
        try:
            self.store.set(f"{self.name}/{self.rank}", str(self.begun))
            yield
        except (RuntimeError, dist.DistError) as error:
            raise self.failure(
                f"rank {self.seats[self.rank]}: {what} failed after {time.monotonic() - self.since:.0f} s: "
                f"{self._missing()} "
                f"({_first_line(error)}). See the log of that rank; --timeout is {self.timeout:g} s"
            ) from None

    def _missing(self) -> str:
        """Which ranks have not begun the operation that failed here."""
        late = []
        try:
            for rank in range(self.size):
                key = f"{self.name}/{rank}"
                if rank != self.rank and (not self.store.check([key]) or int(self.store.get(key)) < self.begun):
                    late.append(str(self.seats[rank]))
        except (RuntimeError, dist.DistError):
            return "the first worker or the launcher has ended"
        return f"rank {', '.join(late)} did not come" if late else "a rank has ended"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
