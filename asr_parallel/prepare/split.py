"""Which utterance goes to which set: as the corpus says, or drawn so that no speaker is in two sets."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from asr_parallel.log import UserError
from asr_parallel.prepare.item import SETS

if TYPE_CHECKING:
    from asr_parallel.data.manifests import Utt


def split(
    utts: Sequence[Utt], given: Mapping[str, str], shares: Mapping[str, float], seed: int
) -> tuple[dict[str, str], str]:
    """``{utt: set}``, and in words how it came about.

    ``given`` has the sets that the corpus tells of.  Of ``dev`` and ``test`` those that it has not are drawn out of
    the rest, ``shares`` of its seconds each: whole speakers, in an order that only ``seed`` and their names decide.
    Where there are too few speakers for that, utterances are drawn.
    """
    sets = {utt.id: given.get(utt.id) or SETS[0] for utt in utts}
    drawn = [name for name in ("test", "dev") if shares[name] > 0 and name not in sets.values()]
    pool = [utt for utt in utts if sets[utt.id] == SETS[0]]
    if not pool:
        raise UserError(f"no utterance is left for train: all are in {', '.join(sorted(set(sets.values())))}")
    if not drawn:
        return sets, "sets as the corpus has them"
    by_speaker = len({utt.speaker for utt in pool}) > len(drawn)
    groups = defaultdict[str, list[str]](list)
    seconds = defaultdict[str, float](float)
    for utt in pool:
        group = utt.speaker if by_speaker else utt.id
        groups[group].append(utt.id)
        seconds[group] += utt.duration
    if len(groups) <= len(drawn):
        raise UserError(f"{len(pool)} utterances are too few to draw {' and '.join(drawn)} and leave some for train")
    total = sum(seconds.values())
    for others, name in zip(range(len(drawn), 0, -1), drawn):
        for group in choose(seconds, shares[name] * total, len(seconds) - others, seed):
            del seconds[group]
            sets.update(dict.fromkeys(groups[group], name))
    how = "by speaker" if by_speaker else "by utterance, for speakers are too few: all sets have the same voices"
    return sets, f"{' and '.join(drawn)} drawn {how}"


def choose(seconds: Mapping[str, float], wanted: float, most: int, seed: int) -> list[str]:
    """Names of groups that together have about ``wanted`` seconds, at least one of them and ``most`` at most."""
    found, have = list[str](), 0.0
    for name in sorted(seconds, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        if len(found) < most and seconds[name] <= 2 * (wanted - have):  # nearer with it than without
            found.append(name)
            have += seconds[name]
    return found or [min(seconds, key=lambda name: (seconds[name], name))]
