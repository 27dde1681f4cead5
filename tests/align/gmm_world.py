"""A tiny language and speech drawn from known Gaussians, for the tests of the GMM."""

import dataclasses
import gzip
import json
from pathlib import Path

import kaldifst
import numpy as np

from asr_parallel.align.corpus import Corpus
from asr_parallel.align.hmm import HmmModel, make_topology
from asr_parallel.align.tree import monophone_tree
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile
from asr_parallel.lang.lexicon import BACKOFF, EPS, Lexicon, read_symbols
from asr_parallel.lang.run import write_lang as write_lexicon

PRONS = {
    "!SIL": (("SIL",),),
    "<unk>": (("SPN",),),
    "ABBA": (("A", "B", "B", "A"),),
    "BAC": (("B", "A", "C"),),
    "CAB": (("C", "A", "B"), ("C", "B")),
    "DA": (("D", "A"),),
}
PHONES = ["<eps>", "SIL", "SPN", "A", "B", "C", "D"]
SILENCE = [1, 2]


def write_lang(folder: Path) -> Path:
    """Lexicon and L; G in which all words are as likely."""
    folder.mkdir(parents=True, exist_ok=True)
    write_lexicon(Lexicon(PRONS), folder)
    grammar = kaldifst.StdVectorFst()
    grammar.start = grammar.add_state()
    grammar.set_final(0, 0.0)
    for number, word in enumerate(read_symbols(folder / "words.txt")):
        if word in PRONS and word not in (EPS, BACKOFF):
            grammar.add_arc(0, kaldifst.StdArc(number, number, 1.0, 0))
    grammar.write(str(folder / "G.fst"))
    return folder


def monophones() -> HmmModel:
    topology = make_topology(len(PHONES), SILENCE)
    return HmmModel.start(PHONES, SILENCE, topology, monophone_tree([len(s) for s in topology.states]))


def speak(words: list[str], rng: np.random.Generator, dim: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features [T, dim] and true (phone, state) [T, 2]; silence at both ends and, now and then, between words."""
    phones = [1]
    for word in words:
        pron = PRONS[word][rng.integers(len(PRONS[word]))]
        phones += [PHONES.index(p) for p in pron] + ([1] if rng.random() < 0.3 else [])
    phones += [1] if phones[-1] != 1 else []
    truth = []
    for left, phone in zip([0, *phones], phones):
        for state in range(5 if phone in SILENCE else 3):
            truth += [(left, phone, state)] * int(1 + rng.geometric(0.4))
    centres = np.random.default_rng(7).normal(size=(len(PHONES), len(PHONES), 5, dim)) * 3
    by_phone = centres[0][[p for _, p, _ in truth], [s for _, _, s in truth]]
    by_context = centres[tuple(np.array(truth).T)]
    feats = by_phone + 0.2 * by_context + spread * rng.normal(size=(len(truth), dim))
    return feats.astype(np.float32), np.array(truth)[:, 1:]


def corpus(utts: int, dim: int = 4, seed: int = 0, name: str = "train") -> tuple[Corpus, np.ndarray]:
    """A corpus and the true (phone, state) of its frames [N, 2]."""
    rng = np.random.default_rng(seed)
    words = [list(rng.choice(["ABBA", "BAC", "CAB", "DA"], size=rng.integers(1, 5))) for _ in range(utts)]
    feats, truth = zip(*(speak(w, rng, dim) for w in words))
    offsets = np.cumsum([0, *map(len, feats)])
    utt_ids = [f"spk{i % 3}-{i:04d}" for i in range(utts)]
    return Corpus(name, utt_ids, words, offsets, np.concatenate(feats)), np.concatenate(truth)


def distorted(made: Corpus) -> Corpus:
    """Each of the three speakers mixes the dimensions in a way of its own."""
    dim = made.feats.shape[1]
    rng = np.random.default_rng(11)
    w = np.eye(dim, dim + 1) + 0.35 * rng.normal(size=(3, dim, dim + 1))
    which = np.array([int(utt[3]) for utt in made.utts])
    return dataclasses.replace(made.transformed(w, which), log_det=0.0)


def write_features(data: Path, name: str, made: Corpus) -> None:
    """Leave ``made`` as the ``mfcc`` store of set ``name``, without normalisation."""
    with FrameFile(store_path(data, name, "mfcc")) as file:
        for i in range(len(made)):
            file.append(made.of_utt(i))
    speakers = [u.split("-")[0] for u in made.utts]
    dim = made.feats.shape[1]
    texts = [" ".join(w) for w in made.words]
    Index(made.utts, speakers, texts, made.offsets, np.diff(made.offsets) / 100, "test").save(
        index_path(data, name, "mfcc")
    )
    all_speakers = sorted(set(speakers))
    ones = np.ones((len(all_speakers), dim), np.float32)
    Cmvn(all_speakers, 0 * ones, ones).save(cmvn_path(data, name, "mfcc"))
    rows = [
        {
            "id": utt,
            "type": "MonoCut",
            "start": 0,
            "duration": float(frames) / 100,
            "channel": 0,
            "supervisions": [{"speaker": speaker, "text": text}],
            "recording": {"id": utt, "sampling_rate": 8000},
        }
        for utt, speaker, text, frames in zip(made.utts, speakers, texts, np.diff(made.offsets))
    ]
    with gzip.open(data / name / "cuts_mfcc.jsonl.gz", "wt") as manifest:
        manifest.writelines(json.dumps(row) + "\n" for row in rows)
