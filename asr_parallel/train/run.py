"""Verb ``train``: with one worker here, with more through the launcher; under torchrun as one of its workers."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from asr_parallel import log, stages
from asr_parallel.align.ctc import MARKER, ctc_hmm, save_ctc
from asr_parallel.config import TrainConfig
from asr_parallel.criterion import Ctc
from asr_parallel.ensemble import Ensemble
from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.heap import keep_freed_memory
from asr_parallel.model import Dnn, load_predictor, make_model, num_parameters, save_model
from asr_parallel.parallel import surviving
from asr_parallel.parallel.comm import Changed, Comm, Lost, Stopped
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.membership import Progress
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.start import joined, start, threads_of
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.parallel.surviving import SurvivingComm, goes_on
from asr_parallel.pretrain.dbn import load_dbn
from asr_parallel.schedule.schedule import make_schedule
from asr_parallel.train import checkpoint, ctc
from asr_parallel.train.assemble import assemble, go_on
from asr_parallel.train.checkpoint import Checkpoint, Position
from asr_parallel.train.corpus import Corpus, open_corpus
from asr_parallel.train.growth import grown_after
from asr_parallel.train.loop import train
from asr_parallel.train.machine import machine
from asr_parallel.train.record import Recorder
from asr_parallel.train.regroup import Held, take_up
from asr_parallel.train.settings import plain, script
from asr_parallel.train.worker import Worker

LOG = log.logger(__name__)
MAY_CHANGE = ("workers", "threads", "device", "data", "ali", "lang", "out")  # when training goes on
RATES = ("optim.lr", "schedule.rates")  # these too, but it is written down


def run(config: TrainConfig) -> int:
    """Train; give 0, or 143 when asked to stop (the same command then goes on).  Raises ``UserError``."""
    make_strategy(config.strategy).check(config.workers)
    make_schedule(config.schedule, config.optim.lr, config.strategy.every, config.batch)  # raises early
    if not 0 <= config.label_smoothing < 1:
        raise log.UserError(f"--label_smoothing {config.label_smoothing:g}: give a share of 0 or more, below 1")
    if config.criterion == "ctc":
        ctc.check(config)
    if goes_on(config):
        surviving.check(config)
    code = start(config, work, "asr_parallel.train")
    if code == STOPPED:
        LOG.warning("stopped as asked and saved; the same command goes on from here (%s)", config.out / "run.sh")
    return code


@dataclass(frozen=True)
class Session:
    """The work of one worker among those that there are; ``at`` is where it begins."""

    config: TrainConfig
    threads: int
    corpus: Corpus
    worker: Worker
    recorder: Recorder
    at: Position


def work(config: TrainConfig, place: Place) -> int:
    """Be one worker."""
    keep_freed_memory()
    with joined(config, place) as (comm, device):
        held: Held | None = None
        while True:
            session = None
            try:
                session = _open(config, place, comm, device, held)
                return _train(session)
            except Changed as change:
                failed = isinstance(change, Lost)
            assert isinstance(comm, SurvivingComm)
            held = held if session is None else Held.of(session.worker, session.recorder)
            session = None  # now nothing holds on to connections of the group that has failed, nor does the error
            comm.regroup(held.progress if held else Progress(), average=failed)


def _open(config: TrainConfig, place: Place, comm: Comm, device: torch.device, held: Held | None) -> Session:
    """Get ready to train with the workers that ``comm`` has; ``held`` is what this one had when there were others."""
    corpus = open_corpus(config, comm)
    model = make_model(config.model, corpus.frames.dim, len(corpus.counts), config.seed).to(device)
    _check_start(config, corpus)
    strategy = make_strategy(config.strategy)
    strategy.seed, strategy.label_smoothing = config.seed, config.label_smoothing
    if config.criterion == "ctc":
        strategy.criterion = Ctc()
    ensemble = strategy.exchanges == "outputs" and place.size > 1
    recorder = Recorder(config.out, comm.rank, config.dev, identity(config, corpus), ensemble)
    if isinstance(comm, SurvivingComm) and comm.plan.at.epoch:  # training is under way
        worker = assemble(config, comm, corpus, strategy, model, device)
        at = take_up(worker, held, comm.plan, place.rank)
        recorder = held.recorder if held else recorder
        recorder.take_over(worker)
    else:
        found = _find_checkpoint(config, comm, recorder)
        worker = assemble(config, comm, corpus, strategy, model, device)
        at = go_on(worker, found) if found else Position()
        recorder.resume(worker, at)
    session = Session(config, threads_of(config, place.local_size), corpus, worker, recorder, at)
    if comm.rank == 0:
        _tell(session)
    return session


def _train(session: Session) -> int:
    """Train to the end, or to where all stop; give the exit code."""
    worker = session.worker
    try:
        train(worker, session.recorder, session.at)
    except Stopped:
        return STOPPED
    consensus = worker.strategy.consensus()
    if worker.comm.rank == 0:
        _finish(session, consensus)
    worker.comm.meet()  # only now is it over: if rank 0 is lost before, another one finishes
    return 0


def _check_start(config: TrainConfig, corpus: Corpus) -> None:
    """Raise ``UserError`` before anything is removed, if training cannot begin so, or not from these features."""
    grown_after(config.model, corpus.minibatches, config.batch)
    if config.model.batch_norm and config.batch < 2:
        raise log.UserError("--model.batch_norm needs a --batch of at least 2 frames")
    if config.features == "image" and config.model.context:
        raise log.UserError("--features image has one frame an utterance, without neighbours: give --model.context 0")
    if config.model.init == "dbn":
        load_dbn(config.model.dbn).check_inputs(config.features, corpus.frames)
    if config.model.init == "network":
        kind, folder = load_predictor(Path(config.model.network)).features, config.model.network
        if kind != config.features:
            raise log.UserError(f"{folder} takes {kind} features, not {config.features}: give --features {kind}")
        if Path(folder).resolve() == config.out.resolve():
            raise log.UserError(f"--model.network {folder} is --out too, and would be overwritten: give another --out")


def identity(config: TrainConfig, corpus: Corpus) -> dict[str, Any]:
    """What the result depends on: options and data; ``overrides`` tells of rates that were changed on the way."""
    options = {k: v for k, v in stages.options(config).items() if k not in MAY_CHANGE}
    return options | {f"data.{k}": v for k, v in corpus.identity.items()} | {"overrides": []}


def _find_checkpoint(config: TrainConfig, comm: Comm, recorder: Recorder) -> Checkpoint | None:
    """What to go on from; None to begin, after what an earlier training has left is removed."""
    found = None if config.force else checkpoint.load_newest(recorder.checkpoints, comm)
    finished = (config.out / "train.json").exists()
    if found:
        before = stages.options(TrainConfig()) | found.identity  # an option that is new had its default
        now = recorder.identity
        names = sorted(k for k in {*before, *now} - {"overrides", *MAY_CHANGE} if before.get(k) != now.get(k))
        changed = [f"{k}: {before.get(k)} -> {now.get(k)}" for k in names]
        now["overrides"] = list(before.get("overrides", []))
        if changed and not finished and all(k in RATES for k in names):
            now["overrides"] += [f"epoch {found.at.epochs + 1}, minibatch {found.at.minibatch}: {c}" for c in changed]
            LOG.warning("the rate changes at %s", now["overrides"][-1])
        elif changed and not finished:
            raise log.UserError(
                f"{config.out} holds a training that is not finished, with other options or data "
                f"({'; '.join(changed[:4])}): give those options to go on, --force to begin anew, or another --out"
            )
        elif changed:
            found, now["overrides"] = None, []
    comm.meet()  # all have looked before anything is removed
    if not found and comm.rank == 0:
        for name in ("checkpoint", "tb"):
            shutil.rmtree(config.out / name, ignore_errors=True)
        for path in config.out.glob("local_*/final.pt"):
            path.unlink()
        for name in ("final.pt", "train.json", "history.tsv", "curve.tsv", "ledger.tsv", "probe.png"):
            (config.out / name).unlink(missing_ok=True)
    return found


def copy(source: Path, to: Path) -> None:
    """Copy a file, whole or not at all."""
    with atomic(to) as temporary:
        shutil.copyfile(source, temporary)


def _leave_hmm(config: TrainConfig, folder: Path) -> None:
    """Write to ``folder`` what the outputs of the network mean."""
    (folder / MARKER).unlink(missing_ok=True)  # of an earlier training
    if config.criterion == "ctc":
        save_ctc(ctc_hmm(config.lang), folder)
        return
    for name in ("hmm.json", MARKER):  # labels of frames may be those of CTC's best paths
        if name == "hmm.json" or (config.ali / name).exists():
            copy(config.ali / name, folder / name)


def _tell(session: Session) -> None:
    """Write what is known before the first step, and say what will happen."""
    config, worker, corpus = session.config, session.worker, session.corpus
    write_json(config.out / "config.json", plain(config))
    write_text(config.out / "run.sh", script(config))
    (config.out / "run.sh").chmod(0o755)
    _leave_hmm(config, config.out)
    scale, lr = worker.strategy.lr_scale, config.optim.lr
    exchanges = worker.strategy.per_epoch(worker.minibatches, worker.batch)
    LOG.info(
        "workers %d x %d threads, strategy %s, %s",
        *(worker.comm.size, session.threads, config.strategy.name, worker.device),
    )
    LOG.info("parameters %s, %d pdfs", f"{num_parameters(worker.model):,}", len(corpus.counts))
    LOG.info("frames of the workers: %s", ", ".join(f"{n:,}" for n in corpus.shards))
    LOG.info(
        "batch %d frames (%d together), lr %g x %g = %g, %d minibatches and %d exchanges an epoch, %d epochs (%s)",
        *(config.batch, config.batch * worker.comm.size, lr, scale, lr * scale),
        *(worker.minibatches, exchanges, config.schedule.epochs, config.schedule.name),
    )


def _save(config: TrainConfig, model: nn.Module, counts: np.ndarray) -> None:
    """Write ``final.pt``; of an ensemble each of its models too, as directories ``local_RANK`` that can be decoded."""
    assert isinstance(model, Dnn | Ensemble)
    for rank, member in enumerate(model.members if isinstance(model, Ensemble) else []):
        folder = config.out / f"local_{rank}"
        save_model(folder / "final.pt", cast(Dnn, member), config.features, counts)
        _leave_hmm(config, folder)
    save_model(config.out / "final.pt", model, config.features, counts)


def _finish(session: Session, model: nn.Module) -> None:
    """Write model and summary."""
    config, worker, corpus, recorder = session.config, session.worker, session.corpus, session.recorder
    _save(config, model, corpus.counts)
    summary: dict[str, Any] = {
        "name": config.out.name,
        "strategy": config.strategy.name,
        "every": config.strategy.every,
    }
    summary |= {
        "workers": worker.comm.size,
        "threads": session.threads,
        "batch": config.batch,
        "precision": config.precision,
    }
    summary |= {"lr": config.optim.lr, "effective_lr": config.optim.lr * worker.strategy.lr_scale}
    summary |= {"schedule": config.schedule.name, "optimizer": config.optim.name, "params": num_parameters(model)}
    summary |= {"train_frames": sum(corpus.shards), "minibatches": worker.minibatches} | recorder.summary()
    if recorder.identity["overrides"]:
        summary["overrides"] = recorder.identity["overrides"]
    if isinstance(worker.comm, SurvivingComm):
        summary |= {"lost": worker.comm.plan.lost, "rejoined": worker.comm.plan.rejoined}
    if summary.get("dev_loss", 0.0) > (guess := math.log(len(corpus.counts))):
        LOG.warning("dev loss is above %.3f, that of guessing: training has diverged, lower --optim.lr", guess)
    write_json(config.out / "train.json", summary | {"machine": machine(worker.device)})
    LOG.info("done: %s, dev accuracy %.2f %%", config.out / "final.pt", 100 * summary.get("dev_acc", 0.0))
