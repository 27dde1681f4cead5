"""The decoding graph of a network that was trained by CTC: T o min(det(L o G)) (Miao et al. 2015).

T takes paths of outputs to labels: what is repeated counts once, blanks do not count, and between two labels that are
the same a blank has to stand.  Silence is a blank, so that L has none.
"""

from __future__ import annotations

from pathlib import Path

import kaldifst
import numpy as np
from kaldifst import StdVectorFst

from asr_parallel.align.hmm import HmmModel
from asr_parallel.criterion import BLANK
from asr_parallel.decode.graph import context_grammar, expected, read_fst, write_graph
from asr_parallel.decode.graph_identity import content_hash, is_made_of, tree_hash
from asr_parallel.decode.graph_size import refuse_if_too_large
from asr_parallel.decode.utterance_graph import check_phones
from asr_parallel.free_memory import available_memory
from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.lang.lexicon import SIL, read_symbols
from asr_parallel.log import logger

log = logger(__name__)


def compile_ctc_graph(lang_dir: Path, hmm: HmmModel, out_dir: Path) -> None:
    """Write the files that ``compile_graph`` writes; the input label of output k is k + 1.

    Raises ``UserError`` likewise.
    """
    symbols, words = (read_symbols(lang_dir / name) for name in ("phones.txt", "words.txt"))
    check_phones(lang_dir, symbols, hmm)
    content = content_hash(lang_dir, hmm, {"ctc": 1.0})
    if is_made_of(out_dir, content):
        log.info("%s: made of the same lexicon and grammar before, kept", out_dir / "HCLG.fst")
        return
    size = expected(lang_dir, words, 1)
    refuse_if_too_large(size, available_memory())
    lexicon = without_silence(read_fst(lang_dir / "L_disambig.fst"), symbols.index(SIL))
    labels, contexts = context_grammar(lang_dir, lexicon, symbols, 1)
    kaldifst.arcsort(labels, "ilabel")
    graph = FstArrays.from_fst(kaldifst.compose(token_transducer(contexts, hmm.tree.num_pdfs), labels)).minimized()
    graph.arcs["ilabel"][graph.arcs["ilabel"] > hmm.tree.num_pdfs] = 0
    log.info("TLG: %d states, %d arcs", len(graph.finals), len(graph.arcs))
    write_graph(graph, words, out_dir, {"tree": tree_hash(hmm), "content": content, "expected_arcs": size.arcs})


def without_silence(lexicon: StdVectorFst, silence: int) -> StdVectorFst:
    """L without its arcs of silence and without what it costs that there may be some."""
    whole = FstArrays.from_fst(lexicon)
    keep = whole.arcs["ilabel"] != silence
    arcs = whole.arcs[keep]
    arcs["weight"] = 0.0
    fst = FstArrays.build(whole.start, whole.finals, whole.sources()[keep], arcs).to_fst()
    kaldifst.connect(fst)
    kaldifst.arcsort(fst, "olabel")
    return fst


def token_transducer(contexts: list[list[int]], outputs: int) -> StdVectorFst:
    """T.  Output labels are those of ``contexts``: [phone], or [-n] for a disambiguation symbol, whose input labels lie
    above the ``outputs``.

    State 0 is after a blank and at the beginning; each other one is after a label of its own.
    """
    labels = [label for label, context in enumerate(contexts) if label and context[0] > 0]
    marks = [label for label, context in enumerate(contexts) if label and context[0] <= 0]
    phone = np.array([0, *(contexts[label][0] for label in labels)])
    states = np.arange(len(labels) + 1)
    source, target = (side.ravel() for side in np.meshgrid(states, states[1:], indexing="ij"))
    new = source != target
    rows = [
        np.column_stack([source, target, phone[target], np.where(new, np.array([0, *labels])[target], 0)]),
        np.column_stack([states, 0 * states, 0 * states + BLANK + 1, 0 * states]),
        *(np.column_stack([states, states, 0 * states + outputs + 1 + n, 0 * states + m]) for n, m in enumerate(marks)),
    ]
    table = np.concatenate(rows)
    arcs = np.zeros(len(table), ARC)
    arcs["next"], arcs["ilabel"], arcs["olabel"] = table[:, 1], table[:, 2], table[:, 3]
    fst = FstArrays.build(0, np.zeros(len(states)), table[:, 0], arcs).to_fst()
    kaldifst.arcsort(fst, "olabel")
    return fst
