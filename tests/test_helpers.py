"""Atomic files, progress lines, parallel map."""

import io
import os

import pytest

from asr_parallel import files, log
from asr_parallel.pool import parallel_map


def test_atomic_leaves_the_old_file_when_the_block_fails(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail():
        with files.atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_atomic_keeps_the_suffix_and_makes_folders(tmp_path):
    with files.atomic(tmp_path / "x" / "a.jsonl.gz") as temporary:
        assert temporary.name.endswith(".jsonl.gz")
        temporary.write_text("whole")
    assert (tmp_path / "x" / "a.jsonl.gz").read_text() == "whole"


def test_json_round_trip(tmp_path):
    files.write_json(tmp_path / "a.json", {"ä": [1, 2.5, None]})
    assert files.read_json(tmp_path / "a.json") == {"ä": [1, 2.5, None]}


def test_progress_shows_share_rate_and_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    bar = log.Progress("decode", 200, "utt", period=1, stream=stream)
    now[0] += 10
    bar.add(50)
    assert " 25 % (50/200 utt) 5/s, 0:10 spent, 0:30 left" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65, "1:05"), (3725, "1:02:05")])
def test_duration(seconds, text):
    assert log.duration(seconds) == text


@pytest.mark.parametrize("jobs", [1, 3])
def test_parallel_map_keeps_order_and_takes_closures(jobs):
    offset = 10
    assert list(parallel_map(lambda x: x + offset, list(range(20)), jobs)) == list(range(10, 30))


def test_parallel_map_uses_other_processes_and_passes_errors_on():
    assert os.getpid() not in set(parallel_map(lambda _: os.getpid(), [0, 1, 2], 2))

    def fail(item):
        if item == 1:
            raise log.UserError("utt-1 is broken")
        return item

    with pytest.raises(log.UserError, match="utt-1"):
        list(parallel_map(fail, [0, 1, 2], 2))
