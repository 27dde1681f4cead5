"""``asr-parallel align``: monophones, triphones, LDA+MLLT, speaker-adaptive training; labels by each; graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.lda_mllt import label_lda_mllt, train_lda_mllt
from asr_parallel.align.progress import Figures, Phases
from asr_parallel.align.sat import label_sat, train_sat
from asr_parallel.align.systems import label_mono, label_tri, train_mono, train_tri
from asr_parallel.align.work import Work
from asr_parallel.config import AlignConfig
from asr_parallel.decode.graph import compile_graph
from asr_parallel.lang.lexicon_probs import EVEN, LexiconProbs
from asr_parallel.pool import parallel_map

SYSTEMS: dict[str, tuple[Callable[[Work], Figures], Callable[[Work], Figures]]] = {
    "mono": (train_mono, label_mono),
    "tri": (train_tri, label_tri),
    "lda_mllt": (train_lda_mllt, label_lda_mllt),
    "sat": (train_sat, label_sat),
}  # how a system is trained, and how it labels the frames
OF_LABELS = ("priors.npz", "lexicon_probs.txt")  # made with the labels of the training set


def run(config: AlignConfig) -> None:
    """Train the GMM-HMMs up to ``config.last``; leave what ``AlignConfig.outputs`` names, and ``unaligned.tsv``.

    Goes on after the last finished phase of the same command.  Raises ``UserError`` if more than ``max_bad``
    of a set cannot be aligned.
    """
    torch.set_num_threads(1)  # work is spread over processes
    work = Work(config)
    phases = Phases(config, config.out / "align_progress.json")
    for name in config.systems():
        train, label = SYSTEMS[name]
        labels = [p for p in config.leaves(name) if p.name.startswith("ali_") or p.name in OF_LABELS]
        models = [p for p in config.leaves(name) if p not in labels and p.parent.name == name]
        phases.run(name, models, partial(train, work))
        phases.run(f"{name}_ali", [*labels, config.out / name / "unaligned.tsv"], partial(label, work))
    graphs = [config.out / name / "graph" / "HCLG.fst" for name in config.systems()]
    phases.run("graphs", graphs, partial(_compile_graphs, work))
    phases.finish(config.out / "align.json")


def _compile_graphs(work: Work) -> Figures:
    c = work.config
    work.forget()  # frees the frames: a graph takes gigabytes

    def compile_one(folder: Path) -> None:
        hmm = HmmModel.load(folder / "hmm.json")
        probs = LexiconProbs.read(folder / "lexicon_probs.txt") if c.lexicon_probs == "learnt" else EVEN
        compile_graph(c.lang, hmm, folder / "graph", c.transition_scale, c.self_loop_scale, probs=probs)

    largest_first = [c.out / name for name in reversed(c.systems())]
    list(parallel_map(compile_one, largest_first, c.num_jobs()))
    return {}
