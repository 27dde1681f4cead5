"""Two workers on two hosts with a slow link between them: measured, and as their ledger predicts it.

    benchmarks/network.sh [--big] [--rate 100Mbit] [--minutes 15] [--every "10 minibatches"] [--ways plain bf16 ...]

The hosts are two network namespaces of this machine, joined by a pair of virtual interfaces.  Each way of exchanging is
trained over these as they are, and then with ``tc`` slowing them down.  From the ledger of the first run the cost model
of the verb ``project`` predicts the second: it is given the rate without the headers of Ethernet, IP and TCP.
Otherwise as ``workers.py``: the verb ``train`` on frames of noise, one thread a worker, frames a second on the wall.
Speed-ups are against one worker alone, measured too.  ``exchange_s`` is what an exchange takes beyond computing and
waiting for the other worker; unlike frames a second it hardly minds other work on the machine.  Prints one JSON line a
figure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figure import Figure, command_line
from workers import BIG, BIG_PDFS, PDFS, corpus, costs, options, speed

from asr_parallel.parallel.link import Link, bandwidth

HOSTS = [f"asr{os.getpid()}h{rank}" for rank in range(2)]
PAYLOAD = 1448 / 1514  # of a full packet of Ethernet
OPTIONS = {
    "plain": [],
    "overlap": ["--strategy.overlap"],
    "bf16": ["--strategy.wire", "bf16"],
    "overlap_bf16": ["--strategy.overlap", "--strategy.wire", "bf16"],
}


def call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextlib.contextmanager
def two_hosts() -> Iterator[None]:
    """Namespaces ``HOSTS`` with addresses 10.99.0.1 and .2."""
    try:
        for host in HOSTS:
            call("ip", "netns", "add", host)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", HOSTS[1])
        call("ip", "link", "add", "eth0", "netns", HOSTS[0], *ends)
        for rank, host in enumerate(HOSTS):
            inside = ("ip", "netns", "exec", host)
            call(*inside, "ip", "address", "add", f"10.99.0.{rank + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                call(*inside, "ip", "link", "set", device, "up")
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


@contextlib.contextmanager
def slowed_down(rate: float) -> Iterator[None]:
    """What leaves either host does so at this rate, in bytes a second."""
    how = ("tbf", "rate", f"{8 * rate:.0f}bit", "burst", "64kb", "latency", "100ms")
    for host in HOSTS:
        call("ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "eth0", "root", *how)
    yield
    for host in HOSTS:
        call("ip", "netns", "exec", host, "tc", "qdisc", "delete", "dev", "eth0", "root")


def train(root: Path, name: str, every: str, more: list[str]) -> float:
    """Frames a second of a training of one epoch on both hosts."""
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "eth0"}
    place |= {"MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "asr_parallel", "train", *options(root, name, "model_average", every, more)]
    first, second = (
        subprocess.Popen(
            ["ip", "netns", "exec", host, *words],
            env=os.environ | place | {"RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank, host in enumerate(HOSTS)
    )
    try:
        return speed(root, (name, first))
    finally:
        second.terminate()  # nothing is left to do for it once rank 0 has ended
        second.wait()


def show(name: str, value: float, unit: str = "ratio") -> None:
    Figure(name, value, unit, command=command_line()).show()


def compare(root: Path, ways: list[str], rate: float, alone: float, every: str, more: list[str]) -> None:
    """Each way of exchanging, as predicted and as measured."""
    for name in ways:
        show(f"{name}_fast_vs_one", train(root, name, every, more + OPTIONS[name]) / alone)
        predicted = costs(root, name).predict(2, Link(rate * PAYLOAD))
        with slowed_down(rate):
            measured = train(root, name, every, more + OPTIONS[name])
        slow = costs(root, name)
        show(f"{name}_slow_vs_one", measured / alone)
        show(f"{name}_slow_predicted_vs_one", predicted.frames_per_s / alone)
        show(f"{name}_predicted_vs_measured", predicted.frames_per_s / measured)
        show(f"{name}_exchange_s", slow.agree_s + slow.send_s, "s")
        show(f"{name}_exchange_predicted_s", predicted.communication * predicted.period_s, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100Mbit", help="of the slow link, each way")
    parser.add_argument("--minutes", type=float, default=15.0, help="of frames in an epoch")
    parser.add_argument("--every", default="10 minibatches")
    parser.add_argument("--big", action="store_true", help="the network is 440-2048x6-8806, trained with SGD")
    parser.add_argument("--ways", nargs="+", choices=list(OPTIONS), default=list(OPTIONS), help="of exchanging")
    args = parser.parse_args()
    rate = bandwidth(args.rate, "--rate")
    more = [*BIG, "--optim.name", "sgd"] if args.big else []
    with tempfile.TemporaryDirectory() as directory, two_hosts():
        root = Path(directory)
        corpus(root, args.minutes, BIG_PDFS if args.big else PDFS)
        one = [sys.executable, "-m", "asr_parallel", "train", *options(root, "one", "single", args.every, more)]
        alone = speed(root, ("one", subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
        show("one_frames_per_s", alone, "frames/s")
        compare(root, args.ways, rate, alone, args.every, more)


if __name__ == "__main__":
    main()
