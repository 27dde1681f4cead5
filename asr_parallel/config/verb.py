"""What all verbs share, and where they find each other's files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

MadeKind = Literal["mfcc", "fbank", "mfcc_hires", "image"]  # features that verb `features` makes
FeatureKind = Literal["mfcc", "fbank", "mfcc_hires", "image", "fmllr", "kaldi"]  # by `adapt` of mfcc; `import-kaldi`


def cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class VerbConfig:
    """What all verbs share."""

    jobs: int = 0  # processes to use; 0 means one a core. Results do not depend on it
    force: bool = False  # run even if the result is fresh

    # fields that change how long a verb takes, but not what it leaves
    NOT_HASHED: ClassVar[tuple[str, ...]] = ("jobs", "force")

    def inputs(self) -> list[Path]:
        """Files that the result depends on."""
        return []

    def outputs(self) -> list[Path]:
        """Files that must exist for the result to be there."""
        return []

    def state(self) -> dict[str, str]:
        """What else the result depends on, told in few words that change with it."""
        return {}

    def home(self) -> Path:
        """The folder that holds all outputs; log and stamp go there."""
        parents = [str(p.parent) for p in self.outputs()]
        return Path(os.path.commonpath(parents)) if parents else Path(".")

    def num_jobs(self) -> int:
        return self.jobs or cores()


def model_files(model: Path) -> list[Path]:
    """Files in a model directory that scores depend on."""
    return [p for n in ("hmm.json", "gmm.npz", "gmm_si.npz", "space.npz", "final.pt") if (p := model / n).exists()]


def features_of(model: Path) -> str:
    """Kind of features that the model in a directory takes: of a DNN what it was trained on, of a GMM mfcc or fmllr."""
    if (model / "final.pt").exists():
        try:
            return str(json.loads((model / "config.json").read_text(encoding="utf-8"))["features"])
        except (OSError, ValueError, KeyError, TypeError):
            return "fbank"  # the decoder reads it off the model
    return "fmllr" if (model / "gmm_si.npz").exists() else "mfcc"


def cuts_path(data: Path, name: str, kind: str = "") -> Path:
    """The cut manifest of set ``name`` under corpus directory ``data``, with features if ``kind``."""
    return Path(data) / name / (f"cuts_{kind}.jsonl.gz" if kind else "cuts.jsonl.gz")


def listing(files: Iterable[Path]) -> str:
    """How many files, and in eight letters their names, sizes and times."""
    lines = [f"{path} {s.st_size} {s.st_mtime_ns}\n" for path in files if path.is_file() for s in [path.stat()]]
    return f"{len(lines)} ({hashlib.sha256(''.join(lines).encode()).hexdigest()[:8]})"


def found_sets(data: Path) -> list[str]:
    """Names of the sets that have a cut manifest under ``data``, sorted."""
    return sorted(p.parent.name for p in Path(data).glob("*/cuts.jsonl.gz"))
