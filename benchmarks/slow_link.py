"""Two workers on two hosts with a slow link between them: plain exchanges, overlapped ones, fewer bytes, both.

    python benchmarks/slow_link.py [--big] [--rate 100mbit] [--minutes 3] [--every "10 minibatches"]

The hosts are two network namespaces of this machine, joined by a pair of virtual interfaces that ``tc`` slows down; to
make them one must be root on Linux, otherwise this ends with a word about it.  Otherwise as ``workers.py``: the verb
``train`` on frames of noise, one thread a worker, frames a second on the wall.  Prints one JSON line a figure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from figure import Figure, command_line
from workers import BIG, BIG_PDFS, PDFS, corpus, options, speed

HOSTS = [f"asr{os.getpid()}h{rank}" for rank in range(2)]
SLOW = ("tbf", "burst", "64kb", "latency", "100ms")
OPTIONS = {
    "plain": [],
    "overlap": ["--strategy.overlap"],
    "bf16": ["--strategy.wire", "bf16"],
    "int8": ["--strategy.wire", "int8"],
    "overlap_bf16": ["--strategy.overlap", "--strategy.wire", "bf16"],
    "overlap_int8": ["--strategy.overlap", "--strategy.wire", "int8"],
}


def call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextlib.contextmanager
def two_hosts(rate: str) -> Iterator[None]:
    """Namespaces ``HOSTS`` with addresses 10.99.0.1 and .2; what leaves either is slowed down."""
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
            call(*inside, "tc", "qdisc", "add", "dev", "eth0", "root", *SLOW, "rate", rate)
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


def train(root: Path, name: str, every: str, more: list[str]) -> list[tuple[str, subprocess.Popen]]:
    """Begin a training of one epoch on both hosts."""
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "eth0"}
    place |= {"MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1"}
    words = options(root, name, "model_average", every, more)
    begun = []
    for rank, host in enumerate(HOSTS):
        command = ["ip", "netns", "exec", host, sys.executable, "-m", "asr_parallel", "train", *words]
        environment = os.environ | place | {"RANK": str(rank)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun.append((name, process))
    return begun


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--minutes", type=float, default=3.0, help="of frames in an epoch")
    parser.add_argument("--every", default="10 minibatches")
    parser.add_argument("--big", action="store_true", help="the network is 440-2048x6-8806, trained with SGD")
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        print("slow_link: needs root, ip and tc, for network namespaces", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory, two_hosts(args.rate):
        root = Path(directory)
        corpus(root, args.minutes, BIG_PDFS if args.big else PDFS)
        network = [*BIG, "--optim.name", "sgd"] if args.big else []
        one = [sys.executable, "-m", "asr_parallel", "train", *options(root, "one", "single", args.every, network)]
        alone = speed(root, ("one", subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
        Figure("one_frames_per_s", alone, "frames/s", command=command_line()).show()
        for name, more in OPTIONS.items():
            (_, first), (_, second) = train(root, name, args.every, network + more)
            try:
                rate = speed(root, (name, first))
            finally:
                second.terminate()  # nothing is left to do for it once rank 0 has ended
                second.wait()
            Figure(f"{name}_frames_per_s", rate, "frames/s", command=command_line()).show()
            Figure(f"{name}_vs_one", rate / alone, "ratio", command=command_line()).show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
