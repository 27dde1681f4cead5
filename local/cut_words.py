#!/usr/bin/env python3
"""Cuts the most frequent words out of an aligned corpus, and lays them out as Google Speech Commands does.

    python local/cut_words.py --data data/fotaq --sets train dev_new test_new --model exp/fotaq/tri \\
      --lang data/fotaq/lang --out data/fotaq_words/clips

A model of the corpus tells when each word of a transcript was said.  Leaves WORD/SPEAKER_nohash_N.wav at 16 kHz, where
SPEAKER is a hash of the speaker's name, and, where a dev and a test set are given, validation_list.txt and
testing_list.txt.  What local/prepare_speech_commands.py takes from there is no Speech Commands: words of running speech
are shorter, less clear, and unequal in number.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from prepare_speech_commands import LISTS, RATE
from preparing import exit_code

from asr_parallel.align.hmm import HmmModel
from asr_parallel.config import cores
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.frontend import SHIFT, read_audio
from asr_parallel.data.manifests import load_cuts
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.decode.word_times import WordTimer
from asr_parallel.files import atomic, write_text
from asr_parallel.log import UserError, logger
from asr_parallel.pool import parallel_map

log = logger("asr_parallel.cut_words")

ACWT = 0.1  # of likelihoods while words are timed


@dataclass(frozen=True)
class Said:
    """A word in an utterance, from frame ``begin`` to before ``end``."""

    utt: str
    word: str
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        return SHIFT * (self.end - self.begin)


def words_of(args: argparse.Namespace, name: str) -> list[Said]:
    """All words of a set with their times; utterances that their words do not fit into are counted."""
    scorer, hmm = load_scorer(args.model), HmmModel.load(args.model / "hmm.json")
    features, timer = FeatureSet.open(args.data, name, scorer.kind), WordTimer(args.lang, hmm, ACWT)

    def one(i: int) -> list[Said] | None:
        utt, words = features.utts[i], features.texts[i].split()
        spans = timer.spans(words, scorer.loglikes(features[utt]))
        return None if spans is None else [Said(utt, word, *span) for word, span in zip(words, spans)]

    found = list(parallel_map(one, range(len(features)), args.jobs or cores(), f"words of {name}", chunk=8))
    if lost := sum(words is None for words in found):
        log.warning("%s: %d of %d utterances could not be aligned", name, lost, len(found))
    return [said for words in found for said in words or []]


def chosen(words: Sequence[Said], number: int, least: float, most: int) -> list[Said]:
    """The ``number`` most frequent words of ``least`` seconds or more; of each the longest ``most`` (0: all)."""
    long = [said for said in words if said.seconds >= least]
    names = {word for word, _ in Counter(said.word for said in long).most_common(number)}
    taken, kept = Counter[str](), []
    for said in sorted(long, key=lambda said: (-said.seconds, said.utt, said.begin)):
        if said.word in names and (not most or taken[said.word] < most):
            taken[said.word] += 1
            kept.append(said)
    return sorted(kept, key=lambda said: (said.utt, said.begin))


def cut(args: argparse.Namespace, name: str, words: Sequence[Said], numbers: Counter[str]) -> Iterator[str]:
    """Write the clips of a set; give their paths below ``args.out``.  ``numbers`` counts those of speaker and word."""
    from torchaudio.functional import resample

    cuts: dict[str, Any] = {c.id: c for c in load_cuts(args.data, name)}
    samples, read = np.zeros(0, np.float32), ""
    for said in words:
        source = cuts[said.utt]
        if said.utt != read:
            samples, read = read_audio(source), said.utt
        begin, end = (round(SHIFT * frame * source.sampling_rate) for frame in (said.begin, said.end))
        clip = resample(torch.from_numpy(samples[begin:end]), source.sampling_rate, RATE).numpy()
        speaker = hashlib.sha1(source.supervisions[0].speaker.encode()).hexdigest()[:8]
        path = f"{said.word.lower()}/{speaker}_nohash_{numbers[f'{said.word} {speaker}']}.wav"
        numbers[f"{said.word} {speaker}"] += 1
        with atomic(args.out / path) as temporary:
            soundfile.write(temporary, clip, RATE, format="WAV", subtype="PCM_16")
        yield path


def work(args: argparse.Namespace) -> None:
    """Leave the clips of all sets, and the lists last."""
    if len(args.sets) not in (1, 3):
        raise UserError("--sets: give one set, whose speakers a hash will split, or TRAIN DEV TEST")
    torch.set_num_threads(1)  # work is spread over processes
    words = {name: words_of(args, name) for name in args.sets}
    train = chosen(words[args.sets[0]], args.words, args.least, args.most)
    names, numbers = {said.word for said in train}, Counter[str]()
    for name, file in zip(args.sets, ("", *LISTS.values())):
        kept = [said for said in words[name] if said.word in names and said.seconds >= args.least] if file else train
        paths = list(cut(args, name, kept, numbers))
        log.info("%s: %d clips of %d words, %.2f s on average", name, len(paths), len(names), mean_seconds(kept))
        if file:
            write_text(args.out / file, "".join(f"{path}\n" for path in paths))


def mean_seconds(words: Sequence[Said]) -> float:
    return float(np.mean([said.seconds for said in words])) if words else 0.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, default=Path("data/fotaq"), help="corpus directory (default: %(default)s)")
    add("--sets", nargs="+", default=["train"], help="one set, or TRAIN DEV TEST (default: train)")
    add("--lang", type=Path, default=Path("data/fotaq/lang"), help="its language directory (default: %(default)s)")
    add("--model", type=Path, default=Path("exp/fotaq/tri"), help="model that aligns (default: %(default)s)")
    add("--out", type=Path, required=True, help="folder for the words")
    add("--words", type=int, default=35, help="number of words, the most frequent ones (default: %(default)s)")
    add("--least", type=float, default=0.1, metavar="S", help="shortest clip, in seconds (default: %(default)s)")
    add("--most", type=int, default=0, help="most clips of a word in the first set, the longest (0: all)")
    add("--jobs", type=int, default=0, help="processes (0: one a core)")
    args = parser.parse_args(argv)
    return exit_code(lambda: work(args))


if __name__ == "__main__":
    sys.exit(main())
