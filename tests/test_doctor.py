"""The doctor names what is broken: here, packages that are made to break."""

import json
import sys

import pytest

from asr_parallel import doctor
from asr_parallel.config import DoctorConfig
from asr_parallel.doctor import machine, software
from asr_parallel.doctor.check import Check, probe


def shadow(tmp_path, monkeypatch, **modules):
    """Put modules before the installed ones for every process the doctor starts."""
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_probe_tells_output_error_crash_and_silence():
    assert probe("print('one'); print('two')") == (True, "two")
    assert probe("raise ValueError('broken')") == (False, "ValueError: broken")
    assert probe("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)") == (False, "killed by signal 11")
    assert probe("import time; time.sleep(30)", 0.5) == (False, "no answer within 0 s")


def test_cpu_torch_beside_cuda_torchaudio_is_explained(tmp_path, monkeypatch):
    message = "libc10_cuda.so: cannot open shared object file: No such file or directory"
    shadow(tmp_path, monkeypatch, torch="", torchaudio=f"raise OSError({message!r})")
    check = software.check_torchaudio()
    assert check.status == "fail"
    assert message in check.seen
    assert "from the same index" in check.mend
    assert "CPU-only torch" in check.mend


def test_other_torchaudio_break_has_its_own_remedy(tmp_path, monkeypatch):
    shadow(tmp_path, monkeypatch, torch="", torchaudio="raise OSError('undefined symbol')")
    check = software.check_torchaudio()
    assert check.status == "fail"
    assert "CPU-only" not in check.mend


@pytest.mark.parametrize(
    ("check", "module", "remedy"),
    [
        (software.check_torch, "torch", "torch>=2.11"),
        (software.check_lhotse, "lhotse", "lhotse>="),
        (software.check_fst, "kaldi_decoder", "kaldifst==1.8.3 kaldi-decoder==0.3.2"),
        (software.check_audio, "soundfile", "soundfile>="),
    ],
)
def test_broken_package_is_named(tmp_path, monkeypatch, check, module, remedy):
    shadow(tmp_path, monkeypatch, **{module: f"raise ImportError('{module} is broken')"})
    found = check()
    assert (found.status, found.seen) == ("fail", f"ImportError: {module} is broken")
    assert remedy in found.mend


def test_processes_that_cannot_talk(tmp_path, monkeypatch):
    shadow(tmp_path, monkeypatch, torch="raise RuntimeError('no interface')")
    found = software.check_two_processes()
    assert (found.status, found.seen) == ("fail", "RuntimeError: no interface")
    assert "GLOO_SOCKET_IFNAME" in found.mend


def test_mpi_is_optional(tmp_path, monkeypatch):
    shadow(tmp_path, monkeypatch, mpi4py="raise ImportError('none')")
    assert software.check_mpi().status == "warn"


def test_two_real_processes_talk_and_fst_and_audio_work():
    for check in (software.check_two_processes, software.check_fst, software.check_audio):
        assert check().status == "ok"


def test_wrong_version_and_missing_package_are_named(monkeypatch):
    needs = ["numpy>=99", "no-such-package-at-all", "absent; extra == 'dev'"]
    monkeypatch.setattr(software.importlib.metadata, "requires", lambda name: needs)
    found = software.check_packages()
    assert found.status == "fail"
    assert "is not >=99" in found.seen
    assert "no-such-package-at-all is missing" in found.seen
    assert "absent" not in found.seen


def test_little_room_warns_and_almost_none_fails(monkeypatch):
    for free, status in ((6e9, "ok"), (2e9, "warn"), (1e8, "fail")):
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda path, free=free: type("U", (), {"free": free}))
        assert machine.check_disk().status == status


def test_little_memory_warns(monkeypatch):
    for free, status, seen in ((1.5e9, "warn", "1.5 GB free"), (16.4e9, "ok", "16.4 GB free")):
        monkeypatch.setattr(machine, "available_memory", lambda free=free: free)
        assert (machine.check_memory().status, machine.check_memory().seen) == (status, seen)
    monkeypatch.setattr(machine, "available_memory", lambda: float("inf"))
    assert machine.check_memory().status == "warn"


def test_folder_without_permission_fails(monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    assert machine.check_write().status == "fail"


def test_more_threads_than_cores_warns(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    assert machine.check_cores().status == "warn"


def test_missing_demo_tools_warn(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda tool: None)
    assert machine.check_demo_tools().status == "warn"


def test_exit_code_table_and_json(monkeypatch, capsys):
    def check_bad_thing():
        raise KeyError("x")

    good = Check("good", "ok", "fine")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: good, lambda: Check("poor", "warn", "slow", "buy")))
    assert doctor.run(DoctorConfig()) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok    good  fine",
        "warn  poor  slow",
        "            -> buy",
        "1 ok, 1 warnings, 0 failures",
    ]
    monkeypatch.setattr(doctor, "CHECKS", (lambda: good, check_bad_thing))
    assert doctor.run(DoctorConfig(json=True)) == 1
    checks = json.loads(capsys.readouterr().out)
    assert [c["status"] for c in checks] == ["ok", "fail"]
    assert checks[1]["name"] == "bad thing"
    assert "KeyError" in checks[1]["seen"]


def test_python_of_the_environment_is_new_enough(monkeypatch):
    assert software.check_python().status == "ok"
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    assert software.check_python().status == "fail"
