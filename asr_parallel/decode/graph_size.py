"""How large a decoding graph will be, known before it is built.

A state of L o G is a place inside a pronunciation and the state of G that its word leads to.  They are counted without
composition, in seconds; the graph, and the memory that its steps take, are in proportion to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.lexicon import BACKOFF, Lexicon, disambiguate
from asr_parallel.log import UserError

# Measured on the graphs of recipes/fotaq, of 5,000 and of 40,000 words and up to 3.6 M n-grams.
ARCS_PER_STATE = {1: 9.5, 3: 10.6}  # arcs of HCLG for a state of L o G, by the width of the phone context
BYTES_PER_ARC = 300.0  # of memory at the peak of its making, a tenth to a third more than was seen
LOOP_STATES = 3  # of the lexicon: between words, in silence, after it


@dataclass(frozen=True)
class GraphSize:
    """``words`` of the lexicon, ``ngrams`` (arcs of G), ``states`` of L o G, expected ``arcs``, ``memory`` in bytes."""

    words: int
    ngrams: int
    states: int
    arcs: int
    memory: int

    def __str__(self) -> str:
        return f"{self.arcs / 1e6:.1f} M arcs and {self.memory / 2**30:.1f} GiB of memory while it is made"


def expected_size(lexicon: Lexicon, words: Mapping[str, int], grammar: FstArrays, width: int) -> GraphSize:
    """Size of the graph of a lexicon and of G, whose labels are ``words``, for phones in a context of ``width``."""
    inside = np.zeros(max(words.values()) + 1, np.int64)  # states of L inside the pronunciations of a word
    for word, pron in disambiguate(lexicon)[0]:
        inside[words[word]] += len(pron) - 1
    arcs = grammar.arcs[grammar.arcs["ilabel"] != words[BACKOFF]]
    ends = np.unique(arcs["ilabel"] * np.int64(len(grammar.finals)) + arcs["next"])
    states = int(inside[ends // len(grammar.finals)].sum()) + LOOP_STATES * len(grammar.finals)
    expected = int(ARCS_PER_STATE[3 if width > 1 else 1] * states)
    return GraphSize(len(lexicon.prons), len(grammar.arcs), states, expected, int(BYTES_PER_ARC * expected))


def refuse_if_too_large(size: GraphSize, limit: float) -> None:
    """Raise UserError if making the graph would take more than ``limit`` bytes of memory."""
    if size.memory > limit:
        share = limit / size.memory
        raise UserError(
            f"the graph of {size.words:,} words and {size.ngrams:,} n-grams would have about {size}, more than the "
            f"{limit / 2**30:.1f} GiB that it may take: prune the language model to about {share * size.ngrams:,.0f} "
            "n-grams (`lang --prune` larger, or --vocab_size less), and put the whole one on lattices with `rescore`"
        )
