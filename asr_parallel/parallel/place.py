"""Which worker this process is: what torchrun, mpirun, mpiexec or srun has put into the environment.

The launcher here sets torchrun's variables too.  ``docs/launch.md`` has the table.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr_parallel.log import UserError

if TYPE_CHECKING:
    from asr_parallel.parallel.comm import Comm

LOCAL_HOST = "127.0.0.1"
PORTS = range(20000, 32000)  # where ports derived from a job lie: below those that Linux hands out by itself


@dataclass(frozen=True)
class Launcher:
    """The names of a launcher's variables: rank and size in all and on this machine, and those that name a start.

    It has started this process if the first three are set.
    """

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    job: tuple[str, ...] = ()


TORCHRUN = Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# A launcher may itself run under another, whose variables are then there too: the first that fits is the nearest.
# srun sets SLURM_STEP_*; the script of a batch job, which is one process, has SLURM_PROCID without them.
MANY = (
    Launcher(
        "mpirun",  # Open MPI's
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    Launcher(
        "mpiexec",  # of MPICH and Intel MPI
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"),
    ),
    Launcher(
        "srun",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
)


@dataclass(frozen=True)
class Place:
    """Rank ``rank`` of ``size`` (``local_rank`` of ``local_size`` on its machine), and where the common store is.

    ``store_is_there`` tells that a launcher serves the store already; otherwise rank 0 does.  ``run`` keeps
    the entries of one start apart from those of another in the same store.  ``host`` is empty if not known.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    host: str = LOCAL_HOST
    port: int = 0
    store_is_there: bool = False
    run: str = "0"
    comm: Comm | None = None  # of a simulated worker
    launcher: str = TORCHRUN.name

    @classmethod
    def from_environment(cls, e: Mapping[str, str] = os.environ) -> Place | None:
        """What a launcher has said, or None when there is none.  Raises ``UserError``.

        mpirun or srun with one process is no launcher: ``--workers`` then says how many there are.
        """
        if TORCHRUN.rank in e:
            return _of_torchrun(e)
        for launcher in MANY:
            if all(name in e for name in (launcher.rank, launcher.size, launcher.local_rank)):
                place = _of_cluster(launcher, e)
                return place if place.size > 1 else None
        return None

    @property
    def seen_by_workers(self) -> Place:
        """This place as the process that is started with its ``environment`` sees it."""
        return _of_torchrun(self.environment())

    def environment(self) -> dict[str, str]:
        """The variables that ``from_environment`` reads."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            "TORCHELASTIC_USE_AGENT_STORE": str(self.store_is_there),
        }


def _of_torchrun(e: Mapping[str, str]) -> Place:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    try:
        whole = e["WORLD_SIZE"]
        texts = (e["RANK"], whole, e.get("LOCAL_RANK", "0"), e.get("LOCAL_WORLD_SIZE", whole), e["MASTER_PORT"])
        host = e["MASTER_ADDR"]
    except KeyError as missing:
        raise UserError(f"RANK is set but {missing.args[0]} is not: start with torchrun, or unset RANK") from None
    *numbers, port = _numbers(names, texts)
    there = e.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    run = f"asr_parallel/{e.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    rank, size, local_rank, local_size = _checked(names, numbers)
    return Place(rank, size, local_rank, local_size, host, port, there, run)


def _of_cluster(launcher: Launcher, e: Mapping[str, str]) -> Place:
    names = (launcher.rank, launcher.size, launcher.local_rank, launcher.local_size)
    texts = [e.get(name, "") for name in names]
    slurm = launcher.name == "srun"
    if slurm:
        texts[3] = _tasks_here(texts[3], e.get("SLURM_NODEID", "0"))
    texts[3] = texts[3] or texts[1]
    rank, size, local_rank, local_size = _checked(names, _numbers(names, texts))
    hosts = e.get("SLURM_STEP_NODELIST" if slurm else "SLURM_JOB_NODELIST", "")
    one_machine = size == local_size
    first = LOCAL_HOST if one_machine else next(expand(hosts), "")
    job = "/".join(e[name] for name in launcher.job if name in e)
    job = job or f"{os.getuid()}/{os.getppid() if one_machine else 0}"
    (port,) = _numbers(("MASTER_PORT",), (e.get("MASTER_PORT") or str(derived_port(job)),))
    host, run = e.get("MASTER_ADDR") or first, f"asr_parallel/{job}"
    return Place(rank, size, local_rank, local_size, host, port, False, run, launcher=launcher.name)


def derived_port(job: str) -> int:
    """A port that all who know the name of a job agree on."""
    return PORTS[zlib.crc32(job.encode()) % len(PORTS)]


def _numbers(names: tuple[str, ...], texts: tuple[str, ...] | list[str]) -> list[int]:
    wrong = [f"{name}={text!r}" for name, text in zip(names, texts) if not text.strip().isdecimal()]
    if wrong:
        raise UserError(f"{', '.join(wrong)} in the environment must be numbers: unset them, or start with a launcher")
    return [int(text) for text in texts]


def _checked(names: tuple[str, ...], numbers: list[int]) -> list[int]:
    """Rank, size, local rank and local size, if each rank is below its size."""
    for i in (0, 2):
        if numbers[i] >= numbers[i + 1]:
            raise UserError(
                f"{names[i]}={numbers[i]} but {names[i + 1]}={numbers[i + 1]}: ranks are counted from 0, "
                "so there is one worker too many, or the number of workers is wrong"
            )
    return numbers


def _tasks_here(counts: str, node: str) -> str:
    """Tasks on node number ``node``, of Slurm's ``2(x3),1``: three nodes with 2 tasks, then one with 1."""
    found: list[str] = []
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", counts):
        found += [number] * int(times or 1)
    return found[int(node)] if node.isdecimal() and int(node) < len(found) else ""


def expand(hosts: str) -> Iterator[str]:
    """The names in a Slurm host list, in order: ``node[01-03,7],gpu`` is node01, node02, node03, node7 and gpu."""
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", hosts):
        head, bracket, tail = part.partition("[")
        inside, _, rest = tail.partition("]")
        for piece in inside.split(",") if bracket else [""]:
            low, _, high = piece.partition("-")
            middles = (str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)) if high else [piece]
            for middle in middles:
                yield from (head + middle + end for end in (expand(rest) if rest else [""]))


def cores_each(workers: int, e: Mapping[str, str] = os.environ) -> int:
    """Cores for each of ``workers`` on this machine: an equal share, unless the launcher gave each cores of its own.

    mpirun and srun may bind a process, which then may use other cores than the process that started it.
    """
    own = os.sched_getaffinity(0)
    asked = e.get("SLURM_CPUS_PER_TASK", "")
    if TORCHRUN.rank not in e and any(launcher.rank in e for launcher in MANY):
        if asked.isdecimal() and int(asked) and "SLURM_STEP_ID" in e:
            return min(int(asked), len(own))
        try:
            bound = own != os.sched_getaffinity(os.getppid())
        except OSError:
            bound = False
        if bound:
            return len(own)
    return max(1, len(own) // workers)
