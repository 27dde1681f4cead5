"""Which system beats which: paired bootstrap over the utterances that both have decoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asr_parallel.log import logger
from asr_parallel.results.record import GMM_LABELS, Experiment, utt_errors
from asr_parallel.score.significance import Comparison, compare

log = logger(__name__)


@dataclass(frozen=True)
class Claim:
    """``new`` against ``old`` on test set ``name``."""

    old: Experiment
    new: Experiment
    name: str
    result: Comparison


def claims(experiments: Sequence[Experiment]) -> list[Claim]:
    """Each GMM against the one before, each DNN against the last GMM, each DNN of many workers against that of one."""
    found = []
    for old, new in pairs(experiments):
        for name in sorted(old.test_scores.keys() & new.test_scores.keys()):
            if result := paired(old, new, name):
                found.append(Claim(old, new, name, result))
    return found


def pairs(experiments: Sequence[Experiment]) -> Iterator[tuple[Experiment, Experiment]]:
    """(old, new) of the comparisons that are made."""
    gmms = sorted((e for e in experiments if e.name in GMM_LABELS), key=lambda e: e.order)
    dnns = [e for e in experiments if e.is_dnn]
    yield from itertools.pairwise(gmms)
    for dnn in dnns:
        if gmms:
            yield gmms[-1], dnn
    for dnn in dnns:
        if dnn.workers > 1 and (one := serial_twin(dnn, dnns)):
            yield one, dnn


def serial_twin(dnn: Experiment, dnns: Sequence[Experiment]) -> Experiment | None:
    """The one-worker training that differs least from ``dnn`` in what its summary says."""
    keys = ("params", "epochs", "schedule", "optimizer", "precision", "batch", "lr", "train_frames", "features")
    alike = [(sum(e.train.get(k) == dnn.train.get(k) for k in keys), e) for e in dnns if e.workers == 1]
    return max(alike, key=lambda pair: pair[0])[1] if alike else None


def paired(old: Experiment, new: Experiment, name: str) -> Comparison | None:
    """Paired bootstrap on set ``name``; None, with a warning, if the two were not scored on the same references."""
    a, b = utt_errors(old, name), utt_errors(new, name)
    if a is None or b is None:
        return None
    if (a.utts, a.words) != (b.utts, b.words):
        log.warning("%s and %s were scored on different versions of %s: score both again", old.name, new.name, name)
        return None
    return compare(a.errors, b.errors, a.words, a.spks)


def speedups(experiments: Sequence[Experiment]) -> list[str]:
    """A sentence for each training with several workers: its speed against that of one worker."""
    dnns = [e for e in experiments if e.is_dnn]
    sentences = []
    for dnn in dnns:
        one = serial_twin(dnn, dnns) if dnn.workers > 1 else None
        if one and one.train.get("frames_per_s") and dnn.train.get("frames_per_s"):
            ratio = dnn.train["frames_per_s"] / one.train["frames_per_s"]
            new, old = (f"{e.workers} × {e.train.get('threads', '?')} threads" for e in (dnn, one))
            sentences.append(f"{dnn.name} ({new}) trains on {ratio:.2f} × the frames per second of {one.name} ({old}).")
    return sentences
