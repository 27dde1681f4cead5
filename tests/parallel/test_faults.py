"""A worker dies, hangs, runs out of memory or is not like the others: who ends, what is said, what is left.

Field cases: P1 (unequal shards), P4 (memory), P11 and P13 (who is to blame), W3 and W4 (going on), W7 (within seconds).
"""

import importlib.metadata
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from forked import CONTEXT, _child, together
from torch.distributed import TCPStore
from toys import assert_same_model, make_toy, write_set

from asr_parallel.config import OptimConfig, StrategyConfig
from asr_parallel.files import write_json
from asr_parallel.parallel.place import Place
from asr_parallel.parallel.torch_comm import TorchComm
from asr_parallel.train import loop
from asr_parallel.train.run import run, work
from asr_parallel.train.settings import plain

TIMEOUT = 4.0
toy = make_toy


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def freeze():
    os.kill(os.getpid(), signal.SIGSTOP)


def exhaust():
    """No more memory than there is now, and some is asked for."""
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used, used))
    torch.zeros(10**9)


def train(place, config):
    return work(config, place)


def fail_at(place, config, fault, step):
    """Train; in rank 1 ``fault`` happens in the given step."""
    whole, seen = loop.count, []

    def count(*arguments):
        whole(*arguments)
        seen.append(1)
        if len(seen) == step:
            fault()

    if place.rank == 1:
        loop.count = count
    return work(config, place)


def start(function, *arguments, size=2, ranks=None):
    """Start workers that nobody waits for; give them and the queue of what they give."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    results = CONTEXT.Queue()
    places = [Place(rank, size, rank, size, port=store.port, store_is_there=True) for rank in ranks or range(size)]
    children = [CONTEXT.Process(target=_child, args=(results, function, place, arguments)) for place in places]
    for child in children:
        child.start()
    return children, results, store


GONE = "rank 1 did not come|a rank has ended"  # it may have begun the exchange; the launcher names it


@pytest.mark.parametrize(
    ("fault", "words", "overlap"),
    [
        (kill, GONE, False),
        (kill, GONE, True),
        (freeze, "rank 1 did not come", False),
        (freeze, "rank 1 did not come", True),
        (exhaust, GONE, False),
    ],
)
def test_the_others_end_in_time_and_the_same_command_goes_on_to_the_same_bits(toy, fault, words, overlap):
    strategy = StrategyConfig("model_average", every="5 minibatches", overlap=overlap)
    whole = toy(workers=2, backend="simulated", strategy=strategy)
    assert run(whole) == 0
    config = toy(workers=2, timeout=TIMEOUT, save_every=7, strategy=strategy)
    children, results, store = start(fail_at, config, fault, 40)
    found = {}
    try:
        while 0 not in found:
            found |= [results.get(timeout=60)]
    finally:
        for child in children:
            child.kill()
            child.join(20)
    assert found[0].startswith("UserError: rank 0: ")
    assert re.search(words, found[0])
    assert not (config.out / "final.pt").exists()
    assert list((config.out / "checkpoint").glob("*.pt"))
    del store
    assert together(train, replace(config, timeout=30.0)) == [0, 0]
    assert_same_model(config, whole)


DEADLINE = 120.0


def serve(port):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port.put(store.port)
    time.sleep(120)


def meet_until_alone(place, port, met):
    comm = TorchComm(replace(place, port=port), "gloo", DEADLINE)
    while True:
        comm.meet()
        met.set()
        time.sleep(0.05)


def test_workers_end_soon_after_their_launcher():
    """Killed once they have met: a worker on its way to the store waits for it, as for a launcher that is late."""
    given, met = CONTEXT.Queue(), CONTEXT.Manager().Event()
    launcher = CONTEXT.Process(target=serve, args=(given,))
    launcher.start()
    children, results, _ = start(meet_until_alone, given.get(timeout=60), met)
    assert met.wait(60)
    launcher.kill()
    found = dict(results.get(timeout=DEADLINE / 2) for _ in children)
    for child in children:
        child.join(20)
    assert any("the first worker or the launcher has ended" in text for text in found.values())
    assert all(text.startswith("UserError: rank") for text in found.values())


def join(place):
    TorchComm(place, "gloo", 1.5)


def test_a_rank_that_does_not_come_to_the_start_is_named():  # P13
    _, results, _ = start(join, size=3, ranks=[0, 1])
    for rank, text in (results.get(timeout=60) for _ in range(2)):
        assert text.startswith(f"UserError: rank {rank} of 3 did not find the others at 127.0.0.1:")
        assert "within 1.5 s: rank 2 did not come" in text


def train_with_other_rate(place, config):
    other = replace(config, optim=OptimConfig("sgd", lr=0.1, momentum=0.5))
    return work(other if place.rank == 1 else config, place)


def train_with_other_threads(place, config):
    return work(replace(config, threads=2) if place.rank == 1 else config, place)


def train_with_other_version(place, config):
    if place.rank == 1:
        real = importlib.metadata.version
        importlib.metadata.version = lambda name: "0.0.9" if name == "asr_parallel" else real(name)
    return work(config, place)


def test_a_rank_with_other_options_is_refused_on_all_with_both_named(toy):  # P11
    config = toy(workers=2)
    for text in together(train_with_other_rate, config):
        assert text.startswith("UserError: workers differ: rank 1 has --optim.lr 0.1, rank 0 has 0.2")
    assert not (config.out / "checkpoint").exists()
    assert together(train_with_other_threads, config) == [0, 0]  # machines may differ


def test_a_rank_with_another_version_is_refused_on_all_with_both_named(toy):
    here = importlib.metadata.version("asr_parallel")
    for text in together(train_with_other_version, toy(workers=2)):
        assert f"rank 1 has asr_parallel 0.0.9, rank 0 has {here}" in text


def test_three_utterances_for_four_workers_end_all_with_the_same_words(toy, tmp_path):  # P1
    (tmp_path / "ali").mkdir()
    for name, utts in {"train": 3, "dev_a": 2, "dev_b": 2}.items():
        write_set(tmp_path / "data", tmp_path / "ali", name, utts, 5)
    (tmp_path / "ali" / "hmm.json").write_text("{}")
    config = toy(workers=4, data=tmp_path / "data", ali=tmp_path / "ali", out=tmp_path / "out", batch=4)
    found = together(train, config, size=4)
    assert len(set(found)) == 1
    assert "3 utterances cannot be dealt to 4 workers" in found[0]


def test_unequal_shards_end_with_the_same_number_of_exchanges(toy, tmp_path):  # P1, P2
    (tmp_path / "ali").mkdir()
    for name, utts in {"train": 7, "dev_a": 2, "dev_b": 2}.items():
        write_set(tmp_path / "data", tmp_path / "ali", name, utts, 5)
    (tmp_path / "ali" / "hmm.json").write_text("{}")
    config = toy(workers=3, data=tmp_path / "data", ali=tmp_path / "ali", out=tmp_path / "out", batch=4)
    assert together(train, config, size=3) == [0, 0, 0]
    rows = [line.split("\t") for line in (config.out / "ledger.tsv").read_text().splitlines()[1:]]
    head = (config.out / "ledger.tsv").read_text().splitlines()[0].split("\t")
    ranks = [row[head.index("rank")] for row in rows]
    assert ranks.count("0") == ranks.count("1") == ranks.count("2") > 3


def namespaces_work():
    """Whether two hosts can be made here: root, `ip`, and the right to make network namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"asrtry{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode == 0
    return made and subprocess.run(["ip", "netns", "del", name]).returncode == 0


