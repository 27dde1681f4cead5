"""Python, the packages that this project stands on, and two processes that talk."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from asr_parallel.doctor.check import SECONDS, Check, probe, probed
from asr_parallel.log import UserError


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
    """Optional, for ``--backend mpi``: two real processes under mpirun."""
    code = "from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.Get_library_version().split(',')[0])"
    ok, text = probe(code, 60)
    here = str(Path(sys.executable).parent)
    launcher = shutil.which("mpirun", path=here + os.pathsep + os.environ.get("PATH", ""))
    if not ok or not launcher:
        seen = text if not ok else "mpi4py without mpirun"
        return Check("mpi", "warn", f"optional: {seen}", "only for --backend mpi: pip install 'asr_parallel[mpi]'")
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    command = [launcher, "-n", "2", sys.executable, "-c", code]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Check("mpi", "warn", f"optional: no answer from {launcher} within {SECONDS} s", MPI_MEND)
    words = done.stdout.split("\n")[0]
    if done.returncode or not words.startswith("2 "):
        last = (done.stderr or done.stdout).strip().splitlines()
        return Check("mpi", "warn", f"optional: {launcher}: {words or (last[-1] if last else 'no word')}", MPI_MEND)
    return Check("mpi", "ok", f"two processes under mpirun, {words[2:].splitlines()[0]}")


MPI_MEND = (
    "only for --backend mpi: use the mpirun of the library that mpi4py loads (otherwise each process is alone and says "
    "1 here); mpi4py takes the one that MPI4PY_LIBMPI names"
)


def check_interfaces() -> Check:
    """What gloo and NCCL were told to use is there."""
    from asr_parallel.parallel import network

    try:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            network.check_interfaces(variable)
    except UserError as error:
        return Check("interfaces", "fail", str(error), "unset it: the interface that leads to rank 0 is then chosen")
    names = [name for _, name in socket.if_nameindex()]
    seen = ", ".join(f"{name} {network.address_of(name)}" for name in names if network.address_of(name))
    return Check("interfaces", "ok", seen or "none has an IPv4 address")
