"""What is taken out of the lattice of each utterance, and the files that it is written to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from asr_parallel.config import HypothesesConfig
from asr_parallel.data.frontend import SHIFT
from asr_parallel.decode.calibration import Curve
from asr_parallel.decode.determinise import determinise
from asr_parallel.decode.kaldi_text import write_hypotheses, write_kaldi
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.decode.mbr import Judged, confidences, minimum_bayes_risk
from asr_parallel.decode.nbest import Hypothesis, n_best
from asr_parallel.decode.word_times import Span
from asr_parallel.files import write_text
from asr_parallel.lang.lexicon import read_symbols
from asr_parallel.lang.pieces import join, joined

Point = tuple[float, float]  # LM weight and word insertion penalty
Timing = Callable[[str, Sequence[str]], list[Span] | None]  # of an utterance and its words


@dataclass(frozen=True)
class Taken:
    """What an utterance gave: ``words`` are those of ``chosen``, by MBR or of the best path, joined if it has pieces.

    ``lattice`` is determinised, within a beam that was ``narrowed`` if it grew too large.  ``spans`` is None if no
    times were found, or none were asked for.
    """

    lattice: WordLattice
    narrowed: bool
    nbest: list[Hypothesis] = field(default_factory=list)
    chosen: Judged | None = None
    words: list[str] = field(default_factory=list)
    spans: list[Span] | None = None


def take(config: HypothesesConfig, lattices: Lattices, row: int, point: Point, times: Timing | None) -> Taken:
    """From the lattice of utterance ``row`` at ``point``."""
    found = determinise(lattices.one(row), *point, config.beam)
    lattice, narrowed = found.lattice, found.beam < config.beam
    nbest = n_best(lattice, config.nbest, *point)
    if not nbest:
        return Taken(lattice, narrowed)
    mbr = minimum_bayes_risk(lattice, *point) if config.mbr else None
    chosen = mbr or confidences(lattice, nbest[0].words, *point)
    pairs = joined([lattices.words[w] for w in chosen.words], chosen.confidence)
    words, chosen = [word for word, _ in pairs], replace(chosen, confidence=tuple(sure for _, sure in pairs))
    return Taken(lattice, narrowed, nbest, chosen, words, times(lattices.utts[row], words) if times else None)


def probabilities(taken: Sequence[Taken]) -> np.ndarray:
    """That of each word, float64 [all words]."""
    return np.array([p for t in taken if t.chosen for p in t.chosen.confidence], float)


def write_taken(
    config: HypothesesConfig, where: Path, lattices: Lattices, taken: Sequence[Taken], curve: Curve
) -> None:
    """Write all files that are asked for but the summary."""
    pairs = list(zip(lattices.utts, taken, strict=True))
    if config.mbr:
        write_hypotheses({utt: t.words for utt, t in pairs}, where / "mbr.txt")
    write_text(where / "nbest.tsv", "".join(_nbest(pairs, lattices.words)))
    if config.ctm:
        write_text(where / "ctm", "".join(ctm(utt, t, curve) for utt, t in pairs))
    if config.kaldi != "none":
        names, numbers = dict(enumerate(lattices.words)), None
        if config.kaldi == "numbers":
            numbers = {word: number for number, word in enumerate(read_symbols(config.lang / "words.txt"))}
        small = Lattices.join(lattices.utts, lattices.flags, [t.lattice for t in taken], names)
        write_kaldi(small, where / "lat.txt", numbers)


def _nbest(pairs: Sequence[tuple[str, Taken]], names: Sequence[str]) -> list[str]:
    rows = ["utt\trank\tcost\tgraph\tacoustic\twords\n"]
    for utt, taken in pairs:
        texts: dict[str, Hypothesis] = {}  # the best of those that are the same in other pieces
        for h in taken.nbest:
            texts.setdefault(" ".join(join([names[w] for w in h.words])), h)
        for rank, (text, h) in enumerate(texts.items(), 1):
            costs = "\t".join(f"{c:.4f}" for c in (h.cost, h.graph, h.acoustic))
            rows.append(f"{utt}\t{rank}\t{costs}\t{text}\n")
    return rows


def ctm(utt: str, taken: Taken, curve: Curve) -> str:
    """NIST's ``FILE CHANNEL BEGIN DURATION WORD CONFIDENCE`` lines, seconds from the start of the utterance.

    Words whose times were not found have length 0 at the start: they count, but are nowhere.
    """
    spans = taken.spans if taken.spans is not None else [(0, 0)] * len(taken.words)
    return "".join(
        f"{utt} 1 {SHIFT * begin:.2f} {SHIFT * (end - begin):.2f} {word} {sure:.4f}\n"
        for word, (begin, end), sure in zip(taken.words, spans, curve(probabilities([taken])).tolist(), strict=True)
    )
