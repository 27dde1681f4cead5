"""Verb ``graph``: the graph of a model that is there, with another language model or lexicon, or trained by CTC."""

from __future__ import annotations

from asr_parallel.align.ctc import is_ctc
from asr_parallel.align.hmm import HmmModel
from asr_parallel.config import GraphConfig
from asr_parallel.decode.ctc_graph import compile_ctc_graph
from asr_parallel.decode.graph import compile_graph
from asr_parallel.lang.lexicon_probs import EVEN, LexiconProbs
from asr_parallel.log import UserError


def run(config: GraphConfig) -> None:
    """Leave what ``compile_graph`` leaves, in ``config.out``."""
    hmm = HmmModel.load(config.model / "hmm.json")
    if is_ctc(config.model):
        if config.lexicon_probs:
            raise UserError(f"{config.model} was trained by CTC, which has no silences: leave out --lexicon_probs")
        compile_ctc_graph(config.lang, hmm, config.out)
        return
    probs = LexiconProbs.read(config.lexicon_probs) if config.lexicon_probs else EVEN
    compile_graph(config.lang, hmm, config.out, config.transition_scale, config.self_loop_scale, probs=probs)
