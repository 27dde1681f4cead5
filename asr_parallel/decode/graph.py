"""The decoding graph HCLG, a WFST from pdfs to words.

Input labels are pdf + 1, output labels are words.  Weights follow Kaldi (``hmm/hmm-utils.cc``): a
transition that is not a self-loop costs ``-scale * log(p / (1 - p_loop)) - loop_scale * log(1 - p_loop)``
and a self-loop ``-loop_scale * log(p_loop)``.  Everything that walks over all arcs is done on arrays.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import kaldifst
import numpy as np
from kaldifst import StdVectorFst

from asr_parallel.align.hmm import HmmModel
from asr_parallel.decode.graph_identity import content_hash, is_made_of, tree_hash
from asr_parallel.decode.graph_size import GraphSize, expected_size, refuse_if_too_large
from asr_parallel.decode.utterance_graph import TrainingGraphs, check_phones
from asr_parallel.files import atomic, file_hash, write_json
from asr_parallel.free_memory import available_memory, peak_memory
from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.lang.fst import disambiguated_fst
from asr_parallel.lang.lexicon import Lexicon, read_symbols, write_symbols
from asr_parallel.lang.lexicon_probs import EVEN, LexiconProbs
from asr_parallel.log import UserError, logger

__all__ = ["TrainingGraphs", "compile_graph"]

log = logger(__name__)
Pdfs = tuple[int, ...]  # of the HMM states of a phone in context


def compile_graph(
    lang_dir: Path,
    hmm: HmmModel,
    out_dir: Path,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
    max_memory: float | None = None,
    probs: LexiconProbs = EVEN,
) -> None:
    """Write ``HCLG.fst`` (OpenFst ``const``), ``words.txt`` and ``graph.json`` (``tree_hash``, scales) to ``out_dir``.

    The steps of Kaldi's ``mkgraph.sh``: LG = min det (L o G), C o LG, H o CLG, min det, then self-loops.
    H has one entry for each different tuple of pdfs, not for each context.  Epsilons that stand for
    disambiguation symbols stay, since removing those of G's back-off would make the graph explode.
    A graph that was made of the same content is kept.

    Raises:
        UserError: files are missing or contradict each other, or it would take more than ``max_memory`` bytes
            (by default what the machine has left).
    """
    lang_dir, out_dir = Path(lang_dir), Path(out_dir)
    symbols = read_symbols(lang_dir / "phones.txt")
    check_phones(lang_dir, symbols, hmm)
    words = read_symbols(lang_dir / "words.txt")
    scales = {"transition_scale": transition_scale, "self_loop_scale": self_loop_scale}
    content = content_hash(lang_dir, hmm, scales, probs)
    if is_made_of(out_dir, content):
        log.info("%s: made of the same lexicon, grammar and model before, kept", out_dir / "HCLG.fst")
        return
    size = expected(lang_dir, words, hmm.tree.context_width)
    refuse_if_too_large(size, available_memory() if max_memory is None else max_memory)
    log.info("HCLG: about %s expected", size)
    lexicon = lexicon_of(lang_dir, symbols, words, probs)
    clg, contexts = context_grammar(lang_dir, lexicon, symbols, hmm.tree.context_width)
    graph = add_self_loops(compose_hmms(clg, contexts, hmm, transition_scale), hmm, self_loop_scale)
    log.info(
        "HCLG: %d states, %d arcs; this process has had at most %.1f GiB",
        *(len(graph.finals), len(graph.arcs), peak_memory() / 2**30),
    )
    made = {"tree": tree_hash(hmm), **scales, "expected_arcs": size.arcs, "content": content}
    write_graph(graph, words, out_dir, made)


def write_graph(graph: FstArrays, words: list[str], out_dir: Path, made: dict[str, Any]) -> None:
    """Write the three files, ``graph.json`` last: without it a graph is not whole."""
    (out_dir / "graph.json").unlink(missing_ok=True)
    with atomic(out_dir / "HCLG.fst") as temporary:
        graph.write(temporary)
    write_symbols(out_dir / "words.txt", words)
    figures = {"states": len(graph.finals), "arcs": len(graph.arcs), "sha256": file_hash(out_dir / "HCLG.fst")}
    write_json(out_dir / "graph.json", made | figures)


def expected(lang_dir: Path, words: list[str], width: int) -> GraphSize:
    grammar = FstArrays.from_fst(read_fst(lang_dir / "G.fst"))
    lexicon = Lexicon.read(lang_dir / "lexicon.txt")
    return expected_size(lexicon, {word: number for number, word in enumerate(words)}, grammar, width)


def read_fst(path: Path) -> StdVectorFst:
    fst = StdVectorFst.read(str(path)) if path.exists() else None
    if fst is None:
        raise UserError(f"{path} is missing or damaged; run 'asr-parallel lang' again")
    return fst


def determinize(fst: StdVectorFst, name: str) -> FstArrays:
    """Determinise in the log semiring and remove epsilons, as Kaldi does for LG and HCLG."""
    before = fst.num_states
    start = time.monotonic()
    if kaldifst.determinize_star(fst, use_log=True):
        raise UserError(f"{name} cannot be determinised; check the lexicon's disambiguation symbols")
    log.info("%s: %d states, %d after determinisation (%.0f s)", name, before, fst.num_states, time.monotonic() - start)
    return FstArrays.from_fst(fst)


def lexicon_of(lang_dir: Path, phones: list[str], words: list[str], probs: LexiconProbs) -> StdVectorFst:
    """L_disambig, as it stands there or made anew with probabilities."""
    if probs == EVEN:
        return read_fst(lang_dir / "L_disambig.fst")
    return disambiguated_fst(Lexicon.read(lang_dir / "lexicon.txt"), phones, words, probs)


def context_grammar(
    lang_dir: Path, lexicon: StdVectorFst, symbols: list[str], width: int
) -> tuple[StdVectorFst, list[list[int]]]:
    """C o min(det(L_disambig o G)) and what its input labels mean: (left, phone, right), or a number <= 0
    for a disambiguation symbol."""
    lg = kaldifst.compose(lexicon, read_fst(lang_dir / "G.fst"))
    if lg.num_states == 0:
        raise UserError(f"{lang_dir}: L and G have no path in common; make both again with one words.txt")
    lg = determinize(lg, "LG").minimized().to_fst()
    disambig = [number for number, symbol in enumerate(symbols) if symbol.startswith("#")]
    clg, contexts = kaldifst.compose_context(disambig, width, width // 2, lg)
    log.info("CLG: %d states, %d arcs", clg.num_states, FstArrays.from_fst(clg).arcs.size)
    return clg, contexts


def compose_hmms(clg: StdVectorFst, contexts: list[list[int]], hmm: HmmModel, scale: float) -> FstArrays:
    """min(det(H o CLG)) without self-loops; disambiguation symbols have become epsilons."""
    physical = np.zeros(len(contexts), np.int32)
    numbers: dict[Pdfs | int, int] = {}  # of HMMs and disambiguation symbols, from 1
    for label, context in enumerate(contexts[1:], 1):
        physical[label] = numbers.setdefault(_pdfs(context, hmm), len(numbers) + 1)
    arrays = FstArrays.from_fst(clg)
    arrays.arcs["ilabel"] = physical[arrays.arcs["ilabel"]]
    graph = determinize(kaldifst.compose(hmm_transducer(numbers, hmm, scale), arrays.to_fst()), "HCLG")
    graph.arcs["ilabel"][graph.arcs["ilabel"] > hmm.tree.num_pdfs] = 0
    return graph.minimized()


def _pdfs(context: list[int], hmm: HmmModel) -> Pdfs | int:
    """What distinguishes a context: the pdfs of its HMM states, or the number of a disambiguation symbol."""
    if len(context) == 1 and context[0] <= 0:
        return context[0]
    left, phone, right = context if len(context) == 3 else (0, context[0], 0)
    return tuple(hmm.tree.pdf(left, phone, right, state) for state in range(hmm.topology.num_states(phone)))


def hmm_transducer(numbers: dict[Pdfs | int, int], hmm: HmmModel, scale: float) -> StdVectorFst:
    """H without self-loops: a loop over HMMs, input pdf + 1, output the HMM's number.

    Disambiguation symbols have input labels above the pdfs'.
    """
    costs = -hmm.scaled_log_probs(scale, 0.0)
    rows: list[tuple[int, int, int, float, int]] = []  # source, input, output, cost, target
    size = 1
    for pdfs, number in numbers.items():
        if isinstance(pdfs, int):
            rows.append((0, hmm.tree.num_pdfs + number, number, 0.0, 0))
            continue
        # the HMM's state 0 is the loop itself, except where another state leads back to it
        nodes = [size + i for i in range(len(pdfs))] + [0]
        size += len(pdfs)
        for i, pdf in enumerate(pdfs):
            for (destination, _), cost in zip(hmm.transitions(pdf), costs[pdf]):
                if destination != i:
                    rows.append((nodes[i], pdf + 1, 0, cost, nodes[destination]))
                    if i == 0:
                        rows.append((0, pdf + 1, number, cost, nodes[destination]))
    finals = np.full(size, np.inf)
    finals[0] = 0.0
    table = np.array(rows)
    arcs = np.zeros(len(rows), ARC)
    for column, name in enumerate(("ilabel", "olabel", "weight", "next"), 1):
        arcs[name] = table[:, column]
    fst = FstArrays.build(0, finals, table[:, 0].astype(np.int64), arcs).to_fst()
    kaldifst.connect(fst)
    kaldifst.arcsort(fst, "olabel")
    return fst


def add_self_loops(graph: FstArrays, hmm: HmmModel, scale: float) -> FstArrays:
    """Put the self-loop of a pdf on the state that its arc leads to, and the cost of leaving on the arc.

    A state that is entered with different pdfs (or by epsilon, or is the start) is split: each pdf gets a state of
    its own with an epsilon arc to the old one (Kaldi's ``MakePrecedingInputSymbolsSame``).
    """
    loop, leave = _loop_costs(hmm, scale)
    arcs, num_states = graph.arcs.copy(), len(graph.finals)
    label = arcs["ilabel"]
    emitting = label > 0
    arcs["weight"][emitting] += leave[label[emitting] - 1]

    has_loop = emitting & np.isfinite(loop[np.maximum(label, 1) - 1])
    low, high = np.full(num_states, np.iinfo(np.int32).max), np.full(num_states, -1)
    entered_by = np.where(has_loop, label, 0)
    np.minimum.at(low, arcs["next"], entered_by)
    np.maximum.at(high, arcs["next"], entered_by)
    low[graph.start] = 0
    split = has_loop & (low != high)[arcs["next"]]
    pairs, new = np.unique(np.stack([arcs["next"][split], label[split]], 1), axis=0, return_inverse=True)
    pairs = pairs.reshape(-1, 2)
    arcs["next"][split] = num_states + new.reshape(-1)

    plain = np.flatnonzero((low == high) & (high > 0))  # these need no split
    looped = np.concatenate([plain, num_states + np.arange(len(pairs))])
    loops, exits = np.zeros(len(looped), ARC), np.zeros(len(pairs), ARC)
    loops["ilabel"] = np.concatenate([high[plain], pairs[:, 1]])
    loops["next"], loops["weight"] = looped, loop[loops["ilabel"] - 1]
    exits["next"] = pairs[:, 0]
    finals = np.concatenate([graph.finals, np.full(len(pairs), np.inf, np.float32)])
    source = np.concatenate([graph.sources(), looped, looped[len(plain) :]])
    return FstArrays.build(graph.start, finals, source, np.concatenate([arcs, loops, exits]))


def _loop_costs(hmm: HmmModel, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Costs of staying in and of leaving the state of each pdf, float64 [num_pdfs]."""
    scaled = -hmm.scaled_log_probs(0.0, scale)
    loop, leave = np.full(len(scaled), np.inf), np.zeros(len(scaled))
    for pdf, costs in enumerate(scaled):
        state = int(hmm.tree.pdf_state[pdf])
        for (destination, _), cost in zip(hmm.transitions(pdf), costs):
            if destination == state:
                loop[pdf] = cost
            else:
                leave[pdf] = cost
    return loop, leave
