"""What a figure was measured on, in words; no names of hosts or folders."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

from asr_parallel.config import cores


def machine(device: torch.device) -> dict[str, Any]:
    """Processor, cores, memory in GiB, versions, and the GPU if one was used."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    words: dict[str, Any] = {"cpu": cpu_name(), "cores": cores(), "memory_gib": round(pages / 2**30)}
    words |= {"python": platform.python_version(), "torch": torch.__version__, "device": device.type}
    if device.type == "cuda":
        words["gpu"] = torch.cuda.get_device_name(device)
    return words


def cpu_name() -> str:
    """Model name of the processor as Linux gives it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
