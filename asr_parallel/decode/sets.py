"""All utterances of a set through the decoder, one process a core, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import numpy as np

from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.decoder import Decoded, Decoder
from asr_parallel.log import Progress, UserError, logger
from asr_parallel.pool import parallel_map

log = logger(__name__)
NO_HYPOTHESIS = ("empty", "failed")  # flags
SLOW_AFTER = 100.0  # seconds of decoding after which real time should have been reached


@dataclass(frozen=True)
class Result:
    """The utterances of a set, decoded, in the order of the set."""

    utts: list[str]
    decoded: list[Decoded]
    audio: float  # seconds
    frames: int
    wall: float  # seconds

    def with_flag(self, *flags: str) -> dict[str, str]:
        """Reasons of the utterances that have one of ``flags``."""
        return {u: d.reason for u, d in zip(self.utts, self.decoded) if d.flag in flags}

    def figures(self) -> dict[str, Any]:
        """Figures for ``decode.json``.

        ``xrt`` is seconds of audio decoded in a second of one core, ``density`` the mean number of arcs that
        cross a frame (Kaldi's lattice depth, of the lattice before frames are joined).
        """
        core = sum(d.seconds for d in self.decoded)
        return {
            "utts": len(self.utts),
            "audio_seconds": round(self.audio, 2),
            "wall_seconds": round(self.wall, 2),
            "core_seconds": round(core, 2),
            "xrt": round(self.audio / max(core, 1e-9), 2),
            "density": round(sum(d.arcs for d in self.decoded) / max(1, self.frames), 2),
            "retried": self.with_flag("retried"),
            "partial": self.with_flag("partial"),
            "failed": self.with_flag(*NO_HYPOTHESIS),
        }


def decode_set(decoder: Decoder, feats: FeatureSet, jobs: int) -> Result:
    """Decode all utterances of a set, longest first, so that no process ends long after the others.

    Raises UserError if a process is killed.
    """
    start = time.monotonic()
    frames = np.diff(feats.offsets)
    order = np.argsort(-frames, kind="stable").tolist()
    audio = float(feats.durations.sum())
    bar = Progress(f"decode {feats.name}", audio, "s of audio")

    def decode(row: int) -> Decoded:
        return decoder.decode(feats[feats.utts[row]])

    decoded: dict[int, Decoded] = {}
    spent, warned = 0.0, False
    try:
        for row, one in zip(order, parallel_map(decode, order, jobs), strict=True):
            decoded[row] = one
            spent += one.seconds
            bar.add(feats.durations[row], f"({bar.done / max(spent, 1e-9):.1f} x real time a core)")
            if not warned and spent > max(SLOW_AFTER, bar.done):
                warned = True
                log.warning(
                    "decoding is slower than real time: the scores hardly tell one pdf from another (look at the "
                    "model's training), or --beam %g is too wide",
                    decoder.beams.beam,
                )
    except BrokenProcessPool:
        raise UserError(
            f"set {feats.name}: a decoding process was killed, perhaps for want of memory: give fewer --jobs or a "
            "narrower --beam; sets that are done are kept"
        ) from None
    bar.close()
    results = [decoded[i] for i in range(len(feats))]
    return Result(feats.utts, results, audio, int(frames.sum()), time.monotonic() - start)


def too_many(name: str, bad: dict[str, str], size: int, max_bad: float) -> str:
    """What to tell the user when more utterances have no hypothesis than ``max_bad`` allows."""
    kinds = Counter(reason.partition(" (")[0] for reason in bad.values())
    common = "; ".join(f"{n} x {reason}" for reason, n in kinds.most_common(3))
    return (
        f"set {name}: {len(bad)} of {size} utterances have no hypothesis, {next(iter(bad))} first, more than "
        f"--max_bad {max_bad:g} allows: {common}"
    )
