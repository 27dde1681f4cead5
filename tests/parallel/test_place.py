"""Which worker a process is: the environments of launchers, and what users get wrong in them."""

import os

import pytest

from asr_parallel.log import UserError
from asr_parallel.parallel import place as places
from asr_parallel.parallel.place import PORTS, Place, cores_each, derived_port, expand

MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "6",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-a-77@1",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_PROCID": "6",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
    "SLURM_STEP_NODELIST": "node[08-10],login",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
}


def of(environment):
    return Place.from_environment(environment)


@pytest.mark.parametrize(
    ("environment", "numbers", "host"),
    [
        (MPIRUN | {"MASTER_ADDR": "head"}, (5, 6, 1, 2), "head"),
        (MPIRUN | {"SLURM_JOB_NODELIST": "c[3-4]"}, (5, 6, 1, 2), "c3"),
        (MPIRUN, (5, 6, 1, 2), ""),  # several machines, and nobody says where rank 0 is
        (HYDRA, (1, 2, 1, 2), "127.0.0.1"),
        (SRUN, (6, 7, 0, 1), "node08"),
    ],
)
def test_every_launcher_maps_to_one_place(environment, numbers, host):
    place = of(environment)
    assert (place.rank, place.size, place.local_rank, place.local_size) == numbers
    assert place.host == host
    assert place.port in PORTS
    assert not place.store_is_there


def test_the_nearest_launcher_counts():
    inside = SRUN | MPIRUN | HYDRA
    assert of(inside).launcher == "mpirun"
    torch = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "9"}
    assert of(inside | torch) == Place(0, 2, 0, 2, "h", 9, run="asr_parallel/0")
    assert of(SRUN | HYDRA).launcher == "mpiexec"  # which srun has started, one process a machine
    pmi2 = {"PMI_RANK": "6", "PMI_SIZE": "7"}  # of `srun --mpi=pmi2`
    assert of(SRUN | pmi2).launcher == "srun"


def test_a_batch_script_and_a_launcher_of_one_process_start_workers_themselves():
    assert of({}) is None
    script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "1"}
    assert of(script) is None
    assert of(SRUN | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}) is None


def test_workers_of_a_job_agree_on_the_port_and_two_jobs_differ():
    both = [of(SRUN | {"SLURM_PROCID": rank}) for rank in ("2", "3")]
    assert both[0].port == both[1].port == derived_port("4711/0")
    assert both[0].run == both[1].run
    jobs = [of(SRUN | {"SLURM_JOB_ID": str(job)}) for job in range(100)]
    assert len({place.port for place in jobs}) > 95
    assert len({place.run for place in jobs}) == 100
    assert of(SRUN | {"MASTER_PORT": "1234"}).port == 1234


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("node[01-03,7],gpu", ["node01", "node02", "node03", "node7", "gpu"]),
        ("a", ["a"]),
        ("a,b-1", ["a", "b-1"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("10.0.0.1,10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
        ("", []),
    ],
)
def test_host_lists_of_slurm(hosts, names):
    assert list(expand(hosts)) == names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"RANK": "2"}, ["RANK=2", "WORLD_SIZE=2", "one worker too many"]),  # P17: a third process in a world of two
        ({"RANK": "x"}, ["RANK='x'", "must be numbers"]),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "1"}, ["LOCAL_RANK=1"]),
        ({"MASTER_PORT": "any"}, ["MASTER_PORT='any'"]),
        ({"WORLD_SIZE": None}, ["WORLD_SIZE is not"]),
        ({"MASTER_ADDR": None}, ["MASTER_ADDR is not"]),
    ],
)
def test_a_wrong_environment_is_named(change, words):
    right = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "9"}
    with pytest.raises(UserError) as error:
        of({name: value for name, value in (right | change).items() if value is not None})
    assert all(word in str(error.value) for word in words)


def test_cores_are_shared_unless_the_launcher_has_bound_the_workers(monkeypatch):
    own, parent = {4, 5, 6, 7}, set(range(16))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: parent if pid else own)
    assert cores_each(2, {}) == 2
    assert cores_each(8, {}) == 1
    assert cores_each(2, MPIRUN) == 4  # bound: four of its own
    assert cores_each(2, MPIRUN | {"RANK": "0"}) == 2  # started by ours or torchrun, inside one of mpirun's
    assert cores_each(2, SRUN | {"SLURM_CPUS_PER_TASK": "3"}) == 3
    own = parent
    assert cores_each(4, MPIRUN) == 4


def test_the_table_of_launchers_holds_no_variable_twice():
    names = [getattr(each, n) for each in places.MANY for n in ("rank", "size", "local_rank", "local_size")]
    assert len(set(names)) == len(names)
