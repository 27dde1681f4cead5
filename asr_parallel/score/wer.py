"""Word, character and sentence error rates of a set: sums of errors over sums of reference words.

Insertions against an empty reference count, and without any reference word there is no rate (``nan``, or ``inf`` if
there are errors).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from asr_parallel.log import UserError
from asr_parallel.score.align import LEVENSHTEIN, Costs, Pair, TooLong, align
from asr_parallel.score.network import Words, letters
from asr_parallel.score.pairing import Mode, pair
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
    """One utterance: who, how the words were aligned, what that counts.

    ``chars`` counts characters in the place of words; None if they are too many, or were not looked at.
    """

    utt: str
    spk: str
    pairs: list[Pair]
    counts: Counts
    chars: Counts | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetScore:
    """All utterances that were scored, in the order of the references.

    ``missing`` had no hypothesis: they count as all deleted, or are left out (``pairing.py``).  ``extra`` had no
    reference and are left out.
    """

    utts: list[UttScore]
    missing: list[str]
    extra: list[str] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        return total(u.counts for u in self.utts)

    @property
    def chars(self) -> Counts | None:
        """Characters in the place of words; a sentence is wrong if a character is.  None if an utterance has None."""
        parts = [u.chars for u in self.utts if u.chars]
        return total(parts) if len(parts) == len(self.utts) else None

    def speakers(self) -> dict[str, Counts]:
        """Counts of each speaker, sorted by name."""
        return _grouped((u.spk, u.counts) for u in self.utts)

    def subsets(self) -> dict[str, Counts]:
        """Counts of each label, sorted by name; an utterance may have several."""
        return _grouped((label, u.counts) for u in self.utts for label in u.labels)


def _grouped(pairs: Iterable[tuple[str, Counts]]) -> dict[str, Counts]:
    parts: dict[str, list[Counts]] = {}
    for name, counts in pairs:
        parts.setdefault(name, []).append(counts)
    return {name: total(parts[name]) for name in sorted(parts)}


def score_set(
    refs: Mapping[str, Reference],
    hyps: Mapping[str, Words],
    what: str = "hypotheses",
    mode: Mode = "all",
    costs: Costs = LEVENSHTEIN,
) -> SetScore:
    """Align every reference that ``mode`` wants scored.  ``what`` names the hypotheses in errors."""
    pairing = pair(refs, hyps, mode, what)
    utts = [_score(utt, refs[utt], hyps.get(utt, ()), costs) for utt in pairing.scored]
    return SetScore(utts, pairing.missing, pairing.extra)


def _score(utt: str, ref: Reference, hyp: Words, costs: Costs) -> UttScore:
    try:
        pairs = align(ref.words, hyp, costs)
    except TooLong as e:
        raise UserError(f"{utt}: {e}; cut it into segments") from None
    try:
        chars = count(align(letters(ref.words), letters(hyp), costs))
    except TooLong:
        chars = None
    return UttScore(utt, ref.spk, pairs, count(pairs), chars, ref.labels)


def kaldi_line(c: Counts, missing: int = 0) -> str:
    """``%WER 28.41 [ 1234 / 4343, 120 ins, 300 del, 814 sub ]`` as Kaldi's compute-wer prints it."""
    partial = " [PARTIAL]" if missing else ""
    return f"%WER {c.wer:.2f} [ {c.errors} / {c.words}, {c.ins} ins, {c.dels} del, {c.subs} sub ]{partial}"


def kaldi_report(c: Counts, missing: int = 0) -> str:
    """The three lines of ``compute-wer``."""
    return (
        f"{kaldi_line(c, missing)}\n%SER {c.ser:.2f} [ {c.wrong} / {c.sents} ]\n"
        f"Scored {c.sents} sentences, {missing} not present in hyp.\n"
    )
