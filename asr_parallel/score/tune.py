"""Language model weight and word insertion penalty, chosen on a dev set and on nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from asr_parallel.score.align import LEVENSHTEIN, Costs, align
from asr_parallel.score.pairing import Mode, pair
from asr_parallel.score.references import Reference
from asr_parallel.score.wer import Counts, count, total
from asr_parallel.score.wording import PLAIN, Wording

Point = tuple[int, float]  # (lmwt, wip)
Hypotheses = Mapping[str, Sequence[str]]


def score_grid(
    refs: Mapping[str, Reference],
    grid: Mapping[Point, Hypotheses],
    what: str = "hypotheses",
    mode: Mode = "all",
    costs: Costs = LEVENSHTEIN,
    wording: Wording = PLAIN,
) -> dict[Point, Counts]:
    """Counts of the set at each point.  Most points share most hypotheses: each distinct one is aligned once."""
    known: dict[tuple[str, tuple[str, ...]], Counts] = {}

    def counts(utt: str, hyp: tuple[str, ...]) -> Counts:
        if (utt, hyp) not in known:
            known[utt, hyp] = count(align(refs[utt].words, wording.words(" ".join(hyp), "hyp", utt), costs))
        return known[utt, hyp]

    scores = {}
    for point, hyps in grid.items():
        scored = pair(refs, hyps, mode, what).scored
        scores[point] = total(counts(utt, tuple(hyps.get(utt, ()))) for utt in scored)
    return scores


def choose(scores: Mapping[Point, Counts]) -> Point:
    """Point with the fewest errors; among equals the lmwt nearest to their middle, then the smaller lmwt and wip."""
    fewest = min(c.errors for c in scores.values())
    tied = [point for point, c in scores.items() if c.errors == fewest]
    middle = median(lmwt for lmwt, _ in tied)
    return min(tied, key=lambda p: (abs(p[0] - middle), p[0], p[1]))


def edge_warnings(point: Point, scores: Mapping[Point, Counts]) -> list[str]:
    """A sentence for each of lmwt and wip that was chosen at an edge of the values tried: a wider range may be better.

    No penalty at all (wip 0) is a bound of its own and no reason to warn.
    """
    warnings = []
    for name, axis in (("lmwt", 0), ("wip", 1)):
        tried, chosen = sorted({p[axis] for p in scores}), point[axis]
        if len(tried) > 1 and chosen in (tried[0], tried[-1]) and not (name == "wip" and chosen == 0):
            warnings.append(
                f"the best {name}, {chosen}, is at the edge of the values tried ({tried[0]} to {tried[-1]}): "
                "a wider range may do better"
            )
    return warnings
