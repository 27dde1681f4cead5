import os
import signal
import sys
import threading
import time

import pytest

from asr_parallel.log import UserError
from asr_parallel.parallel import launch as launching
from asr_parallel.parallel.launch import STOPPED, launch
from asr_parallel.parallel.place import Place


def start(tmp_path, code, workers=2):
    return launch([sys.executable, "-c", code], workers, 3, tmp_path / "log")


def test_workers_get_their_place_threads_and_logs(tmp_path, capsys):
    code = "import os; print(*(os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'OMP_NUM_THREADS')))"
    assert start(tmp_path, code) == 0
    assert (tmp_path / "log" / "rank_0.log").read_text() == "0 2 0 3\n"
    assert (tmp_path / "log" / "rank_1.log").read_text() == "1 2 1 3\n"
    assert capsys.readouterr().err == "0 2 0 3\n"


def test_the_rank_that_failed_is_named_with_its_last_words_and_the_others_are_ended(tmp_path):
    code = """
import os, sys, time
print(os.getpid(), flush=True)
if os.environ["RANK"] == "1":
    time.sleep(0.3)
    sys.exit("no such frame")
time.sleep(60)
"""
    begin = time.monotonic()
    with pytest.raises(UserError, match=r"rank 1 of 2 ended with code 1.*rank_1.log") as error:
        start(tmp_path, code)
    assert "rank 1 | no such frame" in str(error.value)
    assert time.monotonic() - begin < 30
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "log" / "rank_0.log").read_text().split()[0]), 0)


def test_a_rank_that_only_missed_another_is_not_blamed(tmp_path):
    code = """
import os, sys, time
if os.environ["RANK"] == "0":
    sys.exit("rank 0: averaging failed: rank 1 did not come")
time.sleep(0.5)
sys.exit("disk full")
"""
    with pytest.raises(UserError, match=r"rank 1 of 2 ended with code 1"):
        start(tmp_path, code)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("SIGKILL", r"^rank 1 of 2 was ended by SIGKILL \(by hand, or by the kernel for want of memory"),
        ("SIGSTOP", r"^rank 1 is stopped by a signal \(SIGSTOP\); rank 0 of 2 ended with code 1"),
    ],
)
def test_a_rank_that_is_killed_or_stopped_is_named(tmp_path, monkeypatch, fault, words):  # P13, P14
    code = f"""
import os, signal, sys, time
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.{fault})
time.sleep(0.5)
sys.exit("rank 0: meeting failed: rank 1 did not come")
"""
    monkeypatch.setattr(launching, "GRACE", 0.5)
    begin = time.monotonic()
    with pytest.raises(UserError, match=words):
        start(tmp_path, code)
    assert time.monotonic() - begin < 20


def test_two_runs_at_once_do_not_meet(tmp_path):  # P15
    code = "import os; print(os.environ['MASTER_PORT'], end='')"
    ports = []

    def one(name):
        start(tmp_path / name, f"import time; time.sleep(0.5); {code}")
        ports.append((tmp_path / name / "log" / "rank_1.log").read_text())

    threads = [threading.Thread(target=one, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ports)) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_is_passed_on_and_its_code_given_back(tmp_path, number):  # W4
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
time.sleep(60)
"""
    before = signal.getsignal(number)
    threading.Timer(1.5, os.kill, (os.getpid(), number)).start()
    assert start(tmp_path, code) == STOPPED
    assert signal.getsignal(number) is before


def test_place_from_the_variables_of_torchrun(monkeypatch):
    place = Place(1, 4, 1, 2, "10.0.0.7", 4321, True)
    for name, value in place.environment().items():
        monkeypatch.setenv(name, value)
    assert Place.from_environment() == Place(1, 4, 1, 2, "10.0.0.7", 4321, True, "asr_parallel/0")
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(UserError, match="MASTER_PORT"):
        Place.from_environment()
    monkeypatch.delenv("RANK")
    assert Place.from_environment() is None
