"""Workers that talk through MPI (``mpirun -n 4 asr-parallel train --backend mpi``), with the rules of ``comm.Comm``.

pip's torch has no MPI, so this is mpi4py.  Only buffers are sent, as bytes: no pickle, any number type, and tensors on
GPUs by way of main memory.  Sums are taken in the order of ranks, so any number of workers gives the bits of as many
simulated ones.  The mean of a vector is made in two swaps, each of 1/K of the vector with every other worker: first
each sums its piece, then gives it to all, which costs what a ring costs.

MPI knows no deadlines.  Every wait here is a polled one; when it is too long, the worker calls the roll: whoever waits
as well answers with the number of operations it has begun, and who does not answer, or is behind, is the one missing.
"""

from __future__ import annotations

import atexit
import importlib
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.place import Place

ROLL_S = 1.0  # seconds that others have to answer to a roll call
PAUSE_S = 0.0005  # longest sleep between two looks at a message under way
SLOW = 50e6  # bytes a second of a network that is not worth looking at all the time
CALL, ANSWER = 1, 2  # tags of the roll


def load_mpi() -> Any:
    """``mpi4py.MPI``, begun so that a process which ends without ``MpiComm.close`` ends the whole job."""
    try:
        mpi4py = importlib.import_module("mpi4py")
        mpi4py.rc.finalize = False  # else a worker that fails would wait for the others at its end
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"--backend mpi needs mpi4py and an MPI library ({str(error).strip().splitlines()[0]}): "
            "pip install 'asr_parallel[mpi]', or mpi4py beside your system's MPI"
        ) from None
    atexit.register(lambda: mpi.Is_finalized() or mpi.COMM_WORLD.Abort(1))
    return mpi


