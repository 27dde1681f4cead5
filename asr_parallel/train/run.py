"""Verb ``train``: with one worker here, with more through the launcher; under torchrun as one of its workers."""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from asr_parallel import log, stages
from asr_parallel.config import TrainConfig, cores
from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.model import Dnn, make_model, num_parameters, save_model
from asr_parallel.optim.optimizer import make_optimizer
from asr_parallel.parallel.comm import Comm, SoloComm, TorchComm
from asr_parallel.parallel.launch import STOPPED, launch
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.schedule.schedule import make_schedule
from asr_parallel.train import checkpoint
from asr_parallel.train.checkpoint import Checkpoint, Position
from asr_parallel.train.corpus import Corpus, open_corpus
from asr_parallel.train.loop import Stopped, train
from asr_parallel.train.machine import machine
from asr_parallel.train.record import Recorder
from asr_parallel.train.settings import plain, script
from asr_parallel.train.worker import Worker

LOG = log.logger(__name__)
MAY_CHANGE = ("workers", "threads", "device", "data", "ali", "out")  # when training goes on


def run(config: TrainConfig) -> int:
    """Train; give 0, or 143 when asked to stop (the same command then goes on).  Raises ``UserError``."""
    place = Place.from_environment()
    if place is None and config.workers > 1:
        make_strategy(config.strategy).check(config.workers)
        path = config.out / "config.json"
        write_json(path, plain(config))
        command = [sys.executable, "-m", "asr_parallel.train", str(path)]
        code = launch(command, config.workers, threads_of(config, config.workers), config.out / "log")
    else:
        code = work(config, place or Place())
    if code == STOPPED:
        LOG.warning("stopped as asked and saved; the same command goes on from here (%s)", config.out / "run.sh")
    return code


def work(config: TrainConfig, place: Place) -> int:
    """Be one worker."""
    threads = threads_of(config, place.local_size)
    torch.set_num_threads(threads)
    device = device_of(config, place)
    with contextlib.ExitStack() as stack:
        if place.size == 1:
            stack.enter_context(_log_file(config.out / "log" / "rank_0.log"))
        comm = make_comm(config, place, device)
        stack.callback(comm.close)
        stack.enter_context(_signals(comm))
        corpus = open_corpus(config, comm)
        model = make_model(config.model, corpus.frames.dim, len(corpus.counts), config.seed).to(device)
        recorder = Recorder(config.out, comm.rank, config.dev, identity(config, corpus))
        found = _find_checkpoint(config, comm, recorder)
        worker, at, before = assemble(config, comm, corpus, model, device, found)
        if comm.rank == 0:
            _begin(config, worker, corpus, threads)
        recorder.resume(at, worker.strategy.per_epoch(at.minibatch, config.batch))
        try:
            train(worker, recorder, at, before)
        except Stopped:
            return STOPPED
        if comm.rank == 0:
            _finish(config, worker, corpus, recorder, threads)
    return 0


