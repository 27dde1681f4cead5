"""Verb ``adapt``: fMLLR transforms of speakers, and the features that they give, a store a set.

Training speakers have the transforms that ``align`` left.  A test speaker's come from what is recognised without them:
a first pass decodes with the model for speakers who are not adapted, its words are aligned, and the transform fits the
aligned frames to the adapted model (Gales 1998; as Kaldi's ``decode_fmllr.sh``, with best paths for lattices).
"""

from __future__ import annotations

import gc
import hashlib
from dataclasses import replace

import numpy as np
import torch

from asr_parallel.align.corpus import Corpus
from asr_parallel.align.fmllr import SpeakerTransforms
from asr_parallel.align.gmm import DiagGmm
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labelling import make_aligner
from asr_parallel.align.sat import fit
from asr_parallel.align.space import Space
from asr_parallel.config import AdaptConfig, LabelConfig, cuts_path
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.features import StoreOfSet, load_rows
from asr_parallel.decode.acoustic import Scorer, first_pass_scorer, load_scorer
from asr_parallel.decode.decode import load_graph, load_words
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.search import Beams
from asr_parallel.decode.sets import decode_set
from asr_parallel.log import UserError, logger

log = logger(__name__)
LATTICE_BEAM = 1.0  # only best paths are wanted


def run(config: AdaptConfig) -> None:
    """Leave ``fmllr_SET.npz`` in the model's directory, and the features of kind ``fmllr`` of all sets.

    Raises ``UserError`` if the model was not trained speaker-adaptively, or the graph does not fit it.
    """
    if config.passes < 1:
        raise UserError(f"--passes {config.passes}: there must be a first")
    torch.set_num_threads(1)  # work is spread over processes
    work = Adapting(config)
    store(work.open(config.train), SpeakerTransforms.load(config.model / f"fmllr_{config.train}.npz"), config)
    for name in config.sets:
        work.adapt(name)


class Adapting:
    """The models, and the graph for decoding."""

    def __init__(self, config: AdaptConfig):
        self.config, folder = config, config.model
        if not (folder / "gmm_si.npz").exists():
            raise UserError(f"{folder} has no gmm_si.npz: give the directory that `align` calls sat")
        self.space, self.gmm = Space.load(folder / "space.npz"), DiagGmm.load(folder / "gmm.npz")
        self.first = DiagGmm.load(folder / "gmm_si.npz")
        options = LabelConfig(jobs=config.jobs, lang=config.lang)
        self.aligner = make_aligner(options, HmmModel.load(folder / "hmm.json"))
        self.words = load_words(folder / "graph")
        self.scorers = [first_pass_scorer(folder), load_scorer(folder)]
        self.graph = load_graph(folder / "graph", folder, self.scorers[0], len(self.words))

    def open(self, name: str) -> Corpus:
        return Corpus.open(self.config.data, name, self.config.model, self.space)

    def adapt(self, name: str) -> None:
        """Transforms and features of a set."""
        config, corpus, transforms = self.config, self.open(name), None
        for scorer in [self.scorers[0]] + [self.scorers[1]] * (config.passes - 1):
            corpus = replace(corpus, words=self.recognise(name, scorer))
            transforms = fit(self.aligner, self.first, self.gmm, corpus, config.min_frames, transforms)
            store(corpus, transforms, config)
        assert transforms
        transforms.save(config.model / f"fmllr_{name}.npz")

    def recognise(self, name: str, scorer: Scorer) -> list[list[str]]:
        """Words of the best path of each utterance."""
        config = self.config
        beams = Beams(config.beam, LATTICE_BEAM, config.max_active)
        feats = FeatureSet.open(config.data, name, scorer.kind)
        gc.collect()
        gc.freeze()  # so that forked processes neither copy nor scan what is here
        result = decode_set(Decoder(self.graph, scorer, config.acwt, beams), feats, config.num_jobs())
        gc.unfreeze()
        lattices = Lattices.join(
            feats.utts,
            [d.flag for d in result.decoded],
            [d.lattice for d in result.decoded],
            dict(enumerate(self.words)),
        )
        best = lattices.best_all(1 / config.acwt, 0.0)
        return [best[utt] for utt in feats.utts]


def store(corpus: Corpus, transforms: SpeakerTransforms, config: AdaptConfig) -> None:
    """Write the features ``fmllr`` of ``corpus``.

    They are not normalised any further: LDA has given all frames variance 1, and the mean of a speaker's frames is
    fMLLR's to choose.
    """
    adapted = transforms(corpus)
    made_from = hashlib.sha256(adapted.feats.tobytes()).hexdigest()
    with StoreOfSet(config.data, corpus.name, "fmllr") as kept:
        for row, cut in enumerate(load_rows(cuts_path(config.data, corpus.name, "mfcc"))):
            kept.add(cut, adapted.of_utt(row))
    dim = adapted.feats.shape[1]
    neutral = np.ones((len(transforms.speakers), dim), np.float32)
    kept.finish(made_from, Cmvn(transforms.speakers, 0 * neutral, neutral))
    log.info("%s: fmllr features of %d utterances of %d speakers", corpus.name, len(corpus), len(transforms.speakers))
