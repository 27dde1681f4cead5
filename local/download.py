"""Fetches large files over lines that break: goes on where it stopped, tries mirrors, believes only the checksum."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from asr_parallel.log import Progress, UserError, logger

log = logger("asr_parallel.download")

TIMEOUT = 30  # seconds without a byte after which a line counts as broken
WAITS = (1, 5, 15, 30, 60)  # seconds before further tries of a file of which something has come
CHUNK = 1 << 20
AGENT = {"User-Agent": "asr_parallel"}


class Unreachable(UserError):
    """A file can't be had: no server answers, none has it, or what comes is not what was published."""


def download(urls: Sequence[str], path: Path, checksum: str, waits: Sequence[float] = WAITS) -> Path:
    """Leave the file with ``checksum`` (md5 or sha256) at ``path``, from any of ``urls``, unless it is there.

    What has come of it waits in ``path.part``; the next call goes on from there, after a kill as well.

    Raises:
        Unreachable: no url gave the file, or all of them another one.
        UserError: another file is at ``path`` already.
    """
    if path.exists():
        if (found := digest(path, checksum)) != checksum:
            raise UserError(
                f"{path}: {kind(found)} {found}, but the one published is {checksum}: it is cut or another; remove it"
            )
        return path
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    resumed = part.exists()
    fetch_whole(urls, part, waits)
    if resumed and digest(part, checksum) != checksum:  # perhaps another version was there: once from scratch
        part.unlink()
        fetch_whole(urls, part, waits)
    if (found := digest(part, checksum)) != checksum:
        part.unlink()
        raise Unreachable(
            f"{urls[0]}: what came has {kind(found)} {found}, but the one published is {checksum}; it was thrown away"
        )
    os.replace(part, path)
    return path


def kind(checksum: str) -> str:
    """The algorithm of a checksum, told from its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def digest(path: Path, like: str) -> str:
    """Checksum of a file, by the algorithm of ``like``."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, kind(like)).hexdigest()


def fetch_whole(urls: Sequence[str], part: Path, waits: Sequence[float]) -> None:
    """Try url after url until all bytes are in ``part``.

    Each byte more than ever before makes the patience new: it is one round over the urls, and ``waits`` on top once
    something has come.
    """
    fails, best, why = 0, _size(part), ""
    while fails < len(urls) + (len(waits) if best else 0):
        if fails >= len(urls):
            time.sleep(waits[fails - len(urls)])
        url = urls[fails % len(urls)]
        try:
            fetch(url, part)
            return
        except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
            why = f"{url}: {error}"
        more = _size(part) > best
        fails, best = 0 if more else fails + 1, max(best, _size(part))
        log.info("%s; %.1f MB are there", why, _size(part) / 1e6)
    raise Unreachable(f"{part.name.removesuffix('.part')} can't be fetched: {why}")


def fetch(url: str, part: Path) -> None:
    """Append to ``part`` what it lacks of ``url``; all of it where the server knows no ranges.

    Raises OSError (or an HTTPException) if the line breaks; then ``part`` keeps what has come.
    """
    have = _size(part)
    request = urllib.request.Request(url, headers={**AGENT, **({"Range": f"bytes={have}-"} if have else {})})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # no bytes beyond those that are there: the checksum will tell
            return
        raise
    with answer:
        begin, total = _range(answer, have)
        bar = Progress(f"fetching {url.rpartition('/')[2]}", total / 1e6, "MB")
        bar.add(begin / 1e6)
        with open(part, "r+b" if begin else "wb") as f:
            f.seek(begin)
            while chunk := answer.read(CHUNK):
                f.write(chunk)
                bar.add(len(chunk) / 1e6)
        bar.close()
    if (size := _size(part)) != total:  # read() ends silently when the other side hangs up
        raise OSError(f"the line broke after {size:,} of {total:,} bytes")


def _range(answer: http.client.HTTPResponse, have: int) -> tuple[int, int]:
    """Where the bytes of an answer begin in the file, and the size of the whole file."""
    length = answer.headers.get("Content-Length")
    if length is None:
        raise OSError("the server does not say how long the file is")
    if answer.status != 206:
        return 0, int(length)
    begin = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    if begin != str(have):
        raise OSError(f"the server sent bytes from {begin or 'nowhere'} where those from {have} were wanted")
    return have, have + int(length)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