def threads_of(config: TrainConfig, workers: int) -> int:
    return config.threads or max(1, cores() // workers)


def device_of(config: TrainConfig, place: Place) -> torch.device:
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise log.UserError("--device cuda: torch finds no GPU here; give --device cpu")
    return torch.device("cuda", place.local_rank % torch.cuda.device_count())


def make_comm(config: TrainConfig, place: Place, device: torch.device) -> Comm:
    if place.size == 1:
        return SoloComm()
    alone_on_gpu = device.type == "cuda" and place.local_rank < torch.cuda.device_count()
    backend = ("nccl" if alone_on_gpu else "gloo") if config.backend == "auto" else config.backend
    if backend == "nccl" and device.type != "cuda":
        raise log.UserError("--backend nccl needs GPUs; give --backend gloo")
    return TorchComm(place, backend, config.timeout)


def identity(config: TrainConfig, corpus: Corpus) -> dict[str, Any]:
    """What the result depends on: options and data."""
    options = {k: v for k, v in stages.options(config).items() if k not in MAY_CHANGE}
    return options | {f"data.{k}": v for k, v in corpus.identity.items()}


def _find_checkpoint(config: TrainConfig, comm: Comm, recorder: Recorder) -> Checkpoint | None:
    """What to go on from; None to begin, after what an earlier training has left is removed."""
    found = None if config.force else checkpoint.load_newest(recorder.checkpoints, comm)
    finished = (config.out / "train.json").exists()
    if found:
        before, now = found.identity, recorder.identity
        changed = [
            f"{k}: {before.get(k)} -> {now.get(k)}" for k in sorted({*before, *now}) if before.get(k) != now.get(k)
        ]
        if changed and not finished:
            raise log.UserError(
                f"{config.out} holds a training that is not finished, with other options or data "
                f"({'; '.join(changed[:4])}): give those options to go on, --force to begin anew, or another --out"
            )
        found = None if changed else found
    comm.meet()  # all have looked before anything is removed
    if not found and comm.rank == 0:
        for name in ("checkpoint", "tb"):
            shutil.rmtree(config.out / name, ignore_errors=True)
        for name in ("final.pt", "train.json", "history.tsv", "ledger.tsv"):
            (config.out / name).unlink(missing_ok=True)
    return found


def assemble(
    config: TrainConfig, comm: Comm, corpus: Corpus, model: Dnn, device: torch.device, found: Checkpoint | None
) -> tuple[Worker, Position, checkpoint.State | None]:
    """The parts of this worker, in the state of the checkpoint ``found``, if any; and where to begin."""
    strategy = make_strategy(config.strategy)
    strategy.check(comm.size)
    schedule = make_schedule(config.schedule, config.optim.lr)
    trained = strategy.start(model, comm)
    optimizer = make_optimizer(config.optim, trained)
    bf16 = config.precision == "bf16"
    parts = (trained, strategy, optimizer, schedule, comm, corpus.frames, corpus.minibatches, config.batch, corpus.dev)
    worker = Worker(*parts, device=device, bf16=bf16)
    if not found:
        return worker, Position(), None
    schedule.restore(found.schedule)
    if len(found.workers) == comm.size:
        worker.restore(found.workers[comm.rank])
        before = found.before[comm.rank] if found.before else None
        LOG.info("going on after epoch %d, minibatch %d", found.at.epochs, found.at.minibatch)
        return worker, found.at, before
    # another number of workers: parts of an epoch and local states of the optimizer have no meaning any more
    first = (found.before or found.workers)[0]
    worker.restore(first | {n: torch.zeros_like(v) for n, v in first.items() if n.startswith("optimizer/")})
    LOG.warning("going on after epoch %d with %d workers instead of %d", found.at.epochs, comm.size, len(found.workers))
    return worker, Position(found.at.epochs), None


def _begin(config: TrainConfig, worker: Worker, corpus: Corpus, threads: int) -> None:
    """Write what is known before the first step, and say what will happen."""
    write_json(config.out / "config.json", plain(config))
    write_text(config.out / "run.sh", script(config))
    (config.out / "run.sh").chmod(0o755)
    with atomic(config.out / "hmm.json") as temporary:
        shutil.copyfile(config.ali / "hmm.json", temporary)
    scale, lr = worker.strategy.lr_scale, config.optim.lr
    exchanges = worker.strategy.per_epoch(worker.minibatches, worker.batch)
    LOG.info("workers %d x %d threads, strategy %s, %s", worker.comm.size, threads, config.strategy.name, worker.device)
    LOG.info("parameters %s, %d pdfs", f"{num_parameters(worker.model):,}", len(corpus.counts))
    LOG.info("frames of the workers: %s", ", ".join(f"{n:,}" for n in corpus.shards))
    LOG.info(
        "batch %d frames (%d together), lr %g x %g = %g, %d minibatches and %d exchanges an epoch, %d epochs (%s)",
        *(config.batch, config.batch * worker.comm.size, lr, scale, lr * scale),
        *(worker.minibatches, exchanges, config.schedule.epochs, config.schedule.name),
    )


def _finish(config: TrainConfig, worker: Worker, corpus: Corpus, recorder: Recorder, threads: int) -> None:
    """Write model and summary."""
    model = worker.strategy.consensus()
    assert isinstance(model, Dnn)
    save_model(config.out / "final.pt", model, config.features, corpus.counts)
    summary: dict[str, Any] = {
        "name": config.out.name,
        "strategy": config.strategy.name,
        "every": config.strategy.every,
    }
    summary |= {"workers": worker.comm.size, "threads": threads, "batch": config.batch, "precision": config.precision}
    summary |= {"lr": config.optim.lr, "effective_lr": config.optim.lr * worker.strategy.lr_scale}
    summary |= {"schedule": config.schedule.name, "optimizer": config.optim.name, "params": num_parameters(model)}
    summary |= {"train_frames": sum(corpus.shards), "minibatches": worker.minibatches} | recorder.summary()
    write_json(config.out / "train.json", summary | {"machine": machine(worker.device)})
    LOG.info("done: %s, dev accuracy %.2f %%", config.out / "final.pt", 100 * summary.get("dev_acc", 0.0))


@contextlib.contextmanager
def _log_file(path: Path) -> Iterator[None]:
    """Send log lines to ``path`` as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, "w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("asr_parallel")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def _signals(comm: Comm) -> Iterator[None]:
    """SIGTERM and SIGINT ask the workers to stop at a step's end; a second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        comm.request_stop()
        LOG.warning("asked to stop: saving at the next step (again to stop at once)")
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
