"""General English from the ``pocketsphinx`` wheel: its trigram and its dictionary.

The trigram is a bit-packed trie; the layout is that of ``lm_trie.c`` in CMU's pocketsphinx (itself
after KenLM's, Heafield 2011).  It is read here with numpy, since the library's own ARPA writer stops
with a crash on this file.
"""

from __future__ import annotations

import importlib.util
import math
import re
import struct
from pathlib import Path

import numpy as np

from asr_parallel.lang.lexicon import Pron
from asr_parallel.lang.mix import sorted_ngram
from asr_parallel.lang.ngram import Ngram
from asr_parallel.log import UserError

_MAGIC = b"Trie Language Model"
_QUANT_BITS = 16  # of a quantised probability and of a quantised back-off weight
_LOG_BASE = math.log(1.0001)  # unit of all logarithms in the file


def model_dir() -> Path:
    """Directory of the US English models inside the installed wheel (which is not imported)."""
    spec = importlib.util.find_spec("pocketsphinx")
    if spec is None or spec.origin is None:
        raise UserError("pocketsphinx is not installed; install it or set general = 'none'")
    return Path(spec.origin).parent / "model" / "en-us"


def parse_dictionary(text: str) -> dict[str, tuple[Pron, ...]]:
    """``word PHONE ... # comment`` lines, ``word(2)`` for further pronunciations.

    Words are put in upper case, and stress (a digit after the vowel) is removed.
    """
    found: dict[str, dict[Pron, None]] = {}
    for line in re.sub(r"(?<=[A-Z])[012]\b| *#.*", "", text).splitlines():
        word, *pron = line.split()
        found.setdefault(word.partition("(")[0].upper(), {})[tuple(pron)] = None
    return {word: tuple(prons) for word, prons in found.items()}


class _Bits:
    """Fields of fixed-size little-endian bit records."""

    def __init__(self, data: np.ndarray, num_records: int, record_bits: int):
        self.data = np.concatenate([data, np.zeros(8, np.uint8)])
        self.start = np.arange(num_records, dtype=np.int64) * record_bits

    def field(self, offset: int, bits: int) -> np.ndarray:
        at = self.start + offset
        words = np.zeros(len(at), np.uint64)
        for byte in range(5):  # fields have at most 32 bits and start anywhere in a byte
            words |= self.data[(at >> 3) + byte].astype(np.uint64) << np.uint64(8 * byte)
        return ((words >> (at & 7).astype(np.uint64)) & np.uint64((1 << bits) - 1)).astype(np.int64)


def read_trie(path: Path) -> Ngram:
    """Read a trigram ``.lm.bin``; words in lower case as there.

    Raises:
        UserError: the file is not a trigram trie, or is cut short.
    """
    data = np.fromfile(path, np.uint8)
    raw = data.tobytes()
    if raw[: len(_MAGIC) + 1] != _MAGIC + b"\3":
        raise UserError(f"{path} is not a trigram in pocketsphinx's trie format; reinstall pocketsphinx 5")
    try:
        return _parse_trie(data, raw)
    except (ValueError, IndexError, struct.error) as error:
        raise UserError(f"{path} is damaged ({error}); reinstall pocketsphinx") from None


def _parse_trie(data: np.ndarray, raw: bytes) -> Ngram:
    at = len(_MAGIC) + 1
    n1, n2, n3 = struct.unpack_from("<3I", raw, at)
    at += 12 + 4  # counts, kind of quantisation
    size = 1 << _QUANT_BITS
    tables = np.frombuffer(raw, "<f4", 3 * size, at).reshape(3, size) * _LOG_BASE
    at += 3 * 4 * size
    uni = np.frombuffer(raw, np.dtype([("p", "<f4"), ("b", "<f4"), ("next", "<u4")]), n1 + 1, at)
    at += uni.nbytes
    word_bits, next_bits = n1.bit_length(), n3.bit_length()
    middle_bits, last_bits = word_bits + 2 * _QUANT_BITS + next_bits, word_bits + _QUANT_BITS
    middle_bytes, last_bytes = (((1 + n) * b + 7) // 8 + 8 for n, b in ((n2, middle_bits), (n3, last_bits)))
    middle = _Bits(data[at : at + middle_bytes], n2 + 1, middle_bits)
    last = _Bits(data[at + middle_bytes : at + middle_bytes + last_bytes], n3, last_bits)
    at += middle_bytes + last_bytes
    words = raw[at + 4 :].decode("utf-8").split("\0")[:-1]
    if len(words) != n1:
        raise ValueError(f"{len(words)} words where the head says {n1}")

    # The trie is reversed: the predicted word is at the root, below it the words before, nearest first.
    n2 = int(uni["next"][-1])  # the head of the file counts a few that are not there (and its ARPA writer trips)
    predicted2 = np.repeat(np.arange(n1), np.diff(uni["next"].astype(np.int64)))
    before2 = middle.field(0, word_bits)[:n2]
    children = np.diff(middle.field(word_bits + 2 * _QUANT_BITS, next_bits)[: n2 + 1])
    bigrams = np.stack([before2, predicted2], 1)
    parent = np.repeat(np.arange(n2), children)
    trigrams = np.column_stack([last.field(0, word_bits), bigrams[parent]])
    logp2 = tables[0][middle.field(word_bits + _QUANT_BITS, _QUANT_BITS)[:n2]]
    backoff2 = tables[1][middle.field(word_bits, _QUANT_BITS)[:n2]]
    logp3 = tables[2][last.field(word_bits, _QUANT_BITS)]
    levels = [
        (np.arange(n1)[:, None], uni["p"][:n1] * _LOG_BASE, uni["b"][:n1] * _LOG_BASE),
        (bigrams, logp2, backoff2),
        (trigrams, logp3, np.zeros(n3)),
    ]
    return sorted_ngram(words, levels)
