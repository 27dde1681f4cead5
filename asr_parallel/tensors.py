"""Files of tensors and plain values: written whole or not at all, read without running what they hold."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from asr_parallel.files import atomic
from asr_parallel.log import UserError


def save_tensors(path: Path, value: dict[str, Any]) -> None:
    """``torch.save``, atomically; the same value gives the same bytes."""
    with atomic(path) as temporary, open(temporary, "wb") as stream:  # a path would put its name into the file
        torch.save(value, stream)


def load_tensors(path: Path, forms: tuple[int, ...], way_out: str) -> dict[str, Any]:
    """What ``save_tensors`` wrote, of a format in ``forms``.  Raises ``UserError`` that ends with ``way_out``."""
    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: {way_out}") from None
    except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged ({(str(error).splitlines() or [''])[0]}): {way_out}") from None
    if not isinstance(value, dict) or value.get("format") not in forms:
        raise UserError(f"{path} is not of format {' or '.join(map(str, forms))}: {way_out}")
    return value
