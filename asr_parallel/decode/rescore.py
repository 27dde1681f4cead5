"""Verb ``rescore``: lattices with the costs of their language model taken off and those of another put on.

A language model that is too large for a graph is used in this way: decode with a small one, rescore with the large.
What is taken off is what the graph put on: G is walked in all ways that its back-off arcs allow, and the cheapest
counts, where Kaldi's ``lattice-lmrescore`` takes the longest n-gram for the way.
"""

from __future__ import annotations

import numpy as np

from asr_parallel.config import RescoreConfig
from asr_parallel.decode.arcs import Arcs
from asr_parallel.decode.determinise import pruned
from asr_parallel.decode.graph import read_fst
from asr_parallel.decode.kaldi_text import write_hypotheses
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.files import write_json
from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.fst import grammar_fst
from asr_parallel.lang.lexicon import BOS, EOS, read_symbols, word_table
from asr_parallel.lang.ngram import Ngram
from asr_parallel.lang.states import LmStates
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map

log = logger(__name__)
Part = tuple[LmStates, list[int], float]  # a model, its labels of the words of the lattices, what its costs count


def run(config: RescoreConfig) -> None:
    """Leave ``lattices.npz`` and ``hyp.txt`` of each set under ``config.out``, as ``decode`` would."""
    if config.out.resolve() == config.model.resolve():
        raise UserError(f"--out {config.out} is --model: rescored lattices need a directory of their own")
    if config.lmwt <= 0 or config.beam <= 0:
        raise UserError("--lmwt and --beam must be positive")
    old = LmStates(FstArrays.from_fst(read_fst(config.lang / "G.fst")), table(read_symbols(config.lang / "words.txt")))
    new = of_ngram(read_arpa(config.lm))
    for name in config.sets:
        _rescore_set(config, name, old, new)


def table(symbols: list[str]) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(symbols)}


def of_ngram(model: Ngram) -> LmStates:
    words = table(word_table(w for w in model.words if w not in (BOS, EOS)))
    return LmStates(grammar_fst(model, words), words)


def _rescore_set(config: RescoreConfig, name: str, old: LmStates, new: LmStates) -> None:
    lattices = Lattices.load(config.model / f"decode_{name}" / "lattices.npz")
    parts: list[Part] = [
        (old, old.label_of(lattices.words, config.lang / "G.fst"), -1.0),
        (new, new.label_of(lattices.words, config.lm), 1.0),
    ]

    def one(row: int) -> WordLattice:
        lattice = pruned(lattices.one(row), config.lmwt, 0.0, config.beam)
        return rescored(lattice, parts, lattices.flags[row] != "partial")

    found = list(parallel_map(one, range(len(lattices.utts)), config.num_jobs(), f"rescore {name}", chunk=8))
    flags = [f if len(x.src) or f == "failed" else "empty" for f, x in zip(lattices.flags, found)]
    out = config.out / f"decode_{name}"
    again = Lattices.join(lattices.utts, flags, found, dict(enumerate(lattices.words)))
    again.save(out / "lattices.npz")
    before, after = (x.best_all(config.lmwt, 0.0) for x in (lattices, again))
    write_hypotheses(after, out / "hyp.txt")
    figures = {
        "set": name,
        "utts": len(flags),
        "changed": sum(before[utt] != after[utt] for utt in after),
        "arcs_before": len(lattices.lattice.src),
        "arcs": len(again.lattice.src),
        "empty": [u for u, f in zip(again.utts, flags) if f == "empty"],
    }
    write_json(out / "rescore.json", figures)
    log.info("%s: the best path of %d of %d utterances has changed", name, figures["changed"], len(flags))


def rescored(lattice: WordLattice, parts: list[Part], ended: bool = True) -> WordLattice:
    """The lattice with the costs of each model added, times what it counts; words as before.

    States are split by the histories that lead to them.  Not ``ended`` means that the lattice has no sentence ends.
    """
    if not len(lattice.src):
        return lattice
    last = len(lattice.level) - 1
    number: list[dict[tuple[int, ...], int]] = [{} for _ in range(last + 1)]  # histories at a state -> new state
    number[0][tuple(lm.start for lm, _, _ in parts)] = 0
    size, rows = 1, []
    order = np.argsort(lattice.src, kind="stable")  # states come before those that they lead to
    columns = (getattr(lattice, n)[order].tolist() for n in ("src", "dst", "word", "graph", "acoustic"))
    for src, dst, word, graph, acoustic in zip(*columns):
        for histories, state in number[src].items():
            after, cost = histories, graph
            if word:
                steps = [(lm.step(h, labels[word]), scale) for h, (lm, labels, scale) in zip(histories, parts)]
                after, cost = tuple(s for (s, _), _ in steps), graph + sum(scale * c for (_, c), scale in steps)
            if np.isfinite(cost):
                target = number[dst].setdefault(after, size)
                size += target == size
                rows.append((state, target, word, cost, acoustic))
    for histories, state in number[last].items():
        cost = sum(scale * lm.final(h) for h, (lm, _, scale) in zip(histories, parts)) if ended else 0.0
        if np.isfinite(cost):
            rows.append((state, size, 0, cost, 0.0))
    if not rows:
        return WordLattice.empty()
    return WordLattice.of(Arcs(0, size, *(np.array(c) for c in zip(*rows, strict=True))))
