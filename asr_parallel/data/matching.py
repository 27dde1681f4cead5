"""Which utterances have features and labels that fit each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asr_parallel.align.labels import Labels
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.log import UserError, logger

log = logger(__name__)

TOLERANCE = 2  # frames that labels may be longer or shorter than features


def matched(features: FeatureSet, labels: Labels, utts: Sequence[str]) -> tuple[list[str], dict[str, str], int]:
    """Utterances that can be used, reasons against the others, number of those with labels a little off."""
    good, bad, cut = [], {}, 0
    for utt in utts:
        if utt not in features:
            bad[utt] = "no features"
        elif utt not in labels:
            bad[utt] = "no labels"
        else:
            have, want = features.num_frames(utt), len(labels[utt])
            if abs(have - want) > TOLERANCE or min(have, want) == 0:
                bad[utt] = f"{have} frames but {want} labels"
            else:
                good.append(utt)
                cut += have != want
    return good, bad, cut


def check(
    features: FeatureSet, labels: Labels, good: list[str], bad: dict[str, str], total: int, max_bad: float
) -> None:
    """Warn of bad utterances; raise ``UserError`` if they are too many, and say what it looks like."""
    if total == 0:
        raise UserError(f"no utterances of {features.name} to train on or validate with")
    if not bad:
        return
    utt, reason = next(iter(bad.items()))
    text = f"{len(bad)} of {total} utterances of {features.name} cannot be used (first: {utt}: {reason})"
    if good and len(bad) <= max_bad * total:
        log.warning("%s", text)
        return
    raise UserError(
        f"{text}{_frame_shift(features, labels, bad)}. "
        "Make features and labels from the same manifests: run `features` and `align` again"
    )


def _frame_shift(features: FeatureSet, labels: Labels, bad: dict[str, str]) -> str:
    """A sentence, if lengths of features and labels are in one ratio: 1.25 for 12.5 ms, 3 for labels of 30 ms."""
    both = [(features.num_frames(u), len(labels[u])) for u in bad if u in features and u in labels]
    have, want = np.array([pair for pair in both if min(pair)], np.float64).reshape(-1, 2).T
    if not len(have):
        return ""
    ratio = float(np.median(have / want))
    off = np.abs(have - ratio * want) > TOLERANCE * max(1.0, ratio)
    if abs(ratio - 1.0) < 0.02 or off.mean() > 0.1:
        return ""
    return f". Features are {ratio:.3g} x as long as labels: the frame shifts differ"
