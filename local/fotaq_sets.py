"""Which line of the game is in which set of the corpus `fotaq`, and which is in none."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass

from fotaq_reader import Line, Package

from asr_parallel.data.text import normalise

SETS = ("train", "dev_joe", "dev_new", "test_joe", "test_new")
NEW_SPEAKERS = {
    "test_new": {"Henry", "Frank", "Naomi", "Sparky", "Faye", "Jimmy"},
    "dev_new": {"Bud", "Mary-Lou"},
}
JOE_SHARES = (("test_joe", 0.20), ("dev_joe", 0.05))
CRUMBS = re.compile(r"note|path|smoke|narr:.*")  # labels that name no one voice

# How this corpus writes; `asr_parallel.data.text` does the rest.
REPLACEMENTS = (
    (r"<\w+>|\(\w+\)", " "),  # <gulp>, (sigh): sounds
    (r"\^_|@@", " "),  # trade mark sign, heart
    (r"\bIQs\b", "I Q's"),
    (r"\bMs\.", "Miss"),  # as others call her
    (r"\bRrrr+\b", "Grrr"),  # a dog, not a letter
)

# Words that stand for a noise of an animal, a thing or a mouth.  Hesitations and laughs are words: they are said.
SOUND = re.compile(
    r"AHEM|H[AU]CK|KOFF|GULP|UNGH|OOF|PTOOIE|HMPH|TSK|GLUB|BUDDA|BURP|ROAR|RUFF|A?ROOF|WH?OO?F|E+P|EE*AGH|OOT|REEK"
    r"|ROWR|S?Q?[UW]*F?A+[RWUK]*K|A+RGH|Z*AP|GR"
)
# Without a vowel nobody can say it: Sparky gagged, Mary-Lou's cipher.
GAGGED = re.compile(r"\b(?!(HMM|HMPH|TSK|PFFT|PSST|SHH?)\b)[B-DF-HJ-NP-TV-XZ]{3,}\b|^(RH|HVXIVG)$")
BYTES_PER_SECOND = 2000  # all clips are MP3 at 16 kbit/s; only used to choose a subset


@dataclass(frozen=True)
class Spoken:
    """A line that is kept, with its words."""

    line: Line
    words: str

    @property
    def speaker(self) -> str:
        # the blank becomes "_", which sorts behind "-": then ids sort by speaker as well (Kaldi wants it)
        return re.sub(r"[^a-z0-9]+", "_", self.line.character.lower())

    @property
    def id(self) -> str:
        return f"{self.speaker}-{self.line.clip.lower()}"


def fraction(clip: str) -> float:
    """A number in [0, 1) that depends on the clip's name only."""
    return int(hashlib.sha256(clip.encode()).hexdigest()[:8], 16) / 2**32


def set_of(line: Line) -> str:
    """The set that a line belongs to by its speaker or, for JOE, by its clip."""
    if line.character == "JOE":
        edge = 0.0
        for name, share in JOE_SHARES:
            edge += share
            if fraction(line.clip) < edge:
                return name
    return next((name for name, who in NEW_SPEAKERS.items() if line.character in who), "train")


def drop_reason(line: Line, words: str) -> str:
    """Why a line is no utterance; empty if it is one."""
    if CRUMBS.fullmatch(line.character):
        return "label names no voice"
    if GAGGED.search(words) or all(SOUND.fullmatch(w) for w in words.split()):
        return "only a sound"
    return ""


def split(all_lines: list[Line]) -> tuple[dict[str, list[Spoken]], dict[str, Counter[str]]]:
    """The sets, and for each of them how many lines were dropped and why."""
    sets: dict[str, list[Spoken]] = {name: [] for name in SETS}
    dropped: dict[str, Counter[str]] = {name: Counter() for name in SETS}
    for line in all_lines:
        name, words = set_of(line), normalise(line.text, REPLACEMENTS)
        if reason := drop_reason(line, words):
            dropped[name][reason] += 1
        else:
            sets[name].append(Spoken(line, words))
    heard = {s.words for s in sets["train"]}
    for name in SETS[1:]:
        kept: dict[str, Spoken] = {}
        for spoken in sets[name]:
            if spoken.words in heard:
                dropped[name]["text is in train"] += 1
            elif spoken.words in kept:
                dropped[name]["repeats a line of the set"] += 1
            else:
                kept[spoken.words] = spoken
        sets[name] = list(kept.values())
    return sets, dropped


def take(utts: list[Spoken], minutes: float, package: Package) -> list[Spoken]:
    """As many utterances, in the order of their hash, as fill ``minutes``."""
    taken, left = [], 60 * minutes
    for spoken in sorted(utts, key=lambda s: fraction(s.line.clip)):
        left -= len(package[f"{spoken.line.clip}.SB"]) / BYTES_PER_SECOND
        if left < 0:
            break
        taken.append(spoken)
    return taken


def limit(sets: dict[str, list[Spoken]], package: Package, train: float, other: float) -> dict[str, list[Spoken]]:
    """A subset for quick runs, at most so many minutes a set (0 means all); JOE has three quarters of train."""
    limited = {n: take(utts, other, package) if other else utts for n, utts in sets.items()}
    limited["train"] = sets["train"]
    if train:
        joe = [s for s in sets["train"] if s.speaker == "joe"]
        rest = [s for s in sets["train"] if s.speaker != "joe"]
        limited["train"] = take(joe, train * 0.75, package) + take(rest, train * 0.25, package)
    return limited
