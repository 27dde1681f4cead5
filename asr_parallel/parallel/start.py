"""How the work of a verb begins on several workers: through the launcher here, or as one of another's."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from asr_parallel import log
from asr_parallel.config import PretrainConfig, TrainConfig
from asr_parallel.files import write_json
from asr_parallel.parallel import network
from asr_parallel.parallel.comm import Comm, Lost, SoloComm
from asr_parallel.parallel.launch import STOPS, launch
from asr_parallel.parallel.mpi import MpiComm
from asr_parallel.parallel.place import Place, cores_each
from asr_parallel.parallel.simulated import SimulatedComm, simulate
from asr_parallel.parallel.surviving import SurvivingComm, goes_on
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.train.settings import flat, load_config, plain

LOG = log.logger(__name__)
WorkerConfig = TrainConfig | PretrainConfig
OWN = ("jobs", "threads", "device", "data", "ali", "out")  # options that may differ from worker to worker
Work = Callable[[Any, Place], int]  # what a worker does with its configuration and place; gives an exit code


def start(config: WorkerConfig, work: Work, module: str) -> int:
    """Do ``work``: in this process, or in ``config.workers`` processes that run ``python -m module CONFIG.json``."""
    place = Place.from_environment()
    if config.backend == "simulated":
        if place is not None:
            raise log.UserError("--backend simulated is one process: start it without torchrun, mpirun or srun")
        with _quiet_but_for_rank_0():
            return simulate(config.workers, lambda comm: work(config, _simulated_place(comm)))
    if place is None and config.workers > 1 and config.backend == "mpi":
        raise log.UserError(
            f"--backend mpi is started by MPI: mpirun -n {config.workers} asr-parallel ... --backend mpi, "
            "without --workers; or leave --backend out"
        )
    if place is not None or config.workers == 1:
        return work(config, place or Place())
    path = config.out / "config.json"
    write_json(path, plain(config))
    command = [sys.executable, "-m", module, str(path)]
    restarts = config.restarts if goes_on(config) else None
    return launch(command, config.workers, threads_of(config, config.workers), config.out / "log", restarts)


def _simulated_place(comm: SimulatedComm) -> Place:
    return Place(comm.rank, comm.size, comm.rank, comm.size, comm=comm)


@contextlib.contextmanager
def _quiet_but_for_rank_0() -> Iterator[None]:
    """Simulated workers, which are threads, say nothing but warnings; rank 0 is the main one."""

    def heard(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or not record.threadName or not record.threadName.startswith("rank ")

    handlers = logging.getLogger("asr_parallel").handlers
    for handler in handlers:
        handler.addFilter(heard)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(heard)


def worker_main(work: Work, verb: type[WorkerConfig], name: str) -> int:
    """What ``python -m module CONFIG.json`` does: one worker of the verb ``name``; give the exit code."""
    log.setup()
    place = Place.from_environment()
    try:
        if place is None or len(sys.argv) != 2:
            raise log.UserError(f"a worker needs RANK and the path of a config.json: use `asr-parallel {name}`")
        return work(load_config(Path(sys.argv[1]), verb), place)
    except log.UserError as error:
        print(f"rank {place.rank if place else 0}: {error}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def joined(config: WorkerConfig, place: Place) -> Iterator[tuple[Comm, torch.device]]:
    """Be one worker: its threads, device, log and signals, and its way to the others."""
    torch.set_num_threads(threads_of(config, place.local_size))
    device = device_of(config, place)
    with contextlib.ExitStack() as stack:
        if place.size == 1 or (place.comm and place.rank == 0):
            stack.enter_context(_log_file(config.out / "log" / "rank_0.log"))
        comm = make_comm(config, place, device)
        stack.push(lambda kind, *_: _leave(comm, failed=kind is not None))
        stack.enter_context(_signals(comm))
        if not place.comm and not (isinstance(comm, SurvivingComm) and comm.plan.number):
            check_alike(comm, config)
        yield comm, device


def _leave(comm: Comm, failed: bool) -> None:
    """Leave when all do: launchers end those that still write as soon as one has ended with 143."""
    if failed:
        comm.abandon()
    else:
        with contextlib.suppress(Lost):
            comm.meet()
        comm.close()


def threads_of(config: WorkerConfig, workers: int) -> int:
    return config.threads or cores_each(workers)


def device_of(config: WorkerConfig, place: Place) -> torch.device:
    if config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise log.UserError("--device cuda: torch finds no GPU here; give --device cpu")
    return torch.device("cuda", place.local_rank % torch.cuda.device_count())


def make_comm(config: WorkerConfig, place: Place, device: torch.device) -> Comm:
    if place.comm is not None:
        return place.comm
    if place.size == 1:
        return SoloComm()
    if config.backend == "mpi":
        _say(config, place, "MPI")
        return MpiComm(place, config.timeout)
    backend = config.backend
    if backend == "auto" and goes_on(config):
        backend = "gloo"
    if backend == "auto":  # the same on all workers of a machine: nccl wants one worker a GPU
        alone = device.type == "cuda" and place.local_size <= torch.cuda.device_count()
        backend = "nccl" if alone or (device.type == "cuda" and "SLURM_GPUS_PER_TASK" in os.environ) else "gloo"
    if backend == "nccl" and device.type != "cuda":
        raise log.UserError("--backend nccl needs GPUs; give --backend gloo")
    interface = network.prepare(place, backend)
    _say(config, place, f"{backend} over {interface or 'the interface of this host name'} at {place.host}:{place.port}")
    kind = SurvivingComm if goes_on(config) else TorchComm
    return kind(place, backend, config.timeout)


def _say(config: WorkerConfig, place: Place, how: str) -> None:
    """Tell what was chosen by default."""
    if place.rank == 0:
        machines = "one machine" if place.size == place.local_size else "several machines"
        threads = threads_of(config, place.local_size)
        LOG.info("%d workers of %s on %s, %s, %d threads each", place.size, place.launcher, machines, how, threads)


def check_alike(comm: Comm, config: WorkerConfig) -> None:
    """Raise ``UserError`` on all workers if one has other options or versions than rank 0; name both."""
    table = {f"--{name}": value for name, value in flat(plain(config)).items() if name not in OWN}
    table |= {"asr_parallel": importlib.metadata.version("asr_parallel"), "torch": torch.__version__}
    own = torch.frombuffer(bytearray(json.dumps(table).encode()), dtype=torch.uint8)
    found = [json.loads(bytes(part.tolist())) for part in comm.gather(own)]
    differ = [
        f"rank {rank} has {name} {other.get(name)}, rank 0 has {found[0].get(name)}"
        for rank, other in enumerate(found)
        for name in sorted({*found[0], *other})
        if other.get(name) != found[0].get(name)
    ]
    text = bytearray("; ".join(differ[:4]).encode())
    length = torch.tensor([len(text)])
    comm.broadcast(length)
    if int(length):
        told = torch.frombuffer(text + bytes(int(length) - len(text)), dtype=torch.uint8)
        comm.broadcast(told)
        raise log.UserError(f"workers differ: {bytes(told.tolist()).decode()}. Start all with the same command")


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
    """Signals ask the workers to stop at a step's end; a second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        comm.request_stop()
        LOG.warning("asked to stop: saving at the next step (again to stop at once)")
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