@pytest.fixture
def two_hosts():
    """Two network namespaces joined by a cable, as two hosts; gives their names."""
    tag = os.getpid() % 100000
    names, cable = [f"asr{tag}a", f"asr{tag}b"], [f"v{tag}a", f"v{tag}b"]
    commands = [f"netns add {name}" for name in names]
    commands += [f"link add {cable[0]} netns {names[0]} type veth peer name {cable[1]} netns {names[1]}"]
    for i, (name, end) in enumerate(zip(names, cable)):
        commands += [f"-n {name} addr add 10.213.7.{i + 1}/30 dev {end}"]
        commands += [f"-n {name} link set {device} up" for device in (end, "lo")]
    try:
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


@pytest.mark.skipif(not namespaces_work(), reason="needs root, `ip` and the right to make network namespaces")
def test_two_hosts_under_slurm_give_the_model_of_one(toy, two_hosts):
    one = toy(workers=2, backend="simulated")
    assert run(one) == 0
    config = toy(workers=2)
    write_json(config.out / "config.json", plain(config))
    job = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0"}
    job |= {"SLURM_STEP_NODELIST": "10.213.7.[1-2]", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}
    hosts = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-m", "asr_parallel.train", str(config.out / "config.json")],
            env=os.environ | job | {"SLURM_PROCID": str(rank), "SLURM_NODEID": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, name in enumerate(two_hosts)
    ]
    try:
        said = [host.communicate(timeout=90)[0] for host in hosts]
    finally:
        for host in hosts:
            host.kill()
    assert [host.returncode for host in hosts] == [0, 0], said
    assert "2 workers of srun on several machines, gloo over v" in said[0]
    assert " at 10.213.7.1:" in said[0]
    assert_same_model(config, one)
