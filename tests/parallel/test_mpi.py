"""MPI with real processes.  ``mpirun -n 3 python test_mpi.py FOLDER`` is what some of the tests start."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from asr_parallel.log import UserError
from asr_parallel.parallel.mpi import MpiComm
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.simulated import simulate

MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
needs_mpi = pytest.mark.skipif(
    not MPIRUN or not importlib.util.find_spec("mpi4py"), reason="no mpirun or no mpi4py: pip install asr_parallel[mpi]"
)


def mpirun(workers, *arguments, seconds=60):
    version = subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True).stdout
    more = ["--oversubscribe"] if "Open MPI" in version else []
    return subprocess.run(
        [MPIRUN, *more, "-n", str(workers), sys.executable, *map(str, arguments)],
        env=os.environ | AS_ROOT | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )


def all_operations(comm):
    """What each operation gives on this worker, by name."""
    g = torch.Generator().manual_seed(comm.rank)
    given = {
        "floats": torch.randn(1001, generator=g),
        "few": torch.randn(2, generator=g),  # fewer than workers
        "doubles": torch.randn(64, generator=g, dtype=torch.float64),
        "bf16": torch.randn(77, generator=g).bfloat16(),  # P20
        "large": torch.randn(300_000, generator=g),
    }
    found = {}
    for name, flat in given.items():
        found[f"bytes {name}"] = torch.tensor(comm.all_reduce_mean(flat))
        found[f"mean {name}"] = flat
    found["sum"] = comm.sum(torch.randn(3, 5, generator=g, dtype=torch.float64))
    found["count"] = comm.sum(torch.tensor([comm.rank + 2**40]))
    shared = torch.randn(4, 3, generator=g)
    comm.broadcast(shared)
    found["broadcast"] = shared
    for name, part in {
        "flags": torch.arange(4) > comm.rank,
        "rows": torch.randn(3 * comm.rank, 2, generator=g),
    }.items():
        found |= {f"gather {name} {i}": each for i, each in enumerate(comm.gather(part))}
    parts = [torch.full((comm.rank + 2 * to,), 10 * comm.rank + to, dtype=torch.int32) for to in range(comm.size)]
    swapped = comm.swap(parts, [source + 2 * comm.rank for source in range(comm.size)])
    found |= {f"swap {i}": each for i, each in enumerate(swapped)}
    found["passed"] = comm.pass_on(torch.tensor([comm.rank]), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
    comm.meet()
    found["before"] = torch.tensor(comm.stopping)
    if comm.rank == 2:
        comm.request_stop()
    comm.meet()
    found["after"] = torch.tensor(comm.stopping)
    return found


@needs_mpi
def test_three_workers_get_what_simulated_ones_get_and_a_missing_one_is_named(tmp_path):
    begin = time.monotonic()
    ended = mpirun(3, __file__, tmp_path)
    expected = {}
    simulate(3, lambda comm: expected.setdefault(comm.rank, all_operations(comm)) and 0)
    for rank in range(3):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found.keys() == expected[rank].keys(), ended.stdout
        for name, value in found.items():
            assert torch.equal(value, expected[rank][name]), (rank, name)
            assert value.dtype == expected[rank][name].dtype
    assert ended.returncode != 0
    assert "rank 0: meeting failed after 2 s: rank 2 did not come" in ended.stdout  # rank 1 has come, later
    assert "not reached" not in ended.stdout
    assert time.monotonic() - begin < 50  # rank 2 would sleep on


def main(folder):
    """All operations, then a meeting to which rank 2 does not come."""
    place = Place.from_environment()
    assert place is not None
    comm = MpiComm(place, 30.0)
    torch.save(all_operations(comm), folder / f"{comm.rank}.pt")
    comm.timeout = 1.5
    if comm.rank == 2:
        time.sleep(120)
    time.sleep(0.7 * comm.rank)
    comm.meet()
    print("not reached")


@needs_mpi
@pytest.mark.parametrize(
    ("backend", "options"),
    [("mpi", {}), ("auto", {}), ("mpi", {"wire": "bf16", "overlap": True}), ("mpi", {"wire": "int8"}),
     ("mpi", {"name": "independent_subnets"}), ("mpi", {"name": "ensemble_compression"})],
    ids=str,
)  # fmt: skip
def test_a_training_under_mpirun_gives_the_bits_of_a_simulated_one(toy, backend, options):
    from asr_parallel.config import StrategyConfig
    from asr_parallel.files import write_json
    from asr_parallel.train.run import run
    from asr_parallel.train.settings import plain

    strategy = StrategyConfig(**({"name": "model_average", "every": "5 minibatches"} | options))
    simulated = toy(workers=2, backend="simulated", strategy=strategy)
    assert run(simulated) == 0
    config = toy(workers=2, backend=backend, strategy=strategy)
    write_json(config.out / "config.json", plain(config))
    ended = mpirun(2, "-m", "asr_parallel.train", config.out / "config.json")
    assert ended.returncode == 0, ended.stdout
    assert "2 workers of mp" in ended.stdout
    assert ("MPI" if backend == "mpi" else "gloo over lo at 127.0.0.1:") in ended.stdout
    assert_same_model(config, simulated)


def test_mpi_without_mpirun_or_without_mpi4py_is_explained(toy, monkeypatch):  # P21
    from asr_parallel.train.run import run

    with pytest.raises(UserError, match=r"mpirun -n 2 asr-parallel .* --backend mpi"):
        run(toy(workers=2, backend="mpi"))
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UserError, match=r"pip install 'asr_parallel\[mpi\]'"):
        MpiComm(Place(0, 2, 0, 2), 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
else:
    from toys import assert_same_model, make_toy

    toy = make_toy
