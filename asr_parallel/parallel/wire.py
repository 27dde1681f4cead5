"""The mean of a vector over workers, in fewer bytes: as fp32, bf16 or int8 on the wire, with error feedback.

With bf16 and int8 a mean is a reduce-scatter and an all-gather: each worker sends piece r of its vector, encoded, to
rank r, which takes the mean of what it gets in fp32, in the order of ranks, and sends that mean, encoded, to all.  All
workers decode the same codes, so all come to the same bits.  What an encoding has lost is added to the next vector
that goes the same way (error feedback; Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019), so that the sum
of all that was sent is the sum of all that was meant, up to the latest loss.  Give differences from what
all workers know rather than parameters: they are smaller, and so are the losses.

int8 has a scale for each ``BLOCK`` values, an fp32 that makes the largest of them 127.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.parallel.comm import Comm

Form = Literal["fp32", "bf16", "int8"]
BLOCK = 256


def mean_of(comm: Comm, flat: Tensor, taken: Sequence[int] | None = None) -> int:
    """Replace ``flat`` by its mean over the workers ``taken`` (None: all), in fp32; give the bytes sent.

    What the others bring, even if it is not a number, has no influence.
    """
    if taken is None or len(taken) == comm.size:
        return comm.all_reduce_mean(flat)
    if len(taken) == 1:
        return _from_one(comm, flat, taken[0])
    if comm.rank not in taken:
        flat.zero_()
    sent = comm.all_reduce_mean(flat)
    flat.mul_(comm.size / len(taken))
    return sent


def _from_one(comm: Comm, flat: Tensor, source: int) -> int:
    """To the bit what the rank ``source`` has."""
    mine = comm.rank == source
    parts = [flat if mine else flat[:0]] * comm.size
    sizes = [len(flat) if rank == source else 0 for rank in range(comm.size)]
    flat.copy_(comm.swap(parts, sizes)[source])
    return (comm.size - 1) * flat.nbytes if mine else 0


def encode(values: Tensor, form: Form) -> Tensor:
    """Bytes, uint8 [``coded_size``], of float32 ``values`` [N]; ``form`` is not fp32."""
    if form == "bf16":
        return values.to(torch.bfloat16).view(torch.uint8)
    blocks = F.pad(values, (0, -len(values) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(1) / 127
    codes = (blocks / scales.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round_().clamp_(-127, 127)
    return torch.cat([scales.view(torch.uint8), codes.to(torch.int8).view(-1)[: len(values)].view(torch.uint8)])


def decode(code: Tensor, form: Form, size: int) -> Tensor:
    """The float32 values [``size``] that ``code`` stands for."""
    if form == "bf16":
        return code.view(torch.bfloat16).float()
    blocks = -(-size // BLOCK)
    scales = code[: 4 * blocks].view(torch.float32)
    codes = F.pad(code[4 * blocks :].view(torch.int8).float(), (0, -size % BLOCK))
    return (codes.view(-1, BLOCK) * scales[:, None]).view(-1)[:size]


def coded_size(size: int, form: Form) -> int:
    """Bytes of ``size`` encoded values."""
    return 2 * size if form == "bf16" else size + 4 * -(-size // BLOCK)


class Wire:
    """How one worker's vectors travel.  ``start`` once, before all else; a vector has the same length each time."""

    def __init__(self, form: Form):
        self.form = form
        self.lost: dict[str, Tensor] = {}  # what encodings have lost: of the own vector, of the mean of the own piece

    def start(self, flat: Tensor, comm: Comm) -> None:
        if self.form != "fp32" and comm.size > 1:
            piece = flat.tensor_split(comm.size)[comm.rank]
            self.lost = {"wire_own": torch.zeros_like(flat), "wire_mean": torch.zeros_like(piece)}

    @property
    def plain(self) -> bool:
        """Whether nothing is lost on the way."""
        return not self.lost

    def mean(self, comm: Comm, flat: Tensor, taken: Sequence[int] | None = None) -> int:
        """Replace ``flat`` by its mean over the workers ``taken`` (None: all); give the bytes sent."""
        if self.plain:
            return mean_of(comm, flat, taken)
        taken = range(comm.size) if taken is None else taken
        pieces = flat.tensor_split(comm.size)
        sizes = [coded_size(len(piece), self.form) for piece in pieces]
        parts = self._own(pieces) if comm.rank in taken else self._nothing(pieces)
        own = pieces[comm.rank]
        received = comm.swap(parts, [sizes[comm.rank] if rank in taken else 0 for rank in range(comm.size)])
        mean = torch.zeros_like(own)
        for rank in taken:
            mean += decode(received[rank], self.form, len(own))
        code = self.compress(mean.div_(len(taken)), self.lost["wire_mean"])
        for piece, theirs in zip(pieces, comm.swap([code] * comm.size, sizes)):
            piece.copy_(decode(theirs, self.form, len(piece)))
        others = sum(len(part) for rank, part in enumerate(parts) if rank != comm.rank)
        return others + (comm.size - 1) * len(code)

    def _own(self, pieces: Sequence[Tensor]) -> list[Tensor]:
        lost = self.lost["wire_own"].tensor_split(len(pieces))
        return [self.compress(piece, loss) for piece, loss in zip(pieces, lost)]

    def _nothing(self, pieces: Sequence[Tensor]) -> list[Tensor]:
        """A worker that is left out has nothing to make up for."""
        self.lost["wire_own"].zero_()
        return [pieces[0].new_empty(0, dtype=torch.uint8)] * len(pieces)

    def compress(self, values: Tensor, lost: Tensor) -> Tensor:
        """Encode ``values`` and what was ``lost`` before; note what is lost now."""
        wanted = values + lost
        code = encode(wanted, self.form)
        torch.sub(wanted, decode(code, self.form, len(values)), out=lost)
        return code

    def state(self) -> dict[str, Tensor]:
        return dict(self.lost)

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back ``state``; nothing of it if it is of another number of workers."""
        fits = all(name in state and state[name].shape == value.shape for name, value in self.lost.items())
        for name, value in self.lost.items():
            value.copy_(state[name]) if fits else value.zero_()
