"""NIST's STM: lines ``FILE CHANNEL SPEAKER BEGIN END [<LABELS>] WORDS`` about long recordings, in files ``*.stm``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from asr_parallel.files import files_under
from asr_parallel.prepare.item import NOT_MEANT, AudioFinder, Fault, Item, folders, set_of
from asr_parallel.score.timed import Segment, stm_lines

CHANNELS = {"1": 0, "a": 0, "2": 1, "b": 1}
GAP = "inter_segment_gap"  # TED-LIUM's mark of what nobody says


def claims(source: Path) -> bool:
    return bool(files_under(source, [".stm"]))


def read(source: Path) -> Iterator[Item | Fault]:
    """Segments that are said and scored.  A channel 1 of a mono file is that file."""
    for path in files_under(source, [".stm"]):
        find = AudioFinder(source, path.parent)
        for segment in stm_lines(path):
            if isinstance(segment, Segment):
                yield _item(segment, find, set_of(*folders(path, source), path.name))
            else:
                where, _, why = str(segment).partition(": ")
                yield Fault("", where, "not a line", why)


def _item(segment: Segment, find: AudioFinder, of_set: str) -> Item | Fault:
    file, name = segment.channel
    if segment.ignored or segment.spk == GAP:
        return Fault(segment.utt, segment.where, NOT_MEANT, segment.text.strip())
    channel = CHANNELS.get(name.casefold())
    if channel is None:
        return Fault(segment.utt, segment.where, "no such channel", f"channel '{name}' is none of 1, 2, A and B")
    times = (segment.begin, segment.end)
    return Item(segment.utt, find(file), segment.text, segment.where, segment.spk, *times, channel, of_set, file)
