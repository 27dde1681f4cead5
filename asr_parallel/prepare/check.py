"""What can be used of what a reader gives: ids, words, channel and times of each utterance, mended or refused."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from asr_parallel.config import PrepareConfig
from asr_parallel.data.audio import Audio
from asr_parallel.data.text import normalise, single_blanks, upper
from asr_parallel.prepare.item import TO_THE_END, Fault, Item

SHORTEST = 0.025  # seconds, a window of the features
OVERSHOOT = 0.5  # seconds that an end may lie behind the end of the file, as in Kaldi's extract-segments
WORDS = {"english": normalise, "upper": upper, "keep": single_blanks}
ONE_SPEAKER = "speaker"


class Refused(Exception):
    """Kind and detail of what is wrong with an utterance."""


class Checker:
    """Takes utterances one by one; ``kept``, ``dropped`` and ``mended`` tell what became of them.

    ``audio`` has the header of each file, or what is wrong with it.
    """

    def __init__(self, config: PrepareConfig, audio: Mapping[Path, Audio | str]):
        self.config, self.audio = config, audio
        self.kept: dict[str, Item] = {}
        self.dropped: list[Fault] = []
        self.mended: list[Fault] = []

    def add(self, item: Item | Fault) -> None:
        if isinstance(item, Fault):
            self.dropped.append(item)
            return
        mends: list[tuple[str, str]] = []
        try:
            named = self._named(item, mends)
            good = self._timed(self._worded(named, mends), mends)
            if before := self.kept.get(good.utt):
                raise Refused("id twice", f"{before.where} has the same id")
        except Refused as error:
            self.dropped.append(Fault(item.utt, item.where, *error.args))
            return
        self.kept[good.utt] = good
        self.mended += [Fault(good.utt, item.where, kind, detail) for kind, detail in mends]

    def _named(self, item: Item, mends: list[tuple[str, str]]) -> Item:
        """The id begins with the speaker, so that both sort alike; neither has blanks."""
        utt = clean_id(item.utt)
        if not utt:
            raise Refused("no id")
        if utt != item.utt:
            mends.append(("id changed", f"{item.utt!r} is {utt} now"))
        told = {"folder": item.audio.parent.name, "one": ONE_SPEAKER, "utt": utt}.get(self.config.speaker, item.speaker)
        speaker = clean_id(told) or utt
        return replace(item, utt=utt if utt.startswith(speaker) else f"{speaker}-{utt}", speaker=speaker)

    def _worded(self, item: Item, mends: list[tuple[str, str]]) -> Item:
        text = item.text.strip(" \t\r\n")
        if odd := sorted({f"U+{ord(c):04X}" for c in text if c != " " and (c.isspace() or _invisible(c))}):
            mends.append(("odd blanks", f"{' '.join(odd)} in {text!a}"))
        words = WORDS[self.config.text](text)
        if not words:
            raise Refused("no words", f"the text is {text!r}" + (f" (--text {self.config.text})" if text else ""))
        return replace(item, text=words)

    def _timed(self, item: Item, mends: list[tuple[str, str]]) -> Item:
        """Start, end and channel are within the file."""
        audio = self.audio[item.audio]
        if isinstance(audio, str):
            raise Refused("unusable audio", f"{item.audio} {audio}")
        if item.end == TO_THE_END and audio.lost:
            raise Refused("unusable audio", f"{item.audio} {audio.lost}")
        end = audio.seconds if item.end == TO_THE_END else item.end
        span = f"{item.start:g} to {end:g} s of {item.audio}, which has {audio.seconds:g} s"
        if audio.seconds < end <= audio.seconds + OVERSHOOT:
            mends.append(("end cut", span))
            end = audio.seconds
        if not 0 <= item.start < end <= audio.seconds:
            raise Refused("impossible times", span)
        if end - item.start < SHORTEST:
            raise Refused("too short", f"{span}; a window has {SHORTEST:g} s")
        if self.config.max_seconds and end - item.start > self.config.max_seconds:
            raise Refused("too long", f"{span}; give times of its sentences, or raise --max_seconds")
        return replace(item, end=end, channel=self._channel(item, audio))

    def _channel(self, item: Item, audio: Audio) -> int:
        channel = item.channel
        if channel is None:
            channel = self.config.channel if audio.channels > 1 else 0
        if channel is None:
            what = f"{item.audio} has {audio.channels} and nothing says which: give --channel, from 0"
            raise Refused("several channels", what)
        if not 0 <= channel < audio.channels:
            what = f"{item.audio} has {audio.channels}, {channel} is asked for (the first is 0)"
            raise Refused("no such channel", what)
        return channel


def clean_id(name: str) -> str:
    """A name without blanks, slashes and invisible characters: it becomes a part of lines and of names of files."""
    return re.sub(r"[\s/\\]+", "_", "".join(c for c in name.strip() if not _invisible(c)))


def _invisible(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cf")
