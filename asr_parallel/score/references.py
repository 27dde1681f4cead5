"""What was said and what was heard, as words that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.log import UserError
from asr_parallel.score.network import Words
from asr_parallel.score.transcripts import UNKNOWN, Utterance, read
from asr_parallel.score.wording import Wording


@dataclass(frozen=True)
class Reference:
    """What was said in an utterance, and by whom; ``labels`` are the subsets that it belongs to."""

    spk: str
    words: Words
    labels: tuple[str, ...] = ()


def references(
    utterances: Mapping[str, Utterance], wording: Wording, speakers: Mapping[str, str] | None = None
) -> dict[str, Reference]:
    """References by id.  UserError if there are ``speakers`` (utt2spk) but one is not among them."""
    refs = {}
    for utt, u in utterances.items():
        if speakers is not None and utt not in speakers:
            raise UserError(f"{u.where}: {utt} has no speaker in utt2spk; add it there, or give another --utt2spk")
        spk = speakers[utt] if speakers is not None else u.spk
        refs[utt] = Reference(spk or UNKNOWN, wording.words(u.text, "ref", u.where), u.labels)
    return refs


def hypotheses(utterances: Mapping[str, Utterance], wording: Wording) -> dict[str, Words]:
    """Words of each hypothesis by id."""
    return {utt: wording.words(u.text, "hyp", u.where) for utt, u in utterances.items()}


def load_cuts(path: Path) -> dict[str, Utterance]:
    """Texts of the cuts of a set by id.  UserError names file and line of what is no cut with one supervision."""
    if not path.exists():
        raise UserError(f"{path}: no such file; the references are read from it. Run stage `prepare` first")
    return read(path, "jsonl")
