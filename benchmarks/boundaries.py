"""Word boundaries of our alignments against those of an independent aligner.

    python benchmarks/boundaries.py --model exp/fotaq/tri --data data/fotaq

The other is PocketSphinx with its general English model: other software, trained on other speech.  Both have the
words of ``lexicon.txt`` and may put silence between them.  Prints JSON lines: the mean and the median distance of the
beginnings and ends of words, and how far ours are later in the mean.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torchaudio
from figure import Figure, command_line
from lhotse import CutSet
from pocketsphinx import Decoder, get_model_path

from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.align.lexicon_counts import Prons, entries_said, phones_said
from asr_parallel.config import cuts_path
from asr_parallel.lang.lexicon import SILENCE_WORD, UNK, Lexicon

RATE = 16000  # of the general English model
FRAME = 10.0  # ms, of either aligner
Edges = list[int]  # frames at which words begin and end, in turn


def ours(hmm: HmmModel, labels: Labels, utt: str, words: list[str], prons: Prons) -> Edges | None:
    """By the labels of an utterance; None if they do not fit its words."""
    one = Labels.from_dict({utt: labels[utt]})
    said = entries_said(words, next(phones_said(hmm, one))[1], prons)
    frames = [*np.flatnonzero(hmm.phone_starts(one.pdfs)).tolist(), len(one.pdfs)]
    edges, at = Edges(), 0
    for (_, pron), silence in said or []:
        edges += [frames[at], frames[at + len(pron)]] if pron else []
        at += len(pron) + silence
    return edges if said else None


class PocketSphinx:
    """The independent aligner."""

    def __init__(self, prons: Prons):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lexicon.dict"
            names = [w for w in prons if w not in (SILENCE_WORD, UNK)]
            lines = [f"{w}{f'({n})' if n else ''} {' '.join(p)}\n" for w in names for n, p in enumerate(prons[w])]
            path.write_text("".join(lines), encoding="utf-8")
            model = get_model_path("en-us/en-us")
            self.decoder = Decoder(hmm=model, dict=str(path), lm=None, samprate=RATE, beam=1e-100, loglevel="FATAL")

    def edges(self, words: list[str], audio: torch.Tensor) -> Edges | None:
        """Of ``words`` in ``audio`` [samples at RATE]; None if it finds no alignment."""
        self.decoder.set_align_text(" ".join(words))
        self.decoder.start_utt()
        self.decoder.process_raw((audio.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes(), full_utt=True)
        self.decoder.end_utt()
        found = [s for s in self.decoder.seg() or [] if not s.word.startswith("<")]
        if [s.word.partition("(")[0] for s in found] != words:
            return None
        return [frame for s in found for frame in (s.start_frame, s.end_frame + 1)]


def differences(args: argparse.Namespace) -> Iterator[np.ndarray]:
    """Ours minus the other's, in ms, for each utterance that both align."""
    hmm, labels = HmmModel.load(args.model / "hmm.json"), Labels.load(args.model / f"ali_{args.set}.npz")
    prons = Lexicon.read(args.data / "lang" / "lexicon.txt").prons
    other = PocketSphinx(prons)
    cuts = [c for c in CutSet.from_file(cuts_path(args.data, args.set)) if c.id in labels]
    for cut in cuts[:: max(1, len(cuts) // args.utts)]:
        words = cut.supervisions[0].text.split()
        if not words or any(w not in prons for w in words):
            continue
        audio = torchaudio.functional.resample(torch.from_numpy(cut.load_audio()[0]), cut.sampling_rate, RATE)
        a, b = ours(hmm, labels, cut.id, words, prons), other.edges(words, audio)
        if a and b:
            yield FRAME * (np.array(a) - np.array(b))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("exp/fotaq/tri"), help="a directory with labels")
    parser.add_argument("--data", type=Path, default=Path("data/fotaq"))
    parser.add_argument("--set", default="train")
    parser.add_argument("--utts", type=int, default=200, help="about as many utterances, spread over the set")
    args = parser.parse_args()
    found = list(differences(args))
    ms = np.concatenate(found)
    for name, value, unit, target in (
        ("boundary_utterances", len(found), "utterances", f">= {args.utts // 2}"),
        ("boundary_mean_distance", np.abs(ms).mean(), "ms", "<= 50"),
        ("boundary_median_distance", np.median(np.abs(ms)), "ms", "<= 25"),
        ("boundary_later", np.median(ms), "ms", ""),
    ):
        Figure(name, float(value), unit, target, command_line()).show()


if __name__ == "__main__":
    main()
