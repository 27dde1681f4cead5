"""``asr-parallel align``: monophones, tree, triphones, frame labels, graphs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from asr_parallel import log
from asr_parallel.align import em
from asr_parallel.align.aligner import Aligner, Alignment, why_unaligned
from asr_parallel.align.cluster import ContextStats, build_tree
from asr_parallel.align.contexts import contexts, flat_start, labelled, relabel
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel, make_topology
from asr_parallel.align.labels import Labels
from asr_parallel.align.progress import Figures, Phases
from asr_parallel.align.train import Schedule, train
from asr_parallel.align.tree import monophone_tree
from asr_parallel.config import AlignConfig
from asr_parallel.decode.graph import compile_graph
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.files import atomic, write_text
from asr_parallel.lang.lexicon import SILENCE_PHONES, read_symbols
from asr_parallel.log import UserError
from asr_parallel.pool import parallel_map

LOG = log.logger(__name__)


def run(config: AlignConfig) -> None:
    """Train monophone and triphone GMM-HMMs; leave what ``AlignConfig.outputs`` names, and ``unaligned.tsv``.

    Goes on after the last finished phase of the same command.  Raises ``UserError`` if more than ``max_bad``
    of a set cannot be aligned.
    """
    torch.set_num_threads(1)  # work is spread over processes
    work = _Work(config)
    mono, tri = work.mono, work.tri
    sets = (config.train, *config.dev)
    phases = Phases(config, config.out / "align_progress.json")
    phases.run("mono", [mono / "hmm.json", mono / "gmm.npz"], work.train_mono)
    phases.run("mono_ali", [mono / f"ali_{config.train}.npz"], work.align_mono)
    phases.run("tree", [tri / "tree.json"], work.make_tree)
    phases.run("tri", [tri / "hmm.json", tri / "gmm.npz"], work.train_tri)
    labels = [tri / f"ali_{s}.npz" for s in sets]
    phases.run("labels", [*labels, tri / "priors.npz", tri / "unaligned.tsv"], work.label)
    phases.run("graphs", [d / "graph" / "HCLG.fst" for d in (mono, tri)], work.compile_graphs)
    phases.finish(config.out / "align.json")


class _Work:
    """The phases.  Each reads what earlier ones left in files."""

    def __init__(self, config: AlignConfig):
        self.config = config
        self.mono, self.tri = config.out / "mono", config.out / "tri"
        self.phones = [p for p in read_symbols(config.lang / "phones.txt") if not p.startswith("#")]
        self.silence = [self.phones.index(p) for p in SILENCE_PHONES]
        self.topology = make_topology(len(self.phones), self.silence)
        self.num_states = [len(s) for s in self.topology.states]

    @cached_property
    def corpus(self) -> Corpus:
        """The training set."""
        return Corpus.open(self.config.data, self.config.train, self.config.out)

    def aligner(self, hmm: HmmModel) -> Aligner:
        c = self.config
        graphs = TrainingGraphs(c.lang, hmm, c.transition_scale, c.self_loop_scale)
        return Aligner(graphs, c.beam, c.retry_beam, c.num_jobs())

    def train_mono(self) -> Figures:
        c = self.config
        hmm = HmmModel.start(self.phones, self.silence, self.topology, monophone_tree(self.num_states))
        rows = self.corpus.shortest(c.mono.utterances)
        aligner = self.aligner(hmm)
        pdfs = flat_start(aligner.graphs, self.corpus, rows)
        if not (pdfs >= 0).any():
            raise UserError(f"set {c.train}: every utterance is too short for its words; check data and lexicon")
        schedule = Schedule.mono(c.mono.iterations, c.mono.gaussians)
        trained = train(self.corpus, rows, pdfs, aligner, schedule, hmm.tree.num_pdfs, c.seed, "mono")
        hmm = _with_transitions(hmm, trained.pdfs, self.corpus)
        hmm.save(self.mono / "hmm.json")
        trained.gmm.save(self.mono / "gmm.npz")
        return {"utterances": len(rows), "pdfs": hmm.tree.num_pdfs, "iterations": trained.history}

    def align_mono(self) -> Figures:
        aligner, gmm = self.aligner(HmmModel.load(self.mono / "hmm.json")), DiagGmm.load(self.mono / "gmm.npz")
        aligned = aligner.align(gmm, self.corpus, range(len(self.corpus)), "align with monophones")
        self.check(self.corpus, aligned, aligner)
        _labels(self.corpus, aligned).save(self.mono / f"ali_{self.config.train}.npz")
        return _figures(aligned)

    def make_tree(self) -> Figures:
        c, corpus = self.config, self.corpus
        all_pdfs = self.mono_pdfs()
        pdfs, offsets = labelled(all_pdfs, corpus.offsets)
        context = contexts(HmmModel.load(self.mono / "hmm.json"), pdfs, offsets)
        stats = ContextStats.of(context, corpus.feats, np.flatnonzero(all_pdfs >= 0))
        tree = build_tree(stats, self.num_states, self.silence, c.tri.leaves, em.variance_floor(corpus.feats))
        hmm = HmmModel.start(self.phones, self.silence, self.topology, tree)
        hmm = hmm.with_counts(hmm.transition_counts(relabel(hmm, context), offsets))
        hmm.save(self.tri / "tree.json")
        LOG.info(f"tree: {tree.num_pdfs} leaves, {len(stats.count)} states in context, {len(tree.questions)} questions")
        return {"leaves": tree.num_pdfs, "states_in_context": len(stats.count), "questions": len(tree.questions)}

    def train_tri(self) -> Figures:
        c, corpus = self.config, self.corpus
        hmm = HmmModel.load(self.tri / "tree.json")
        mono, pdfs = HmmModel.load(self.mono / "hmm.json"), self.mono_pdfs()
        rows = np.flatnonzero(pdfs[np.minimum(corpus.offsets[:-1], len(pdfs) - 1)] >= 0)
        pdfs[pdfs >= 0] = relabel(hmm, contexts(mono, *labelled(pdfs, corpus.offsets)))
        schedule = Schedule.tri(c.tri.iterations, c.tri.gaussians)
        trained = train(corpus, rows, pdfs, self.aligner(hmm), schedule, hmm.tree.num_pdfs, c.seed, "tri")
        hmm = _with_transitions(hmm, trained.pdfs, corpus)
        hmm.save(self.tri / "hmm.json")
        trained.gmm.save(self.tri / "gmm.npz")
        return {"utterances": len(rows), "pdfs": hmm.tree.num_pdfs, "iterations": trained.history}

    def mono_pdfs(self) -> np.ndarray:
        """Monophone labels of the training set: int32 [frames], -1 where there is none."""
        labels = Labels.load(self.mono / f"ali_{self.config.train}.npz")
        pdfs = np.full(len(self.corpus.feats), -1, np.int32)
        for i, utt in enumerate(self.corpus.utts):
            if utt in labels:
                pdfs[self.corpus.offsets[i] : self.corpus.offsets[i + 1]] = labels[utt]
        return pdfs

    def label(self) -> Figures:
        aligner, gmm = self.aligner(HmmModel.load(self.tri / "hmm.json")), DiagGmm.load(self.tri / "gmm.npz")
        figures, lines = {}, ["set\tutt\tframes\twhy\n"]
        for name in (self.config.train, *self.config.dev):
            corpus = self.corpus if name == self.config.train else Corpus.open(self.config.data, name, self.config.out)
            aligned = aligner.align(gmm, corpus, range(len(corpus)), f"label {name}")
            figures[name] = _figures(aligned)
            LOG.info(f"label {name}: {figures[name]}")
            lines += [f"{name}\t{utt}\t{frames}\t{why}\n" for utt, frames, why in _unaligned(corpus, aligned, aligner)]
            write_text(self.tri / "unaligned.tsv", "".join(lines))
            self.check(corpus, aligned, aligner)
            labels = _labels(corpus, aligned)
            labels.save(self.tri / f"ali_{name}.npz")
            if name == self.config.train:
                with atomic(self.tri / "priors.npz") as temporary:
                    np.savez(temporary, counts=labels.counts(gmm.num_pdfs))
        return figures

    def check(self, corpus: Corpus, aligned: Alignment, aligner: Aligner) -> None:
        """Raise ``UserError`` if too many utterances have no alignment."""
        share = len(aligned.failed) / max(1, len(aligned.rows))
        if share > self.config.max_bad:
            utt, _, why = _unaligned(corpus, aligned, aligner)[0]
            raise UserError(
                f"set {corpus.name}: {len(aligned.failed)} of {len(aligned.rows)} utterances have no alignment, "
                f"{utt} first: {why}. Mend or remove them, or raise max_bad"
            )

    def compile_graphs(self) -> Figures:
        c = self.config
        self.__dict__.pop("corpus", None)  # frees the frames: a graph takes gigabytes

        def compile_one(folder: Path) -> None:
            hmm = HmmModel.load(folder / "hmm.json")
            compile_graph(c.lang, hmm, folder / "graph", c.transition_scale, c.self_loop_scale)

        list(parallel_map(compile_one, [self.tri, self.mono], c.num_jobs()))
        return {}


def _with_transitions(hmm: HmmModel, pdfs: np.ndarray, corpus: Corpus) -> HmmModel:
    return hmm.with_counts(hmm.transition_counts(*labelled(pdfs, corpus.offsets)))


def _labels(corpus: Corpus, aligned: Alignment) -> Labels:
    failed = set(aligned.failed)
    rows = [r for r in aligned.rows.tolist() if r not in failed]
    return Labels.from_dict({corpus.utts[r]: aligned.pdfs[corpus.offsets[r] : corpus.offsets[r + 1]] for r in rows})


def _figures(aligned: Alignment) -> Figures:
    return {
        "utterances": len(aligned.rows),
        "failed": len(aligned.failed),
        "retried": len(aligned.retried),
        "frames": aligned.frames,
        "log_likelihood_per_frame": aligned.acoustic / max(1, aligned.frames),
    }


def _unaligned(corpus: Corpus, aligned: Alignment, aligner: Aligner) -> list[tuple[str, int, str]]:
    """(utt, frames, guess why) of utterances without alignment."""
    frames = np.diff(corpus.offsets)
    return [
        (corpus.utts[r], int(frames[r]), why_unaligned(aligner.graphs, corpus.words[r], int(frames[r])))
        for r in aligned.failed
    ]
