"""Test sets of conversational telephone speech as NIST gave them out: Hub5'00, Hub5'01, RT-03.

Audio is one two-channel SPHERE file a call, references are STM files: who says what, when, in which channel.
A set is split by the kind of its calls, which their names tell: ``sw_4390`` Switchboard, ``en_4156`` CallHome,
``fsh_60262`` Fisher.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from swbd_calls import Bad, Call
from swbd_train import checked, fraction

from asr_parallel.data.manifests import Utt
from asr_parallel.files import write_text
from asr_parallel.log import UserError, logger
from asr_parallel.score.lines import numbered
from asr_parallel.score.timed import IGNORE, Segment, read_stm

log = logger("asr_parallel.hub5")

PARTS = {"sw": "swb", "en": "ch", "fsh": "fsh"}  # how names of calls begin, and what we call these parts
SIDES = {"A": "A", "1": "A", "B": "B", "2": "B"}  # RT-03 numbers its channels
PAD = 0.1  # seconds that are decoded before and after a segment, as in Kaldi's recipe: they are cut very close


def split_stm(paths: Iterable[Path], test: str, out: Path, minutes: float) -> dict[str, Path]:
    """Write ``OUT/TEST_PART/ref.stm`` of each part, at most ``minutes`` (0: all); {name of set: its STM}.

    Mended is what stops sclite in the files as they are: ``((``, ``<b_aside>``, ``<e_aside>``.  Texts get upper case.
    STM files of other calls (broadcast news) are passed over.
    """
    parts: dict[str, list[str]] = {}
    labels: list[str] = []
    for path in paths:
        for where, line in numbered(path):
            if line.startswith(";;"):
                labels += [line.rstrip("\r\n")] if "LABEL" in line or "CATEGORY" in line else []
            elif part := PARTS.get(line.split("_")[0].lower()):
                parts.setdefault(f"{test}_{part}", []).append(mended(line, where))
            else:
                log.info("%s: is not of telephone calls; passed over", path)
                break
    for name, lines in parts.items():
        write_text(
            out / name / "ref.stm", "".join(f"{line}\n" for line in [*dict.fromkeys(labels), *fewer(lines, minutes)])
        )
    return {name: out / name / "ref.stm" for name in sorted(parts)}


def fewer(lines: list[str], minutes: float) -> list[str]:
    """As many segments, in the order of a hash, as fill ``minutes`` (0: all lines)."""
    if not minutes:
        return lines
    kept, left = set[str](), 60 * minutes
    for line in sorted((line for line in lines if IGNORE not in line), key=fraction):
        begin, end = map(float, line.split()[3:5])
        left -= end - begin
        if left < 0:
            break
        kept.add(line)
    return [line for line in lines if line in kept]


def mended(line: str, where: str) -> str:
    """A line of an STM with A or B for its channel and a text that sclite can read."""
    call, channel, *rest = line.split(maxsplit=5)
    if channel not in SIDES or len(rest) < 3:
        raise UserError(f"{where}: want `CALL CHANNEL SPK BEGIN END <LABEL,...> WORDS`, channel A or B (1 or 2)")
    text = " ".join(rest[3:]).replace("((", "(").replace("))", ")")
    text = re.sub(r"<[be]_aside>", " ", text, flags=re.IGNORECASE)
    label, words = re.match(r"(<\S*>)?(.*)", text.strip()).groups(default="")  # type: ignore[union-attr]
    return " ".join([call.lower(), SIDES[channel], *rest[:3], label, *words.upper().split()]).replace("  ", " ")


def read_set(stm: Path, calls: Mapping[str, Call | str]) -> list[Utt | Bad]:
    """Utterances of a set: the segments that are scored, each with ``PAD`` around it but not into its neighbours'."""
    sides: dict[tuple[str, str], list[Segment]] = {}
    for segment in read_stm(stm):
        if not segment.ignored:
            sides.setdefault(segment.channel, []).append(segment)
    found: list[Utt | Bad] = []
    for (name, side), segments in sorted(sides.items()):
        segments.sort(key=lambda s: s.begin)
        for before, s, after in zip([None, *segments], segments, [*segments[1:], None]):
            begin = max(s.begin - PAD, (before.end + s.begin) / 2 if before else 0.0, 0.0)
            end = min(s.end + PAD, (s.end + after.begin) / 2 if after else s.end + PAD)
            if text := " ".join(s.text.split()):
                found.append(checked(calls[name], side, min(begin, s.begin), max(end, s.end), text, s.where))
            else:
                found.append(Bad(s.where, "no words in the reference"))
    return found
