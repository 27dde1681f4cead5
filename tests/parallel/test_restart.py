"""The launcher of a training that goes on when a worker is lost."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace

import pytest
from lossy import going_on, summary
from toys import make_toy

from asr_parallel.config import ScheduleConfig
from asr_parallel.files import write_json
from asr_parallel.log import UserError
from asr_parallel.parallel import launch as launching
from asr_parallel.parallel import restart
from asr_parallel.parallel.launch import launch
from asr_parallel.train.settings import plain

toy = make_toy
SLOWLY = """
import sys, time
from asr_parallel.config import TrainConfig
from asr_parallel.parallel import surviving
from asr_parallel.parallel.start import worker_main
from asr_parallel.train import loop
from asr_parallel.train.run import work

surviving.GRACE_S = 0.3
whole = loop.exchange


def exchange(worker, clock):
    time.sleep(PAUSE if worker.comm.size < 2 else 0.05)
    whole(worker, clock)


loop.exchange = exchange
sys.exit(worker_main(work, TrainConfig, "train"))
"""


def launched(config, monkeypatch, then, restarts, pause=0.0):
    """Launch a training whose exchanges take a while; at its first checkpoint ``then(processes)`` is called."""
    write_json(config.out / "config.json", plain(config))
    started, real = [], launching.subprocess.Popen

    def popen(*arguments, **options):
        started.append(real(*arguments, **options))
        return started[-1]

    def wait():
        while not list((config.out / "checkpoint").glob("*.pt")):
            time.sleep(0.05)
        then(started)

    monkeypatch.setattr(launching.subprocess, "Popen", popen)
    monkeypatch.setattr(restart, "PAUSE_S", 0.1)
    threading.Thread(target=wait, daemon=True).start()
    command = [sys.executable, "-c", f"PAUSE = {pause}{SLOWLY}", str(config.out / "config.json")]
    return launch(command, config.workers, 1, config.out / "log", restarts), started


def test_the_launcher_starts_a_killed_worker_again_and_it_rejoins(toy, monkeypatch, capsys):
    config = going_on(toy, 2, schedule=ScheduleConfig(epochs=6))
    code, started = launched(config, monkeypatch, lambda children: children[0].kill(), 3, pause=0.5)
    assert code == 0
    assert len(started) == 3
    assert (summary(config)["lost"], summary(config)["rejoined"]) == (1, 1)
    assert "rank 0 lost: going on with 1 workers, rank 1 (generation 1)" in capsys.readouterr().err


def test_the_launcher_ends_a_stopped_worker_that_was_left_behind(toy, monkeypatch, caplog):
    config = replace(going_on(toy, 2, schedule=ScheduleConfig(epochs=4)), timeout=6.0)

    def stop(children):
        os.kill(children[1].pid, signal.SIGSTOP)

    code, started = launched(config, monkeypatch, stop, 0)
    assert code == 0
    assert len(started) == 2
    assert started[1].returncode == -signal.SIGKILL
    assert "rank 1 did not come, and is ended: the others have gone on without it" in caplog.messages
    assert (summary(config)["lost"], summary(config)["rejoined"]) == (1, 0)


def test_if_all_are_lost_the_launcher_says_why(toy, monkeypatch):
    def end(children):
        for child in children:
            child.kill()

    with pytest.raises(UserError, match=r"rank \d of 2 was ended by SIGKILL"):
        launched(going_on(toy, 2), monkeypatch, end, 3)