class MpiComm(Comm):
    """Worker of an MPI job.  ``place`` is what the launcher said, which MPI must confirm."""

    def __init__(self, place: Place, timeout: float):
        super().__init__()
        self.mpi = load_mpi()
        world = self.mpi.COMM_WORLD
        if (world.size, world.rank) != (place.size, place.rank):
            raise UserError(
                f"{place.launcher} started {place.size} workers, but MPI sees {world.size} (rank {place.rank} is "
                f"{world.rank} there): that launcher belongs to another MPI than mpi4py loads "
                f"({self.mpi.Get_library_version().split(',')[0].splitlines()[0]}). Use the mpirun of that one"
            )
        self.rank, self.size, self.timeout = world.rank, world.size, timeout
        self.others = [rank for rank in range(self.size) if rank != self.rank]
        self.begun = 0
        self.roll = None  # not there while the first operation is under way
        self.world, self.roll = self._duplicate(world), self._duplicate(world)

    def meet(self) -> None:
        asked, agreed = np.array([self.asked_to_stop], np.int32), np.empty(1, np.int32)
        self._finish("meeting", [self.world.Iallreduce(asked, agreed, self.mpi.MAX)])
        self.stopping = bool(agreed[0])

    def all_reduce_mean(self, flat: Tensor) -> int:
        pieces = list(flat.tensor_split(self.size))
        own = pieces[self.rank]
        mean = _in_order(self._swap("averaging", pieces, [len(own)] * self.size)).div_(self.size)
        for piece, found in zip(pieces, self._swap("averaging", [mean] * self.size, [len(p) for p in pieces])):
            piece.copy_(found)
        return 2 * flat.nbytes * (self.size - 1) // self.size

    def swap(self, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        return self._swap("swapping", parts, sizes)

    def sum(self, values: Tensor) -> Tensor:
        flat = values.reshape(-1)
        return _in_order(self._swap("summing", [flat] * self.size, [len(flat)] * self.size)).reshape(values.shape)

    def broadcast(self, tensor: Tensor) -> None:
        held = tensor.detach().cpu().contiguous()
        self._finish("a broadcast", [self.world.Ibcast(self._memory(held), 0)])
        tensor.copy_(held)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        tensor = tensor.detach().cpu().contiguous()
        lengths = self.all_gather(torch.tensor([len(tensor)]))
        own, row = tensor.reshape(-1), int(np.prod(tensor.shape[1:]))
        parts = [own if rank == 0 else own[:0] for rank in range(self.size)]
        sizes = [int(n) * row if self.rank == 0 else 0 for n in lengths]
        found = self._swap("gathering", parts, sizes)
        return [part.reshape(-1, *tensor.shape[1:]) for part in found] if self.rank == 0 else []

    def close(self) -> None:
        """Leave the others, who leave too."""
        self._finish("the end", [self.world.Ibarrier()])
        self.mpi.Finalize()

    def abandon(self) -> None:
        """Leave after a failure: when this process ends, so does the whole job."""

    def _duplicate(self, world: Any) -> Any:
        copy, request = world.Idup()
        self._finish("the start", [request])
        return copy

    def _memory(self, tensor: Tensor) -> Any:
        """The bytes of a contiguous ``tensor``, which has to stay, for MPI; numpy would forbid it to be resized."""
        return self.mpi.buffer.fromaddress(tensor.data_ptr(), tensor.nbytes)

    def _swap(self, what: str, parts: list[Tensor], sizes: list[int]) -> list[Tensor]:
        device = parts[self.rank].device
        sent = [part.detach().cpu().contiguous() for part in parts]
        found = [sent[self.rank].new_empty(size) for size in sizes]
        found[self.rank].copy_(sent[self.rank])
        receiving = [self.world.Irecv(self._memory(found[rank]), rank) for rank in self.others if sizes[rank]]
        sending = [self.world.Isend(self._memory(sent[rank]), rank) for rank in self.others if len(sent[rank])]
        self._finish(what, receiving + sending, sum(part.nbytes for part in (*found, *sent)))
        return [part.to(device) for part in found]

    def _finish(self, what: str, requests: list[Any], nbytes: int = 0) -> None:
        """Wait for ``requests``, sleeping; name who is missing if that takes longer than the deadline.

        MPI sends only while it is looked at, so as long as ``nbytes`` may take one looks again at once.
        """
        self.begun += 1
        sending = nbytes / SLOW
        begin = time.monotonic()
        try:
            while not self.mpi.Request.Testall(requests):
                waited = time.monotonic() - begin
                if waited > self.timeout:
                    raise UserError(
                        f"rank {self.rank}: {what} failed after {waited:.0f} s: {self._missing()}. "
                        f"See the log of that rank; --timeout is {self.timeout:g} s"
                    )
                self._answer()
                time.sleep(min(PAUSE_S, waited / 50) if waited > sending else 0.0)
        except self.mpi.Exception as error:
            raise UserError(f"rank {self.rank}: {what} failed: a rank has ended ({error})") from None

    def _answer(self) -> None:
        """Tell those who call the roll how many operations this worker has begun."""
        status = self.mpi.Status()
        while self.roll and self.roll.Iprobe(tag=CALL, status=status):
            nothing, begun = np.empty(1, np.int64), np.array([self.begun])
            self.roll.Recv(nothing, status.source, CALL)
            self.roll.Send(begun, status.source, ANSWER)  # small, so it waits for no one

    def _missing(self) -> str:
        """Who does not wait here: call the roll."""
        if self.roll is None:
            return "not all workers came to the start"
        answers = {rank: np.full(1, -1) for rank in self.others}
        calls = [self.roll.Isend(np.array([self.begun]), rank, CALL) for rank in self.others]
        replies = [self.roll.Irecv(answers[rank], rank, ANSWER) for rank in self.others]
        end = time.monotonic() + ROLL_S
        while time.monotonic() < end and not self.mpi.Request.Testall(calls + replies):
            self._answer()
            time.sleep(PAUSE_S)
        late = [str(rank) for rank in self.others if answers[rank][0] < self.begun]
        return f"rank {', '.join(late)} did not come" if late else "a message was lost, or the network is very slow"


def _in_order(parts: list[Tensor]) -> Tensor:
    """The sum in the order of ranks."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total
