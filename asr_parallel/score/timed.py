"""NIST's time-marked files: STM (segments with their texts) and CTM (words), and which words a segment gets.

As in sclite a word belongs to the first segment of its file and channel that ends after the middle of the word, and
what comes after the last segment to that: no word of a hypothesis is lost, but those in segments to be ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.log import UserError
from asr_parallel.score.lines import numbered
from asr_parallel.score.transcripts import UNKNOWN, Utterance, unique

IGNORE = "IGNORE_TIME_SEGMENT_IN_SCORING"
_LABEL = re.compile(r";;\s*LABEL\s+\"([^\"]+)\"")
_ALTERNATES = {"<ALT_BEGIN>": "{", "<ALT>": "/", "<ALT_END>": "}"}

Channel = tuple[str, str]  # (file, channel)


@dataclass(frozen=True)
class Segment:
    """A line of an STM file; times in seconds."""

    channel: Channel
    spk: str
    begin: float
    end: float
    labels: tuple[str, ...]
    text: str
    where: str

    @property
    def utt(self) -> str:
        """An id, which STM does not have: speaker, file, channel, times in ms."""
        return f"{self.spk}-{'-'.join(self.channel)}-{1000 * self.begin:08.0f}-{1000 * self.end:08.0f}"

    @property
    def ignored(self) -> bool:
        return self.text.strip() == IGNORE


@dataclass(frozen=True)
class Token:
    """A word of a CTM file, or a whole choice in braces; ``middle`` is the latest of its words'."""

    text: str
    begin: float
    middle: float
    where: str


def read_stm(path: Path) -> list[Segment]:
    """Segments in the order of the file.  UserError names the line of what is none.

    ``<a,b>`` before the text are labels; a single ``<a>`` only if a ``;; LABEL`` line has it, else it is a word.
    """
    found = []
    for segment in stm_lines(path):
        if isinstance(segment, UserError):
            raise segment
        found.append(segment)
    return found


def stm_lines(path: Path) -> Iterator[Segment | UserError]:
    """Segments, or what is wrong with a line that is none; see ``read_stm``."""
    lines = list(numbered(path))
    labels = {found[1] for _, line in lines if (found := _LABEL.match(line))}
    for where, line in lines:
        if not line.startswith(";;"):
            try:
                yield _segment(line, where, labels)
            except UserError as error:
                yield error


def _segment(line: str, where: str, known: set[str]) -> Segment:
    try:
        file, channel, spk, begin, end, *rest = line.split(maxsplit=5)
        times = float(begin), float(end)
        if not 0 <= times[0] <= times[1]:
            raise ValueError(f"times {begin} {end}")
    except ValueError as e:
        raise UserError(f"{where}: want `FILE CHANNEL SPK BEGIN END [<LABEL,...>] WORDS` ({e})") from None
    text = "".join(rest)
    first, *after = text.split(maxsplit=1) or [""]
    labels: tuple[str, ...] = ()
    if first.startswith("<") and first.endswith(">") and ("," in first or first[1:-1] in known):
        labels, text = tuple(first[1:-1].split(",")), "".join(after)
    return Segment((file, channel), spk, *times, labels, text, where)


def segments_as_utterances(path: Path, segments: Sequence[Segment]) -> dict[str, Utterance]:
    """By id, without those to be ignored."""
    return unique(path, ((s.utt, _utterance(s)) for s in segments if not s.ignored))


def _utterance(s: Segment) -> Utterance:
    return Utterance(s.text, s.where, s.spk, s.end - s.begin, s.labels)


def read_ctm(path: Path) -> dict[Channel, list[Token]]:
    """Words of each file and channel by the time at which they begin.  UserError names the line of what is no word."""
    found: dict[Channel, list[Token]] = {}
    for channel, token in _tokens(path):
        found.setdefault(channel, []).append(token)
    return {channel: sorted(tokens, key=lambda t: t.begin) for channel, tokens in found.items()}


def _tokens(path: Path) -> Iterator[tuple[Channel, Token]]:
    """Words one by one, those from ``<ALT_BEGIN>`` to ``<ALT_END>`` as one."""
    choice: list[tuple[str, float, float]] = []
    for where, line in numbered(path):
        if line.startswith(";;"):
            continue
        channel, word, begin, middle = _word(line, where)
        if mark := _ALTERNATES.get(word):
            if (mark == "{") == bool(choice):
                raise UserError(f"{where}: {word} {'within' if choice else 'outside of'} <ALT_BEGIN> ... <ALT_END>")
            begin, middle = float("inf"), 0.0
        if not (mark or choice):
            yield channel, Token(word, begin, middle, where)
            continue
        choice.append((mark or word, begin, middle))
        if mark == "}":
            words, begins, middles = zip(*choice)
            yield channel, Token(" ".join(words), min(begins), max(middles), where)
            choice = []
    if choice:
        raise UserError(f"{path}: <ALT_BEGIN> without <ALT_END> at its end")


def _word(line: str, where: str) -> tuple[Channel, str, float, float]:
    try:
        file, channel, begin, length, word, *_ = line.split()
        if word in _ALTERNATES:
            return (file, channel), word, 0.0, 0.0
        middle = float(begin) + float(length) / 2
        if not math.isfinite(middle):
            raise ValueError(f"times {begin} {length}")
        return (file, channel), word, float(begin), middle
    except ValueError as e:
        raise UserError(f"{where}: want `FILE CHANNEL BEGIN SECONDS WORD [CONFIDENCE]` ({e})") from None


def into_segments(segments: Sequence[Segment], ctm: Mapping[Channel, Sequence[Token]]) -> dict[str, Utterance]:
    """What each segment has of the words; a channel without any word or without segments keeps its own or none."""
    by_channel: dict[Channel, list[Segment]] = {}
    for s in sorted(segments, key=lambda s: s.begin):
        by_channel.setdefault(s.channel, []).append(s)
    hyps: dict[str, Utterance] = {}
    for channel, tokens in ctm.items():
        if channel not in by_channel:
            hyps["-".join(channel)] = _joined(tokens)
            continue
        parts = _cut(by_channel[channel], tokens)
        hyps |= {s.utt: _joined(p) for s, p in zip(by_channel[channel], parts) if not s.ignored}
    return hyps


def _cut(segments: Sequence[Segment], tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[] for _ in segments]
    at = 0
    for token in tokens:
        while at + 1 < len(segments) and token.middle >= segments[at].end:
            at += 1
        parts[at].append(token)
    return parts


def _joined(tokens: Sequence[Token]) -> Utterance:
    return Utterance(" ".join(t.text for t in tokens), tokens[0].where if tokens else "CTM")


def by_file(path: Path, ctm: Mapping[Channel, Sequence[Token]]) -> dict[str, Utterance]:
    """All words of a file as one utterance with its name for an id.  UserError if a file has two channels."""
    files = [file for file, _ in ctm]
    if len(set(files)) < len(files):
        two = next(file for i, file in enumerate(files) if file in files[:i])
        raise UserError(
            f"{path}: {two} has several channels, which the ids of the references do not: they must be an STM"
        )
    return unique(path, ((file, _joined(tokens)) for (file, _), tokens in ctm.items()))


def stm_line(utt: str, spk: str, seconds: float, text: str) -> str:
    """An utterance as a segment of a file of its own, which is how CTM of the verb ``hypotheses`` is timed."""
    return f"{utt} 1 {spk or UNKNOWN} 0.00 {seconds:.2f} {text}".rstrip() + "\n"
