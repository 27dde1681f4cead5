"""Verb ``hypotheses``: n-best lists, words of minimum Bayes risk, confidences, CTM, Kaldi's text form of lattices."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from asr_parallel.align.ctc import is_ctc
from asr_parallel.align.hmm import HmmModel
from asr_parallel.config import HypothesesConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.decode.calibration import Curve, fit, normalised_cross_entropy, right_words
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.taken import Point, Taken, Timing, probabilities, take, write_taken
from asr_parallel.decode.word_times import WordTimer
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map
from asr_parallel.score.references import load_cuts, references
from asr_parallel.score.wording import Wording

log = logger(__name__)


def run(config: HypothesesConfig) -> None:
    """Leave ``nbest.tsv``, ``mbr.txt``, ``ctm``, ``lat.txt`` (as asked for) and ``hypotheses.json`` of each set.

    Raises UserError if a set has no lattices or nothing says at which LM weight to read them.
    """
    if config.lmwt < 0 or config.beam <= 0 or config.nbest < 1:
        raise UserError("--lmwt must not be negative, --beam must be positive, --nbest at least 1")
    torch.set_num_threads(1)  # work is spread over processes
    timer = _timer(config) if config.ctm else None
    for name in config.sets:
        _take_set(config, name, timer(name) if timer else None)


def weights(config: HypothesesConfig, name: str) -> tuple[Point, str]:
    """The LM weight and penalty, and the set to calibrate on ('' is none): of the options, or as ``score`` chose."""
    on = "" if config.calibrate == "none" else config.calibrate
    if config.lmwt:
        return (config.lmwt, config.wip), on
    path = config.model / f"decode_{name}" / "score.json"
    try:
        chosen = read_json(path)
        point = float(chosen["lmwt"]), float(chosen["wip"])
        return point, on if config.calibrate else str(chosen["tuned_on"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} does not say which LM weight was chosen: run `score`, or give --lmwt") from None


def _timer(config: HypothesesConfig) -> Callable[[str], Timing]:
    """Times of words by the model that decoded, for a set."""
    if is_ctc(config.model):
        raise UserError(f"{config.model} was trained by CTC, whose labels have no length: give --no_ctm")
    scorer = load_scorer(config.model)
    hmm = HmmModel.load(config.model / "hmm.json")

    def of_set(name: str) -> Timing:
        feats = FeatureSet.open(config.data, name, scorer.kind)
        timer = WordTimer(config.lang, hmm, 1 / weights(config, name)[0][0])
        return lambda utt, words: timer.spans(words, scorer.loglikes(feats[utt]))

    return of_set


def _take_set(config: HypothesesConfig, name: str, times: Timing | None) -> None:
    point, on = weights(config, name)
    curve = fit(*_known(config, on, *_take_all(config, on, point, None))) if on else Curve()
    lattices, taken = _take_all(config, name, point, times)
    where = config.model / f"decode_{name}"
    write_taken(config, where, lattices, taken, curve)
    summary = figures(lattices, taken, curve, times is not None) | {"set": name, "lmwt": point[0], "wip": point[1]}
    summary |= {"calibrated_on": on, "offset": curve.offset, "slope": curve.slope, "nce": None}
    if cuts_path(config.data, name).exists():
        p, right = _known(config, name, lattices, taken)
        nce = normalised_cross_entropy(curve(p), right)
        summary["nce"] = None if math.isnan(nce) else round(nce, 4)
    write_json(where / "hypotheses.json", summary)
    log.info(
        "%s: %d words, mean confidence %.2f; %d utterances without times",
        *(name, summary["words"], summary["confidence"], len(summary["untimed"])),
    )


def _take_all(config: HypothesesConfig, name: str, point: Point, times: Timing | None) -> tuple[Lattices, list[Taken]]:
    """The lattices of a set, and what is taken from each."""
    lattices = Lattices.load(config.model / f"decode_{name}" / "lattices.npz")

    def one(row: int) -> Taken:
        return take(config, lattices, row, point, times)

    gc.collect()
    gc.freeze()  # so that forked processes neither copy nor scan what is here
    rows = range(len(lattices.utts))
    taken = list(parallel_map(one, rows, config.num_jobs(), f"hypotheses {name}", chunk=8))
    gc.unfreeze()
    return lattices, taken


def _known(
    config: HypothesesConfig, name: str, lattices: Lattices, taken: Sequence[Taken]
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the words of a set, and which of them are right."""
    path = cuts_path(config.data, name)
    refs = references(load_cuts(path), Wording())
    if lost := [utt for utt in lattices.utts if utt not in refs]:
        raise UserError(f"{path} lacks {len(lost)} utterances of the lattices, {lost[0]} first")
    return probabilities(taken), right_words([refs[utt].words for utt in lattices.utts], [t.words for t in taken])


def figures(lattices: Lattices, taken: Sequence[Taken], curve: Curve, timed: bool) -> dict[str, Any]:
    """Figures for ``hypotheses.json``; ``expected_wer`` is that of the lattices, in percent of the words taken."""
    risk, sure = sum(t.chosen.risk for t in taken if t.chosen), curve(probabilities(taken))
    utts = list(zip(lattices.utts, taken, strict=True))
    return {
        "utts": len(taken),
        "words": len(sure),
        "expected_wer": round(100 * risk / max(1, len(sure)), 2),
        "confidence": round(float(sure.mean()) if len(sure) else 0.0, 4),
        "without_hypothesis": {u: f for (u, t), f in zip(utts, lattices.flags) if t.chosen is None},
        "narrowed": [u for u, t in utts if t.narrowed],
        "untimed": [u for u, t in utts if timed and t.chosen and t.spans is None],
    }
