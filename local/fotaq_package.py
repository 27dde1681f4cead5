"""Gets ``queen.1c``: from a path, from a .deb that is already there, or from Debian's archive without root."""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from preparing import CorpusMissing

from asr_parallel.files import atomic
from asr_parallel.log import UserError, logger

log = logger("asr_parallel.fotaq_package")

PACKAGE = "flight-of-the-amazon-queen"
MEMBER = "queen.1c"
WAYS_OUT = f"""Ways out:
  - on Debian or Ubuntu: `apt-get download {PACKAGE}` and put the .deb into {{downloads}}
  - elsewhere: fetch the package {PACKAGE} (section games, 35 MB) with a browser and give --source FILE.deb
  - or give --source PATH/queen.1c of the talkie edition that ScummVM's site offers as freeware"""


class SourceMissing(CorpusMissing):
    """The package can't be had here."""

    def __init__(self, why: str, downloads: Path):
        super().__init__(f"{why}\n{WAYS_OUT.format(downloads=downloads)}")


def local_source(source: Path | None, downloads: Path) -> Path | None:
    """``source`` if it is given, else the newest .deb in ``downloads``, else None."""
    if source is not None:
        if not source.is_file():
            raise SourceMissing(f"--source {source}: there is no such file.", downloads)
        return source
    debs = sorted(downloads.glob(f"{PACKAGE}_*.deb"), key=lambda p: p.stat().st_mtime)
    return debs[-1] if debs else None


def fetch(downloads: Path) -> Path:
    """Fetch the package with apt-get, with the system's package lists or, where they are empty, with own ones."""
    if shutil.which("apt-get") is None:
        raise SourceMissing(f"{PACKAGE}: this system has no apt-get to fetch it with.", downloads)
    downloads.mkdir(parents=True, exist_ok=True)
    log.info("fetching %s (35 MB) with apt-get", PACKAGE)
    with tempfile.TemporaryDirectory(prefix=".apt-", dir=downloads) as name:
        own = Path(name).resolve()
        for folder in ("lists/partial", "cache/archives/partial", "deb"):
            (own / folder).mkdir(parents=True)
        options = ["-q", "-o", f"Dir::Cache={own}/cache", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1"]
        own_lists = ["-o", f"Dir::State::lists={own}/lists"]
        failure = _apt([*options, "download", PACKAGE], own / "deb")
        if failure:
            log.info("the system's package lists did not do; updating into %s", own)
            failure = _apt([*options, *own_lists, "update"], own / "deb")
            failure = failure or _apt([*options, *own_lists, "download", PACKAGE], own / "deb")
        found = sorted((own / "deb").glob(f"{PACKAGE}_*.deb"))
        if failure or not found:
            raise SourceMissing(f"apt-get download {PACKAGE} failed:\n{failure.strip()}", downloads)
        return Path(shutil.move(found[-1], downloads / found[-1].name))


def _apt(arguments: list[str], folder: Path) -> str:
    """Run apt-get in ``folder``; its complaint if it failed."""
    done = subprocess.run(["apt-get", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr or done.stdout or f"exit code {done.returncode}")


def fingerprint(path: Path) -> str:
    """Size and SHA-256 of a file."""
    with open(path, "rb") as f:
        return f"{path.stat().st_size}-{hashlib.file_digest(f, 'sha256').hexdigest()}"


def unpack(source: Path, downloads: Path) -> Path:
    """``queen.1c`` itself; that of a .deb is left in ``downloads`` under a name that tells which package it is of."""
    with open(source, "rb") as f:
        magic = f.read(8)
    if magic != b"!<arch>\n":
        return source  # Package checks that it is one
    target = downloads / f"{fingerprint(source).split('-')[1][:12]}-{MEMBER}"
    if target.is_file():
        return target
    try:
        with _data_tar(source) as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
            for member in tar:
                if member.isfile() and Path(member.name).name.lower() == MEMBER:
                    content = tar.extractfile(member)
                    assert content is not None  # it is a file
                    with atomic(target) as temporary, open(temporary, "wb") as out:
                        shutil.copyfileobj(content, out, 1 << 20)
                    return target
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise UserError(f"{source}: cannot be unpacked ({error}); it is cut or damaged: fetch it again") from error
    raise UserError(f"{source}: holds no {MEMBER}; wanted is Debian's package {PACKAGE}")


@contextlib.contextmanager
def _data_tar(deb: Path) -> Iterator[IO[bytes]]:
    """The tar archive of a package's files, unpacked by dpkg-deb or, where it is missing, still compressed."""
    if shutil.which("dpkg-deb") is None:
        yield io.BytesIO(_ar_member(deb, "data.tar"))
        return
    with tempfile.TemporaryFile() as stream:
        done = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=stream, stderr=subprocess.PIPE, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr.decode(errors="replace").strip())
        stream.seek(0)
        yield stream


def _ar_member(archive: Path, prefix: str) -> bytes:
    """Content of the first member of an ar archive whose name begins with ``prefix`` (see ar(5))."""
    with open(archive, "rb") as f:
        f.seek(8)
        while header := f.read(60):
            if len(header) < 60 or header[58:] != b"`\n":
                raise ValueError("damaged ar header")
            name, size = header[:16].decode("ascii", "replace").strip(" /"), int(header[48:58])
            content = f.read(size)
            if len(content) < size:
                raise ValueError(f"{name} ends after {len(content)} of {size} bytes")
            if name.startswith(prefix):
                return content
            f.seek(size % 2, 1)
    raise ValueError(f"no {prefix} in it")
