"""What is needed to go on: written whole or not at all, the newest two kept, a damaged one passed over."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from asr_parallel import log
from asr_parallel.parallel.comm import Comm
from asr_parallel.tensors import load_tensors, save_tensors

LOG = log.logger(__name__)
FORMAT = 1
KEEP = 2
State = dict[str, Tensor]  # Worker.snapshot()


@dataclass(frozen=True, order=True)
class Position:
    """``epochs`` are done, and of the next one ``minibatch`` minibatches."""

    epochs: int = 0
    minibatch: int = 0


@dataclass
class Checkpoint:
    """``workers`` holds one state a rank; all have the parameters ("values") of rank 0, which are stored once.

    ``before`` are the states at the beginning of the epoch under way, empty between epochs.  ``identity``
    tells what was trained on what (compared when training goes on).
    """

    at: Position
    workers: list[State]
    before: list[State]
    schedule: dict[str, float]
    identity: dict[str, Any]
    size: dict[str, float] = field(default_factory=dict)  # ``Worker.size``


def gather_states(comm: Comm, state: State | None) -> list[State]:
    """The states of all workers at rank 0; "values" only once, with the first."""
    if state is None:
        return []
    names = sorted(state.keys() - {"values"})
    columns = [comm.gather(state[name]) for name in names]
    if comm.rank != 0:
        return []
    states = [dict(zip(names, row)) for row in zip(*columns)]
    states[0]["values"] = state["values"]
    return states


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint into ``folder``, then remove all but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    at = checkpoint.at
    value = {"format": FORMAT, **vars(checkpoint), "at": asdict(at)}
    save_tensors(folder / f"{at.epochs:04d}-{at.minibatch:08d}.pt", value)
    for old in _files(folder)[:-KEEP]:
        old.unlink()


def load_newest(folder: Path, comm: Comm) -> Checkpoint | None:
    """The newest checkpoint that can be read, the same on all workers (rank 0 chooses); None if there is none."""
    found: Checkpoint | None = None
    files = _files(folder)
    if comm.rank == 0:
        for path in reversed(files):
            found = _load(path)
            if found:
                break
    chosen = torch.tensor([found.at.epochs, found.at.minibatch] if found else [-1, -1])
    comm.broadcast(chosen)
    if comm.rank != 0 and chosen[0] >= 0:
        path = folder / f"{int(chosen[0]):04d}-{int(chosen[1]):08d}.pt"
        found = _load(path)
        if found is None:
            raise log.UserError(f"rank {comm.rank} cannot read {path}, which rank 0 can: all need the same folder")
    return found


def _load(path: Path) -> Checkpoint | None:
    try:
        value = load_tensors(path, (FORMAT,), "passed over")
        del value["format"]
        checkpoint = Checkpoint(**(value | {"at": Position(**value["at"])}))
    except (log.UserError, TypeError, KeyError) as error:
        LOG.warning("checkpoint: %s", error)
        return None
    for states in (checkpoint.workers, checkpoint.before):
        for state in states[1:]:
            state["values"] = states[0]["values"]
    return checkpoint


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.pt"))
