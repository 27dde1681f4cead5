"""What all GMM systems need: the training set, files of models and labels, and how triphones are trained."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from asr_parallel import log
from asr_parallel.align import em
from asr_parallel.align.cluster import ContextStats, build_tree
from asr_parallel.align.contexts import contexts, labelled, relabel
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel, make_topology
from asr_parallel.align.labelling import CorpusOf, label, make_aligner
from asr_parallel.align.labels import Labels
from asr_parallel.align.progress import Figures
from asr_parallel.align.space import Space
from asr_parallel.align.train import Adapt, Schedule, Trained, train
from asr_parallel.config import AlignConfig, TriConfig
from asr_parallel.lang.lexicon import SILENCE_PHONES, read_symbols

LOG = log.logger(__name__)


class Work:
    """The tools of one run of ``align``."""

    def __init__(self, config: AlignConfig):
        self.config = config
        self.phones = [p for p in read_symbols(config.lang / "phones.txt") if not p.startswith("#")]
        self.silence = [self.phones.index(p) for p in SILENCE_PHONES]
        self.topology = make_topology(len(self.phones), self.silence)
        self.num_states = [len(s) for s in self.topology.states]

    @cached_property
    def corpus(self) -> Corpus:
        """The training set with deltas."""
        return self.open(self.config.train, Space())

    def forget(self) -> None:
        """Free the frames of ``corpus``; they are read again when asked for."""
        self.__dict__.pop("corpus", None)

    def open(self, name: str, space: Space) -> Corpus:
        return Corpus.open(self.config.data, name, self.config.out, space)

    def folder(self, system: str) -> Path:
        return self.config.out / system

    def pdfs_of(self, system: str, corpus: Corpus) -> np.ndarray:
        """Labels by ``system`` of the training set: int32 [frames], -1 where there is none."""
        labels = Labels.load(self.folder(system) / f"ali_{self.config.train}.npz")
        pdfs = np.full(len(corpus.feats), -1, np.int32)
        for i, utt in enumerate(corpus.utts):
            if utt in labels:
                pdfs[corpus.offsets[i] : corpus.offsets[i + 1]] = labels[utt]
        return pdfs

    def train_tied(
        self, system: str, before: str, corpus: Corpus, options: TriConfig, adapt: Adapt | None = None
    ) -> tuple[Trained, Figures]:
        """Grow a tree and train triphones on ``corpus``, beginning with the labels of the system ``before``."""
        c = self.config
        pdfs = self.pdfs_of(before, corpus)
        rows = np.flatnonzero(pdfs[np.minimum(corpus.offsets[:-1], len(pdfs) - 1)] >= 0)
        pdfs_seen, offsets = labelled(pdfs, corpus.offsets)
        context = contexts(HmmModel.load(self.folder(before) / "hmm.json"), pdfs_seen, offsets)
        stats = ContextStats.of(context, corpus.feats, np.flatnonzero(pdfs >= 0))
        tree = build_tree(stats, self.num_states, self.silence, options.leaves, em.variance_floor(corpus.feats))
        LOG.info(f"tree: {tree.num_pdfs} leaves, {len(stats.count)} states in context, {len(tree.questions)} questions")
        hmm = HmmModel.start(self.phones, self.silence, self.topology, tree)
        pdfs[pdfs >= 0] = relabel(hmm, context)
        hmm = with_transitions(hmm, pdfs, corpus)
        schedule = Schedule.tri(options.iterations, options.gaussians)
        trained = train(corpus, rows, pdfs, make_aligner(c, hmm), schedule, tree.num_pdfs, c.seed, system, adapt)
        self.save(system, with_transitions(hmm, trained.pdfs, corpus), trained.gmm)
        figures = {"leaves": tree.num_pdfs, "states_in_context": len(stats.count), "questions": len(tree.questions)}
        return trained, {"utterances": len(rows), "pdfs": tree.num_pdfs, **figures, "iterations": trained.history}

    def save(self, system: str, hmm: HmmModel, gmm: DiagGmm) -> None:
        hmm.save(self.folder(system) / "hmm.json")
        gmm.save(self.folder(system) / "gmm.npz")

    def label(self, system: str, corpus_of: CorpusOf, dev: bool = True) -> Figures:
        """Label the training set and ``dev`` sets with a system; ``corpus_of`` is as ``labelling.label`` has it."""
        c, folder = self.config, self.folder(system)
        sets = [c.train, *(c.dev if dev else [])]
        return label(c, folder, DiagGmm.load(folder / "gmm.npz"), sets, corpus_of)


def speech(hmm: HmmModel, pdfs: np.ndarray) -> np.ndarray:
    """``pdfs`` with -1 for silence and noise, which say little of speakers and phones: int32 [frames]."""
    silent = np.append(np.isin(hmm.tree.pdf_phone, hmm.silence), True)  # -1 is the last
    return np.where(silent[pdfs], -1, pdfs).astype(np.int32)


def with_transitions(hmm: HmmModel, pdfs: np.ndarray, corpus: Corpus) -> HmmModel:
    """``hmm`` with the transition probabilities of labels ``pdfs``."""
    return hmm.with_counts(hmm.transition_counts(*labelled(pdfs, corpus.offsets)))
