"""The files that tell where the errors are: by speaker, by utterance, by word."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from asr_parallel.score.align import Pair
from asr_parallel.score.wer import Counts, SetScore, UttScore

GAP = "<eps>"  # stands where the other side has no word, as in Kaldi's align-text


def per_spk(score: SetScore) -> str:
    """Columns of sclite's summary, as counts and percentages; one row a speaker and the sum."""
    return _per_group("spk", score.speakers(), score.counts)


def per_subset(score: SetScore) -> str:
    """The same for the labels of segments; an utterance counts in each of its subsets, and once in the sum."""
    return _per_group("subset", score.subsets(), score.counts)


def _per_group(what: str, groups: Mapping[str, Counts], sum_of_all: Counts) -> str:
    kinds = ["corr", "sub", "del", "ins", "err"]
    head = [what, "sents", "words", *kinds, "s.err", *(f"{k}%" for k in kinds), "s.err%"]
    rows = [*groups.items(), ("SUM", sum_of_all)]
    return "\n".join(["\t".join(head)] + ["\t".join([name, *_group_fields(c)]) for name, c in rows]) + "\n"


def _group_fields(c: Counts) -> list[str]:
    kinds = (c.words - c.subs - c.dels, c.subs, c.dels, c.ins, c.errors)
    shares = [f"{100 * k / c.words:.1f}" if c.words else "nan" for k in kinds]
    return [str(n) for n in (c.sents, c.words, *kinds, c.wrong)] + [*shares, f"{c.ser:.1f}"]


def per_utt_table(score: SetScore) -> str:
    """Counts of each utterance, for other programs: what paired comparisons read."""
    rows = ["utt\tspk\twords\tins\tdel\tsub"]
    for u in score.utts:
        c = u.counts
        rows.append(f"{u.utt}\t{u.spk}\t{c.words}\t{c.ins}\t{c.dels}\t{c.subs}")
    return "\n".join(rows) + "\n"


def per_utt(utts: Iterable[UttScore]) -> str:
    """Kaldi's ``per_utt``: four lines an utterance (ref, hyp, op, #csid), words one below the other."""
    return "".join(_utt_lines(u) for u in utts)


def _utt_lines(u: UttScore) -> str:
    columns = [(ref or GAP, hyp or GAP, operation((ref, hyp))) for ref, hyp in u.pairs]
    wide = [max(_width(cell) for cell in column) for column in columns]
    lines = []
    for row, name in enumerate(("ref ", "hyp ", "op  ")):
        cells = [_centred(column[row], width) for column, width in zip(columns, wide)]
        lines.append(f"{u.utt} {name} {'  '.join(cells)}".rstrip())
    c = u.counts
    lines.append(f"{u.utt} #csid {c.words - c.subs - c.dels} {c.subs} {c.ins} {c.dels}")
    return "\n".join(lines) + "\n"


def operation(pair: Pair) -> str:
    """``C`` correct, ``S`` substituted, ``D`` deleted or ``I`` inserted."""
    ref, hyp = pair
    if ref is None:
        return "I"
    if hyp is None:
        return "D"
    return "C" if ref == hyp else "S"


def _width(text: str) -> int:
    """Columns of a terminal that ``text`` takes: wide characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _centred(text: str, width: int) -> str:
    free = width - _width(text)
    return " " * (free - free // 2) + text + " " * (free // 2)


def confused(score: SetScore) -> dict[str, list[tuple[Pair, int]]]:
    """Of each kind of error, ``sub``, ``del`` and ``ins``, the pairs and how often each came, most frequent first."""
    pairs = Counter(pair for u in score.utts for pair in u.pairs if pair[0] != pair[1])
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))
    return {
        "sub": [(pair, n) for pair, n in ranked if None not in pair],
        "del": [(pair, n) for pair, n in ranked if pair[1] is None],
        "ins": [(pair, n) for pair, n in ranked if pair[0] is None],
    }


def confusions(score: SetScore) -> str:
    """Substituted pairs, deleted and inserted words, most frequent first: ``COUNT REF HYP`` a line."""
    titles = {"sub": "substitutions (reference > hypothesis)", "del": "deletions", "ins": "insertions"}
    blocks = []
    for kind, found in confused(score).items():
        lines = [f"{n:6d} {' > '.join(word for word in pair if word)}" for pair, n in found]
        head = f"# {titles[kind]}: {sum(n for _, n in found)} in {len(found)} kinds"
        blocks.append("\n".join([head, *lines]) + "\n")
    return "\n".join(blocks)


def trn(score: SetScore, side: Literal[0, 1]) -> str:
    """References (0) or hypotheses (1) for ``sclite -i spu_id -s -e utf-8``: the words as they were compared.

    sclite takes what stands before the first ``-`` of an id for the speaker.
    """
    lines = []
    for u in score.utts:
        spk = u.spk.replace("-", "_")
        utt = u.utt if u.utt.startswith(f"{spk}-") else f"{spk}-{u.utt}"
        words = [word for pair in u.pairs if (word := pair[side]) is not None]
        lines.append(" ".join([*words, f"({utt})"]) + "\n")
    return "".join(lines)
