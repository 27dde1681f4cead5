"""Back-off n-gram models as sorted arrays: scores, Kneser-Ney, ARPA files.

An n-gram of order k is a row of k word numbers; all of an order stand in one array, sorted, so that
many are looked up at once.  Natural logarithms inside, base 10 only in ARPA files.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from asr_parallel.files import atomic
from asr_parallel.lang.lexicon import BOS, EOS

LOG10 = math.log(10.0)
NEVER = -99.0  # what ARPA files write for log10(0), as for the probability of <s>


@dataclass
class Ngram:
    """A back-off model.

    ``grams[k]`` int32 [N, k + 1], sorted; ``logp[k]`` and ``backoff[k]`` float64 [N].  The probability of
    w after history h is that of (h, w) if it is there, else backoff(h) (0 if absent) times that of w
    after h without its first word (Katz 1987).
    """

    words: list[str]
    grams: list[np.ndarray]
    logp: list[np.ndarray]
    backoff: list[np.ndarray]

    def __post_init__(self) -> None:
        self.keys = [pack(grams, len(self.words)) for grams in self.grams]

    @property
    def order(self) -> int:
        return len(self.grams)

    def sizes(self) -> list[int]:
        return [len(grams) for grams in self.grams]

    def find(self, grams: np.ndarray) -> np.ndarray:
        """Row of each n-gram in the array of its order, -1 if absent."""
        table = self.keys[grams.shape[1] - 1]
        if not len(table):
            return np.full(len(grams), -1)
        keys = pack(grams, len(self.words))
        rows = np.minimum(np.searchsorted(table, keys), len(table) - 1)
        return np.where((table[rows] == keys) & (grams >= 0).all(axis=1), rows, -1)

    def log_prob(self, grams: np.ndarray) -> np.ndarray:
        """Natural log-probability of the last word of each row after the others, float64 [N]."""
        grams = grams[:, -self.order :]
        k = grams.shape[1] - 1
        rows = self.find(grams)
        result = np.where(rows >= 0, self.logp[k][rows] if len(self.logp[k]) else 0.0, -np.inf)
        absent = np.flatnonzero(rows < 0)
        if k and len(absent):
            history = self.find(grams[absent, :-1])
            weight = np.where(history >= 0, self.backoff[k - 1][history], 0.0)
            result[absent] = weight + self.log_prob(grams[absent, 1:])
        return result

    def score(self, lines: Iterable[Sequence[str]]) -> np.ndarray:
        """Log-probability of each word and of each sentence end; nan for words outside the vocabulary."""
        windows = text_windows(lines, self.words, self.order)
        logp = self.log_prob(windows)
        return np.where((windows[:, -1] < 0) | np.isneginf(logp), np.nan, logp)


def pack(grams: np.ndarray, num_words: int) -> np.ndarray:
    """One number a row that sorts as the rows do: int64 [N], or complex128 [N] where that is too small.

    Complex numbers sort by their real part, then by the imaginary one; each holds whole numbers below 2^53.  Raises
    ValueError if that is too small as well.
    """
    order = grams.shape[1]
    if num_words**order >= 2**63:
        first, second = grams[:, : order // 2], grams[:, order // 2 :]
        if num_words ** second.shape[1] > 2**53:
            raise ValueError(f"{order}-grams of {num_words} words are too many to number")
        return pack(first, num_words) + 1j * pack(second, num_words)
    key = np.zeros(len(grams), np.int64)
    for column in grams.T:
        key = key * num_words + column
    return key


def text_windows(lines: Iterable[Sequence[str]], words: Sequence[str], order: int) -> np.ndarray:
    """Each word and sentence end after its history, int64 [tokens, order]; -1 is unknown or before ``<s>``."""
    number = {word: i for i, word in enumerate(words)}
    bos, eos = number[BOS], number[EOS]
    stream: list[int] = []
    predicted: list[int] = []
    for line in lines:
        stream += [-1] * (order - 2) + [bos]
        begin = len(stream)
        stream += [number.get(word, -1) for word in line] + [eos]
        predicted += range(begin, len(stream))
    at = np.array(predicted, np.int64)[:, None] + np.arange(1 - order, 1)
    flat = np.array(stream, np.int64)
    return np.where(at >= 0, flat[np.maximum(at, 0)], -1)


def perplexity(logp: np.ndarray) -> float:
    """Of the words that have a probability; sentence ends count as words (SRILM's ``ppl``)."""
    return float(np.exp(-np.nanmean(logp)))


def kneser_ney(lines: Iterable[Sequence[str]], order: int, vocabulary: Iterable[str] = ()) -> Ngram:
    """Interpolated modified Kneser-Ney (Chen & Goodman 1998, 5.4), its unigrams mixed with a uniform distribution.

    The model knows the words of ``lines`` and of ``vocabulary``; those that were never seen have a share of the latter.
    """
    lines = [list(line) for line in lines]
    words = [BOS, EOS, *sorted({word for line in lines for word in line} | set(vocabulary))]
    counted = _counts(text_windows(lines, words, order), order, len(words))
    model = Ngram(words, [grams for grams, _ in counted], [], [np.zeros(len(grams)) for grams, _ in counted])
    lower_p = np.full(len(words), 1.0 / (len(words) - 1))  # of the shorter n-gram; <s> is never predicted
    for k, (grams, counts) in enumerate(counted):
        if k:
            lower_p = np.exp(model.log_prob(grams[:, 1:]))
        discount = _discounts(counts)[np.minimum(counts, 3)]
        history = model.find(grams[:, :-1]) if k else np.zeros(len(grams), np.int64)
        totals = np.bincount(history, counts)
        spared = np.bincount(history, discount) / np.maximum(totals, 1)
        p = (counts - discount) / totals[history] + spared[history] * lower_p
        if k:
            with np.errstate(divide="ignore"):
                model.backoff[k - 1][: len(spared)] = np.where(totals > 0, np.log(np.where(spared > 0, spared, 1)), 0.0)
        else:
            p[words.index(BOS)] = 0.0
        with np.errstate(divide="ignore"):
            model.logp.append(np.log(p))
    return model


def _counts(windows: np.ndarray, order: int, num_words: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sorted n-grams and their counts, by order: raw at the highest order and after ``<s>``, else the
    number of different words before them; all words are 1-grams."""
    result: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(order, 0, -1):
        rows = windows[:, order - k :]
        raw = rows[(rows >= 0).all(axis=1) & ((k == order) | (rows[:, 0] == 0))]
        grams, counts = np.unique(raw, axis=0, return_counts=True)
        if k < order:
            longer = result[-1][0][:, 1:]
            other, contexts = np.unique(longer, axis=0, return_counts=True)
            grams, counts = np.concatenate([grams, other]), np.concatenate([counts, contexts])
        if k == 1:  # <s> has no count of its own, but its back-off weight needs a place; so have words never seen
            unseen = np.setdiff1d(np.arange(num_words), grams[:, 0])
            grams = np.concatenate([unseen[:, None], grams])
            counts = np.concatenate([np.zeros(len(unseen), counts.dtype), counts])
        by_rows = np.lexsort(grams.T[::-1])
        grams, counts = grams[by_rows], counts[by_rows]
        result.append((grams.astype(np.int32), counts))
    return result[::-1]


def _discounts(counts: np.ndarray) -> np.ndarray:
    """What is taken off counts 0, 1, 2 and 3 or more; float64 [4]."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(float)
    if (n == 0).any():
        return np.array([0.0, 0.5, 1.0, 1.5])  # too little text to estimate them (as KenLM's fallback)
    y = n[0] / (n[0] + 2 * n[1])
    found = [c - (c + 1) * y * n[c] / n[c - 1] for c in (1, 2, 3)]
    return np.array([0.0, *(min(max(d, 0.05), c) for c, d in zip((1, 2, 3), found))])


def _open_for_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", compresslevel=1, encoding="utf-8")
    return open(path, "w", encoding="utf-8")


def write_arpa(model: Ngram, path: Path) -> None:
    """Write an ARPA file, compressed if its name ends with ``.gz``."""
    names = np.array(model.words, dtype=object)
    with atomic(path) as temporary, _open_for_text(temporary) as file:
        file.write("\\data\\\n" + "".join(f"ngram {k}={n}\n" for k, n in enumerate(model.sizes(), 1)))
        for k, grams in enumerate(model.grams):
            file.write(f"\n\\{k + 1}-grams:\n")
            text = names[grams[:, 0]]
            for column in grams.T[1:]:
                text = text + " " + names[column]
            logp = np.maximum(model.logp[k] / LOG10, NEVER).tolist()
            if k + 1 < model.order:
                backoff = (model.backoff[k] / LOG10).tolist()
                file.writelines(f"{p:.6f}\t{t}\t{b:.6f}\n" for p, t, b in zip(logp, text, backoff))
            else:
                file.writelines(f"{p:.6f}\t{t}\n" for p, t in zip(logp, text))
        file.write("\n\\end\\\n")
