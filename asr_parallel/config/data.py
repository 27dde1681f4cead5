"""Options of verbs that prepare data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from asr_parallel.config.verb import MadeKind, VerbConfig, cuts_path, found_sets, listing
from asr_parallel.files import files_under


@dataclass(frozen=True)
class ValidateConfig(VerbConfig):
    """Check the manifests of a corpus: ids, times, texts, sample rates, speakers."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=list)  # sets to check; empty means all
    max_bad: float = 0.0  # share of bad utterances that is survived

    def outputs(self) -> list[Path]:
        return [self.data / "validated.json"]

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s) for s in (self.sets or found_sets(self.data))]


Form = Literal["auto", "kaldi", "lhotse", "librispeech", "stm", "common_voice", "table", "files"]


@dataclass(frozen=True)
class PrepareConfig(VerbConfig):
    """Make the manifests of a corpus of your own: audio with transcripts in one of several forms."""

    source: Annotated[Path, arg(name="from")] = Path("corpus")  # folder with audio and transcripts, or one table
    out: Path = Path("data/corpus")  # leaves OUT/{train,dev,test}
    form: Form = "auto"  # what the corpus looks like
    rate: int = 0  # Hz; other audio is converted. 0 means the rate of most of the corpus
    channel: int | None = None  # channel to use of files with several, from 0, where the corpus does not say it
    text: Literal["english", "upper", "keep"] = "english"  # numbers spelt out, upper case without marks, as it is
    speaker: Literal["given", "folder", "one", "utt"] = "given"  # who speaks: as told, the folder, always the same
    dev: float = 0.05  # share of the seconds that is drawn for dev, if the corpus has no such set
    test: float = 0.1  # share of the seconds that is drawn for test
    seed: int = 0  # of the draw
    max_seconds: float = 60.0  # longer utterances are left out; 0 means any length
    max_bad: float = 0.02  # share of utterances of no use that is survived

    def outputs(self) -> list[Path]:
        shares = {"train": 1.0, "dev": self.dev, "test": self.test}
        return [self.out / "prepare.json", *(cuts_path(self.out, name) for name, share in shares.items() if share > 0)]

    def state(self) -> dict[str, str]:
        """Names, sizes and times of all files of the corpus."""
        return {"files": listing(p for p in files_under(self.source) if not p.is_relative_to(self.out))}


@dataclass(frozen=True)
class FeaturesConfig(VerbConfig):
    """Compute MFCC and log-mel features with Lhotse into one memory-mapped store a set."""

    data: Path = Path("data/fotaq")  # corpus directory
    sets: list[str] = field(default_factory=list)  # sets; empty means all
    kinds: list[MadeKind] = field(default_factory=lambda: ["mfcc", "fbank"])  # image: a word as one frame
    num_mel: int = 40  # filters of `fbank`, and filters and coefficients of `mfcc_hires`
    num_ceps: int = 13  # coefficients of `mfcc`
    speed: list[float] = field(default_factory=list)  # copies at these speeds, such as 0.9 1.1
    noise: Path | None = None  # copies with noises from this folder of audio files, such as MUSAN's noise/
    snr: list[float] = field(default_factory=lambda: [5.0, 20.0])  # their signal-to-noise ratio, dB, from and to
    reverb: Path | None = None  # copies in rooms: a folder of impulse responses, or the word `random`
    volume: list[float] = field(default_factory=list)  # gains to draw for all of these, from and to, such as 0.125 2
    perturb_sets: list[str] = field(default_factory=lambda: ["train"])  # sets that are perturbed so
    seed: int = 0  # of all that is drawn
    max_bad: float = 0.02  # share of unreadable utterances that is survived

    def state(self) -> dict[str, str]:
        """Names, sizes and times of noises and impulse responses."""
        folders = {"noise": self.noise, "reverb": self.reverb}
        return {name: listing(files_under(folder)) for name, folder in folders.items() if folder}

    def inputs(self) -> list[Path]:
        return [cuts_path(self.data, s) for s in (self.sets or found_sets(self.data))]

    def outputs(self) -> list[Path]:
        sets = self.sets or found_sets(self.data)
        return [cuts_path(self.data, s, k) for s in sets for k in self.kinds]


@dataclass(frozen=True)
class LangConfig(VerbConfig):
    """Make lexicon, phones, words, n-gram language model, L and G."""

    data: Path = Path("data/fotaq")  # corpus directory
    out: Path = Path("data/fotaq/lang")  # where the language directory goes
    train: str = "train"  # set whose texts train the language model
    dev: list[str] = field(default_factory=lambda: ["dev_joe", "dev_new"])  # sets that tune it
    test: list[str] = field(default_factory=lambda: ["test_joe", "test_new"])  # sets reported only
    units: Literal["phone", "grapheme", "subword"] = "phone"  # words as they sound, as spelt, or in pieces, spelt
    grapheme_positions: bool = False  # grapheme: letters differ at begin, end and inside of words
    pieces: int = 1000  # subword: most pieces, which SentencePiece learns on the texts; the graph is over these
    spelling: Literal["letters", "whole"] = "letters"  # subword: pieces are said as letters, or are units (for CTC)
    order: int = 3  # n-gram order
    general: Literal["none", "pocketsphinx"] = "pocketsphinx"  # general English to interpolate with
    general_sentences: int = 100_000  # subword: sentences drawn from it, for their pieces
    vocab_size: int = 40000  # words in the graph: all training words, then the likeliest general ones
    prune: float = 1e-7  # entropy pruning threshold of the interpolated model
    lexicon: Path | None = None  # Kaldi's lexicon.txt to use instead of dictionaries and guesses
    lm: Path | None = None  # ARPA file to use instead of a model of the training texts
    text: list[Path] = field(default_factory=list)  # more text like that of `train`: a sentence a line, plain or .gz

    def inputs(self) -> list[Path]:
        own = [p for p in (self.lexicon, self.lm, *self.text) if p is not None]
        return [cuts_path(self.data, s) for s in (self.train, *self.dev, *self.test)] + own

    def outputs(self) -> list[Path]:
        names = (
            "lexicon.txt",
            "words.txt",
            "phones.txt",
            "lm.arpa.gz",
            "L.fst",
            "L_disambig.fst",
            "G.fst",
            "vocabulary.txt",
            "lang.json",
            *(["pieces.model"] if self.units == "subword" else []),
        )
        return [self.out / n for n in names]
