"""Verb ``graph``: the graph of a model that is there, with another language model, or of a network trained by CTC."""

from __future__ import annotations

from asr_parallel.align.ctc import is_ctc
from asr_parallel.align.hmm import HmmModel
from asr_parallel.config import GraphConfig
from asr_parallel.decode.ctc_graph import compile_ctc_graph
from asr_parallel.decode.graph import compile_graph


def run(config: GraphConfig) -> None:
    """Leave what ``compile_graph`` leaves, in ``config.out``."""
    hmm = HmmModel.load(config.model / "hmm.json")
    if is_ctc(config.model):
        compile_ctc_graph(config.lang, hmm, config.out)
    else:
        compile_graph(config.lang, hmm, config.out, config.transition_scale, config.self_loop_scale)
