"""Words that differ in one value of their picture, as a corpus of utterances of one frame."""

import gzip
import json

import numpy as np

from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import FrameFile

WORDS = ("STOP", "GO", "GO ON")
DIM = len(WORDS)


def write_set(data, name, said, rows=None, without=()):
    """Set ``name`` in which utterance i says ``said[i]``; ``rows`` [U, DIM] are its frames, by default what is said.

    Utterances ``without`` have no features.  Speakers say ten utterances each.
    """
    rows = np.array([[word == w for w in WORDS] for word in said], np.float32) if rows is None else rows
    utts = [f"s{i // 10}-{i:03d}" for i in range(len(said))]
    with_features = [i for i, utt in enumerate(utts) if utt not in without]
    with FrameFile(store_path(data, name, "image")) as file:
        for i in with_features:
            file.append(np.asarray(rows[i : i + 1], np.float32))
    chosen, texts = [utts[i] for i in with_features], [said[i] for i in with_features]
    offsets, seconds = np.arange(len(chosen) + 1), np.ones(len(chosen))
    index = Index(chosen, [u[:2] for u in chosen], texts, offsets, seconds, "x")
    index.save(index_path(data, name, "image"))
    Cmvn.none(rows.shape[1]).save(cmvn_path(data, name, "image"))
    for file, wanted in (("cuts.jsonl.gz", utts), ("cuts_image.jsonl.gz", chosen)):
        with gzip.open(data / name / file, "wt") as lines:
            for utt, word in zip(utts, said):
                row = {"id": utt, "supervisions": [{"id": utt, "text": word, "speaker": utt[:2]}]}
                lines.write(json.dumps(row) + "\n" if utt in wanted else "")
