"""Speed perturbation (Ko et al. 2015): copies of utterances, resampled so that tempo and pitch change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from asr_parallel.log import UserError

Row = dict[str, Any]  # a cut as its manifest has it


def check_factors(factors: Sequence[float]) -> None:
    """Raise ``UserError`` unless ``factors`` are different and sensible; 1 is there anyway."""
    wrong = [f for f in factors if not 0.5 <= f <= 2.0 or f == 1.0]
    if wrong or len(set(factors)) < len(factors):
        given = " ".join(f"{f:g}" for f in factors)
        raise UserError(f"--speed {given}: give different factors from 0.5 to 2 without 1, such as 0.9 1.1")


def with_speeds(rows: Sequence[Row], factors: Sequence[float]) -> list[Row]:
    """``rows`` and, after them, a copy of each at each speed.

    Copies are what ``lhotse.MonoCut.perturb_speed`` makes, whose ids end in ``_sp0.9``; audio is resampled when it is
    read.  Their speakers get the same ending, as in Kaldi: they are normalised apart, since a voice at another speed
    has another spectrum.
    """
    from lhotse import MonoCut

    result = list(rows)
    for factor in factors:
        for row in rows:
            cut = MonoCut.from_dict(json.loads(json.dumps(row))).perturb_speed(factor, affix_id=True)
            copy = cut.to_dict()
            for supervision in copy["supervisions"]:
                if supervision.get("speaker"):
                    supervision["speaker"] += f"_sp{factor}"
            result.append(copy)
    return result
