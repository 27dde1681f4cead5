"""Word error rate of a set: errors of all utterances over reference words of all utterances.

Nothing is left out: an utterance without hypothesis is scored as all deleted and listed, insertions against an
empty reference count, and without any reference word there is no rate (``nan``, or ``inf`` if there are errors).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from asr_parallel.log import UserError
from asr_parallel.score.align import Pair, align
from asr_parallel.score.references import Reference


@dataclass(frozen=True)
class Counts:
    """Reference words, errors of each kind, sentences, and sentences with an error."""

    words: int = 0
    ins: int = 0
    dels: int = 0
    subs: int = 0
    sents: int = 0
    wrong: int = 0

    @property
    def errors(self) -> int:
        return self.ins + self.dels + self.subs

    @property
    def wer(self) -> float:
        """Word error rate in percent; may exceed 100; nan or inf without reference words."""
        return _percent(self.errors, self.words)

    @property
    def ser(self) -> float:
        """Sentences with an error, in percent; nan without sentences."""
        return _percent(self.wrong, self.sents)


def _percent(part: int, whole: int) -> float:
    if whole:
        return 100.0 * part / whole
    return math.inf if part else math.nan


def count(pairs: Sequence[Pair]) -> Counts:
    """Counts of one aligned utterance."""
    ins = sum(ref is None for ref, _ in pairs)
    dels = sum(hyp is None for _, hyp in pairs)
    subs = sum(ref != hyp for ref, hyp in pairs) - ins - dels
    return Counts(len(pairs) - ins, ins, dels, subs, 1, int(ins + dels + subs > 0))


def total(counts: Iterable[Counts]) -> Counts:
    """Sum of counts."""
    rows = [(c.words, c.ins, c.dels, c.subs, c.sents, c.wrong) for c in counts]
    return Counts(*(sum(column) for column in zip(*rows)))


@dataclass(frozen=True)
class UttScore:
    """One utterance: who, how the words were aligned, what that counts."""

    utt: str
    spk: str
    pairs: list[Pair]
    counts: Counts


@dataclass(frozen=True)
class SetScore:
    """All utterances of a set in the order of the references; ``missing`` had no hypothesis (all deleted)."""

    utts: list[UttScore]
    missing: list[str]

    @property
    def counts(self) -> Counts:
        return total(u.counts for u in self.utts)

    def speakers(self) -> dict[str, Counts]:
        """Counts of each speaker, sorted by name."""
        parts: dict[str, list[Counts]] = {}
        for u in self.utts:
            parts.setdefault(u.spk, []).append(u.counts)
        return {spk: total(parts[spk]) for spk in sorted(parts)}


def check_ids(refs: Mapping[str, Reference], hyps: Mapping[str, Sequence[str]], what: str = "hypotheses") -> list[str]:
    """Ids without hypothesis.  UserError if there are hypotheses without reference, or none with."""
    extra = [utt for utt in hyps if utt not in refs]
    if extra:
        raise UserError(
            f"{what}: {len(extra)} of {len(hyps)} utterances have no reference, e.g. {', '.join(extra[:3])}. "
            "Were they decoded from another set or another version of it? Decode again, or restore the cuts"
        )
    missing = [utt for utt in refs if utt not in hyps]
    if len(missing) == len(refs):
        raise UserError(f"{what}: none of the {len(refs)} reference utterances has a hypothesis; decode first")
    return missing


def score_set(refs: Mapping[str, Reference], hyps: Mapping[str, Sequence[str]], what: str = "hypotheses") -> SetScore:
    """Align every reference; a missing hypothesis is an empty one.  ``what`` names the hypotheses in errors."""
    missing = check_ids(refs, hyps, what)
    utts = []
    for utt, ref in refs.items():
        pairs = align(ref.words, hyps.get(utt, ()))
        utts.append(UttScore(utt, ref.spk, pairs, count(pairs)))
    return SetScore(utts, missing)


def kaldi_line(c: Counts, missing: int = 0) -> str:
    """``%WER 28.41 [ 1234 / 4343, 120 ins, 300 del, 814 sub ]`` as Kaldi's compute-wer prints it."""
    partial = " [PARTIAL]" if missing else ""
    return f"%WER {c.wer:.2f} [ {c.errors} / {c.words}, {c.ins} ins, {c.dels} del, {c.subs} sub ]{partial}"


def kaldi_report(c: Counts, missing: int = 0) -> str:
    """The three lines of ``compute-wer --mode=all``, which treats absent hypotheses as empty."""
    return (
        f"{kaldi_line(c, missing)}\n%SER {c.ser:.2f} [ {c.wrong} / {c.sents} ]\n"
        f"Scored {c.sents} sentences, {missing} not present in hyp.\n"
    )
