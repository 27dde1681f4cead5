"""One worker, put together of its parts, and brought to where a checkpoint stands."""

from __future__ import annotations

import torch

from asr_parallel import log
from asr_parallel.config import TrainConfig
from asr_parallel.model import Dnn
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.comm import Comm
from asr_parallel.parallel.ensemble import EnsembleTraining
from asr_parallel.parallel.strategy import Strategy
from asr_parallel.schedule.schedule import make_schedule
from asr_parallel.train.checkpoint import Checkpoint, Position, State
from asr_parallel.train.corpus import Corpus
from asr_parallel.train.growth import Growth, grown_after
from asr_parallel.train.probe import Probe
from asr_parallel.train.worker import Worker

LOG = log.logger(__name__)


def assemble(
    config: TrainConfig, comm: Comm, corpus: Corpus, strategy: Strategy, model: Dnn, device: torch.device
) -> Worker:
    """A worker at the beginning of training."""
    strategy.check(comm.size)
    schedule = make_schedule(config.schedule, config.optim.lr, config.strategy.every, config.batch)
    trained = strategy.start(model, comm)
    optimizer = make_optimizer(config.optim, trained)
    optimizer.on_gradient = strategy.gradient if strategy.exchanges == "gradients" else None
    bf16 = config.precision == "bf16"
    parts = (trained, strategy, optimizer, schedule, comm, corpus.frames, corpus.minibatches, config.batch, corpus.dev)
    worker = Worker(*parts, device=device, bf16=bf16, save_every=config.save_every)
    if isinstance(strategy, EnsembleTraining):
        strategy.view = worker
    worker.seed = config.seed if config.model.dropout else None
    worker.probe = Probe.of(corpus.dev, config.strategy, device)
    if period := grown_after(config.model, worker.minibatches, config.batch):
        worker.growth = Growth.of(trained, strategy, optimizer, period, config.seed)
    return worker


def go_on(worker: Worker, found: Checkpoint) -> Position:
    """Bring ``worker`` to where the checkpoint ``found`` stands, of as many workers or of others; give the position."""
    worker.schedule.restore(found.schedule)
    rank, size = worker.comm.rank, worker.comm.size
    if len(found.workers) == size:
        worker.restore(found.workers[rank])
        worker.before = found.before[rank] if found.before else None
        LOG.info("going on after epoch %d, minibatch %d", found.at.epochs, found.at.minibatch)
        return found.at
    if worker.strategy.exchanges == "outputs":
        raise log.UserError(
            f"--out holds an ensemble of {len(found.workers)} models, with which {size} workers cannot go on: "
            f"give --workers {len(found.workers)}, --force to begin anew, or another --out"
        )
    # another number of workers: parts of an epoch and local states of the optimizer have no meaning any more
    first = (found.before or found.workers)[0]
    worker.restore(worker.forgetful(first))
    if rank == 0:
        told = changes(found.size | {"workers": len(found.workers)}, worker.size)
        epoch = "the epoch under way begins anew; " if found.at.minibatch else ""
        LOG.warning("going on after epoch %d: %s; %s%s", found.at.epochs, told, epoch, fate(worker, first))
    return Position(found.at.epochs)


def changes(before: dict[str, float], now: dict[str, float]) -> str:
    """``workers 2 -> 3, lr 0.4 -> 0.6``: what is other than before, and what is new."""
    others = {name: value for name, value in now.items() if before.get(name) != value}
    return ", ".join(
        f"{name} {before[name]:g} -> {value:g}" if name in before else f"{name} {value:g}"
        for name, value in others.items()
    )


def fate(worker: Worker, state: State) -> str:
    """What has become of the ``state`` of an optimizer and a strategy for another number of workers."""
    now = worker.strategy.state()
    names = sorted(name.removeprefix("strategy/") for name in state if name.startswith("strategy/"))
    kept = [name for name in names if name in now and torch.equal(now[name].cpu(), state[f"strategy/{name}"])]
    parts = ["the optimizer begins anew"]
    for what, which in (("kept", kept), ("dropped", [name for name in names if name not in kept])):
        parts += [f"of the strategy's state {what}: {', '.join(which)}"] if which else []
    return "; ".join(parts)
