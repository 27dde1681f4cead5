"""Python, the packages that this project stands on, and two processes that talk."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from asr_parallel.doctor.check import SECONDS, Check, probe, probed


def check_python() -> Check:
    version = platform.python_version()
    ok = sys.version_info >= (3, 11)
    return Check(
        "python", "ok" if ok else "fail", version, "" if ok else "make the environment with Python 3.11 or newer"
    )


def check_packages() -> Check:
    """Every declared dependency is there, in a version that fits."""
    from packaging.requirements import Requirement

    wrong = []
    for line in importlib.metadata.requires("asr_parallel") or []:
        need = Requirement(line)
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(need.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{need.name} is missing")
            continue
        if not need.specifier.contains(version, prereleases=True):
            wrong.append(f"{need.name} {version} is not {need.specifier}")
    if wrong:
        return Check("packages", "fail", "; ".join(wrong), "install the project again: pip install -e .")
    return Check("packages", "ok", "all dependencies are there in fitting versions")


def check_torch() -> Check:
    """That it multiplies, and what training will use: NCCL on GPUs, gloo on CPUs."""
    code = (
        "import torch, torch.distributed as d\n"
        "torch.ones(8, 8) @ torch.ones(8, 8)\n"
        "assert d.is_available() and d.is_gloo_available(), 'torch was built without gloo'\n"
        "n = torch.cuda.device_count() if torch.cuda.is_available() else 0\n"
        "gpus = ', '.join(torch.cuda.get_device_name(i) for i in range(n))\n"
        "nccl = 'nccl' if d.is_nccl_available() else 'no nccl'\n"
        "how = f'{n} GPU ({gpus}), {nccl}' if n else 'no GPU, gloo on CPUs'\n"
        "print(f'{torch.__version__}; {how}')"
    )
    return probed("torch", code, "install torch again: pip install --force-reinstall 'torch>=2.11'")


def check_torchaudio() -> Check:
    """The most frequent break: torch without CUDA beside a torchaudio that wants it, or two versions apart."""
    ok, text = probe("import torch, torchaudio; print(torchaudio.__version__, 'beside torch', torch.__version__)")
    if ok:
        return Check("torchaudio", "ok", text)
    if "libc10_cuda" in text or "libcudart" in text:
        mend = (
            "a CPU-only torch stands beside a torchaudio built for CUDA (this also breaks lhotse's flac reading): "
            "install both from the same index in one command, either both the default wheels or both the CPU wheels"
        )
    else:
        mend = "install torch and torchaudio again in one command, from the same index, both >= 2.11"
    return Check("torchaudio", "fail", text, mend)


def check_lhotse() -> Check:
    mend = "pip install 'lhotse>=1.33,<2' 'urllib3>=2,<3'; if torchaudio fails above, mend that first"
    return probed("lhotse", "import lhotse, lhotse.features; print(lhotse.__version__)", mend)


def check_fst() -> Check:
    """The graph and the decoder share OpenFst types, so their versions belong together."""
    code = (
        "import kaldifst, kaldi_decoder; from importlib.metadata import version as v; "
        "f = kaldifst.compile('0 1 1 1 0.5\\n1 0.0\\n'); "
        "d = kaldi_decoder.FasterDecoder(f, kaldi_decoder.FasterDecoderOptions()); "
        "print('kaldifst', v('kaldifst'), 'and kaldi-decoder', v('kaldi-decoder'))"
    )
    return probed("fst", code, "pip install kaldifst==1.8.3 kaldi-decoder==0.3.2 (these two belong together)")


def check_audio() -> Check:
    """FLAC and WAV in memory, and that MP3 can be read, which the default corpus is made of."""
    code = (
        "import io, numpy as np, soundfile as sf\n"
        "x = (np.arange(800) % 50 * 100).astype(np.int16)\n"
        "for kind in ('FLAC', 'WAV'):\n"
        "    b = io.BytesIO(); sf.write(b, x, 8000, format=kind); b.seek(0)\n"
        "    y, rate = sf.read(b, dtype='int16'); assert rate == 8000 and (x == y).all(), kind\n"
        "assert 'MP3' in sf.available_formats(), 'this libsndfile cannot read MP3'\n"
        "print('soundfile', sf.__version__, sf.__libsndfile_version__)"
    )
    mend = "pip install --force-reinstall 'soundfile>=0.12,<1' (its wheel brings libsndfile >= 1.1, which reads MP3)"
    return probed("audio", code, mend)


GLOO = """
import sys, datetime, torch, torch.distributed as d
torch.set_num_threads(1)
d.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=int(sys.argv[2]), world_size=2,
                     timeout=datetime.timedelta(seconds=30))
x = torch.full((1000,), 1.0 + int(sys.argv[2])); d.all_reduce(x); assert (x == 3).all()
d.barrier(); d.destroy_process_group()
"""
GLOO_MEND = (
    "let this host's name resolve (a line in /etc/hosts), or name the network interface: "
    "export GLOO_SOCKET_IFNAME=lo (one machine) or the interface that joins your machines"
)


def check_two_processes() -> Check:
    """Two real processes add up a vector with gloo."""
    name = "two processes"
    with tempfile.TemporaryDirectory() as folder:
        meet = str(Path(folder) / "meet")
        command = [sys.executable, "-c", GLOO, meet]
        both = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for rank in (0, 1)
        ]
        words = []
        try:
            words = [process.communicate(timeout=SECONDS)[1].strip().splitlines() for process in both]
        except subprocess.TimeoutExpired:
            return Check(name, "fail", f"no answer within {SECONDS} s", GLOO_MEND)
        finally:
            for process in both:
                process.kill()
                process.wait()
    if any(process.returncode for process in both):
        return Check(name, "fail", next((w[-1] for w in words if w), "exit without a word"), GLOO_MEND)
    return Check(name, "ok", "gloo all-reduce between two processes adds up")


def check_mpi() -> Check:
    """Optional: only needed to start workers with mpirun."""
    ok, text = probe("import mpi4py; from mpi4py import MPI; print('mpi4py', mpi4py.__version__)", 60)
    launcher = shutil.which("mpirun") or shutil.which("mpirun", path=str(Path(sys.executable).parent))
    if ok and launcher:
        return Check("mpi", "ok", f"{text}, mpirun found")
    seen = text if not ok else "mpi4py without mpirun"
    return Check("mpi", "warn", f"optional: {seen}", "only for mpirun: pip install 'asr_parallel[mpi]'")
