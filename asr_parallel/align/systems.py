"""Monophones and triphones on frames with deltas.  (``lda_mllt.py`` and ``sat.py`` hold the systems that follow.)"""

from __future__ import annotations

from asr_parallel.align.contexts import flat_start
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labelling import make_aligner
from asr_parallel.align.progress import Figures
from asr_parallel.align.space import Space
from asr_parallel.align.train import Schedule, train
from asr_parallel.align.tree import monophone_tree
from asr_parallel.align.work import Work, with_transitions
from asr_parallel.log import UserError


def train_mono(work: Work) -> Figures:
    """Monophones, from equal shares of each utterance for its states."""
    c, corpus = work.config, work.corpus
    hmm = HmmModel.start(work.phones, work.silence, work.topology, monophone_tree(work.num_states))
    rows = corpus.shortest(c.mono.utterances)
    aligner = make_aligner(c, hmm)
    pdfs = flat_start(aligner.graphs, corpus, rows)
    if not (pdfs >= 0).any():
        raise UserError(f"set {c.train}: every utterance is too short for its words; check data and lexicon")
    schedule = Schedule.mono(c.mono.iterations, c.mono.gaussians)
    trained = train(corpus, rows, pdfs, aligner, schedule, hmm.tree.num_pdfs, c.seed, "mono")
    work.save("mono", with_transitions(hmm, trained.pdfs, corpus), trained.gmm)
    return {"utterances": len(rows), "pdfs": hmm.tree.num_pdfs, "iterations": trained.history}


def label_mono(work: Work) -> Figures:
    """The training set, for the triphones to begin with."""
    return work.label("mono", lambda name, _: work.corpus, dev=False)


def train_tri(work: Work) -> Figures:
    """Triphones on the same frames."""
    return work.train_tied("tri", "mono", work.corpus, work.config.tri)[1]


def label_tri(work: Work) -> Figures:
    """All sets."""
    train = work.config.train
    return work.label("tri", lambda name, _: work.corpus if name == train else work.open(name, Space()))
