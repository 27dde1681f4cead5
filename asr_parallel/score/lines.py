"""Lines of a text file, each with the place that errors name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from asr_parallel.log import UserError


def numbered(path: Path) -> Iterator[tuple[str, str]]:
    """``FILE:LINE`` and text of each line that is not blank; UTF-8, gzipped if the name ends in ``.gz``.

    UserError if the file is not there or damaged, and on a line that is no UTF-8.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as raw:
            for number, line in enumerate(raw, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield f"{path}:{number}", text
    except UnicodeDecodeError as e:
        raise UserError(f"{path}:{number}: not UTF-8 ({e}); convert the file, e.g. with iconv") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise UserError(f"{path}: damaged after line {number} ({e}); make it again") from None
    except OSError as e:
        raise UserError(f"{path}: {e.strerror or e}") from None
