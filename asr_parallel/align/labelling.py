"""Frame labels of sets by forced alignment with a model, and lists of what could not be aligned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from asr_parallel import log
from asr_parallel.align.aligner import Aligner, Alignment, Scores, why_unaligned
from asr_parallel.align.corpus import Corpus
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.align.lexicon_counts import learn
from asr_parallel.align.progress import Figures
from asr_parallel.config import LabelConfig
from asr_parallel.decode.utterance_graph import TrainingGraphs
from asr_parallel.files import atomic, write_text
from asr_parallel.log import UserError

LOG = log.logger(__name__)
CorpusOf = Callable[[str, Aligner], Corpus]  # of the name of a set


def make_aligner(config: LabelConfig, hmm: HmmModel) -> Aligner:
    """An aligner with the options of ``config``."""
    graphs = TrainingGraphs(config.lang, hmm, config.transition_scale, config.self_loop_scale)
    return Aligner(graphs, config.beam, config.retry_beam, config.num_jobs())


def label(config: LabelConfig, folder: Path, model: Scores, sets: list[str], corpus_of: CorpusOf) -> Figures:
    """Label ``sets`` with ``model`` and the HMM in ``folder``, where labels and ``unaligned.tsv`` go.

    ``corpus_of`` gives a set with the frames that the model takes.  Raises ``UserError`` if more than
    ``config.max_bad`` of a set cannot be aligned.
    """
    aligner = make_aligner(config, HmmModel.load(folder / "hmm.json"))
    figures, lines = {}, ["set\tutt\tframes\twhy\n"]
    for name in sets:
        corpus = corpus_of(name, aligner)
        aligned = aligner.align(model, corpus, range(len(corpus)), f"{folder.name}: label {name}")
        figures[name] = _figures(aligned, corpus)
        LOG.info(f"{folder.name}: label {name}: {figures[name]}")
        lines += [f"{name}\t{utt}\t{frames}\t{why}\n" for utt, frames, why in _unaligned(corpus, aligned, aligner)]
        write_text(folder / "unaligned.tsv", "".join(lines))
        _check(config, corpus, aligned, aligner)
        labels = _labels(corpus, aligned)
        labels.save(folder / f"ali_{name}.npz")
        if name == config.train:
            with atomic(folder / "priors.npz") as temporary:
                np.savez(temporary, counts=labels.counts(aligner.graphs.hmm.tree.num_pdfs))
            said = dict(zip(corpus.utts, corpus.words))
            learn(aligner.graphs.hmm, labels, said, aligner.graphs.lexicon).write(folder / "lexicon_probs.txt")
    return figures


def _check(config: LabelConfig, corpus: Corpus, aligned: Alignment, aligner: Aligner) -> None:
    share = len(aligned.failed) / max(1, len(aligned.rows))
    if share > config.max_bad:
        utt, _, why = _unaligned(corpus, aligned, aligner)[0]
        raise UserError(
            f"set {corpus.name}: {len(aligned.failed)} of {len(aligned.rows)} utterances have no alignment, "
            f"{utt} first: {why}. Mend or remove them, or raise max_bad"
        )


def _labels(corpus: Corpus, aligned: Alignment) -> Labels:
    failed = set(aligned.failed)
    rows = [r for r in aligned.rows.tolist() if r not in failed]
    return Labels.from_dict({corpus.utts[r]: aligned.pdfs[corpus.offsets[r] : corpus.offsets[r + 1]] for r in rows})


def _figures(aligned: Alignment, corpus: Corpus) -> Figures:
    return {
        "utterances": len(aligned.rows),
        "failed": len(aligned.failed),
        "retried": len(aligned.retried),
        "frames": aligned.frames,
        "log_likelihood_per_frame": aligned.acoustic / max(1, aligned.frames) + corpus.log_det,
    }


def _unaligned(corpus: Corpus, aligned: Alignment, aligner: Aligner) -> list[tuple[str, int, str]]:
    """(utt, frames, guess why) of utterances without alignment."""
    frames = np.diff(corpus.offsets)
    return [
        (corpus.utts[r], int(frames[r]), why_unaligned(aligner.graphs, corpus.words[r], int(frames[r])))
        for r in aligned.failed
    ]
