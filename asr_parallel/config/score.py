"""Options of scoring, of pages of results and of what tells about an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from asr_parallel.config.verb import VerbConfig, cuts_path


@dataclass(frozen=True)
class CompareWordsConfig(VerbConfig):
    """How texts are read and compared word by word."""

    # without hypothesis an utterance is an error, counts as deleted, is left out; by default strict of files, else all
    mode: Literal["strict", "all", "present"] | None = None
    format: Literal["auto", "text", "trn", "stm", "ctm", "jsonl"] = "auto"  # of --ref and --hyp; auto: by extension
    hyp_format: Literal["auto", "text", "trn", "stm", "ctm", "jsonl"] = "auto"  # of hypotheses, if it is another one
    utt2spk: Path | None = None  # speakers, if the references do not say
    filter: list[Path] = field(default_factory=list)  # GLM files: rules for references and hypotheses, one by one
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"  # normal form of both sides
    fold_case: bool = False  # letter case makes no difference
    alternates: Literal["auto", "yes", "no"] = "auto"  # braces hold a choice; auto: in trn, stm, ctm, or filtered
    costs: Literal["levenshtein", "sclite"] = "levenshtein"  # fewest errors, or 3 for a gap and 4 for a substitution
    json: bool = False  # print JSON instead of tables
    seed: int = 0  # of the bootstrap

    NOT_HASHED = ("jobs", "force", "json")


@dataclass(frozen=True)
class ScoreConfig(CompareWordsConfig):
    """Word error rates: of lattices, tuned on dev sets (--model, --data, --pairs), or of a file (--ref, --hyp)."""

    ref: Path | None = None  # references, instead of a model: Kaldi text, trn, stm, ctm or JSON lines
    hyp: Path | None = None  # hypotheses for `ref`
    out: Path | None = None  # with `ref`: where details go, per speaker, utterance and word
    vocabulary: Path | None = None  # words that training had, a line each (LANG/vocabulary.txt): others are told apart
    model: Path = Path("exp/fotaq/tri")  # model directory with decode_SET inside
    data: Path = Path("data/fotaq")  # corpus directory, for the references
    pairs: list[str] = field(default_factory=lambda: ["dev_joe:test_joe", "dev_new:test_new"])  # DEV:TEST
    lmwt: list[int] = field(default_factory=lambda: list(range(5, 21)))  # LM weights to try (1 / acoustic scale)
    wip: list[float] = field(default_factory=lambda: [0.0, 0.5, 1.0])  # word insertion penalties to try

    @property
    def of_files(self) -> bool:
        return self.ref is not None or self.hyp is not None

    def inputs(self) -> list[Path]:
        sets = dict.fromkeys(s for pair in self.pairs for s in pair.split(":"))
        lattices = [self.model / f"decode_{s}" / "lattices.npz" for s in sets]
        lists = [*self.filter, *([self.vocabulary] if self.vocabulary else [])]
        return [] if self.of_files else [*lattices, *(cuts_path(self.data, s) for s in sets), *lists]

    def outputs(self) -> list[Path]:
        """None of files: their rates are printed every time."""
        tests = [] if self.of_files else [pair.rpartition(":")[2] for pair in self.pairs]
        return [self.model / f"decode_{test}" / "score.json" for test in tests]


@dataclass(frozen=True, kw_only=True)
class CompareConfig(CompareWordsConfig):
    """Compare two systems on the same speech: paired bootstrap and MAPSSWE with p values."""

    old: Path  # model directory, directory that `score --out` wrote, or file of hypotheses
    new: Path  # what is compared with it
    ref: Path | None = None  # references, if the two are files


@dataclass(frozen=True)
class ResultsConfig(VerbConfig):
    """Write the table of results and the training curves of all experiments of a recipe."""

    exp: Path = Path("exp/fotaq")  # experiments
    data: Path = Path("data/fotaq")  # corpus directory
    out: Path = Path("recipes/fotaq/RESULTS.md")  # page to write; plots go beside it
    title: str = "fotaq"
    command: str = "make demo"  # the command that prints these figures
    measure: Literal["wer", "accuracy"] = "wer"  # accuracy: of classes, as `classify` has left it

    def inputs(self) -> list[Path]:
        return sorted(self.exp.glob("*/decode_*/score.json")) + sorted(self.exp.glob("*/train.json"))

    def outputs(self) -> list[Path]:
        return [self.out]

    def home(self) -> Path:
        return self.exp  # the page may lie in the project's root


@dataclass(frozen=True, kw_only=True)
class ReportConfig(VerbConfig):
    """Write an experiment as one HTML page: curves, error rates, the worst utterances to hear, configuration."""

    exp: Path  # experiment, or a folder of experiments: each gets its page, and the folder a table of them
    data: Path | None = None  # corpus directory, for audio; by default the one that was scored
    out: Path | None = None  # page to write; by default report.html in `exp`
    worst: int = 10  # utterances shown of each set
    audio_mb: float = 8.0  # audio that a page holds at most; 0 means none


@dataclass(frozen=True)
class InfoConfig(VerbConfig):
    """Sum a training up: what it is, what it has reached, and where the time of its workers has gone."""

    model: Path = Path("exp/fotaq/dnn_2")  # directory of a training, finished or not, or of a pretraining
    against: Path | None = None  # training with one worker that the speed-up is told against
    plot: bool = False  # draw what was probed at exchanges to `probe.png` in `model`
    json: bool = False  # print JSON instead of text


@dataclass(frozen=True)
class ProjectConfig(VerbConfig):
    """Tell how fast a training would be with other workers on another network, from its ledger."""

    model: Path = Path("exp/fotaq/dnn_2")  # directory of a training with several workers
    workers: str = "2,4,8,16,32"  # numbers of workers
    bandwidth: str = "10Gbit"  # of the network, a second, for each worker and each way: 10Gbit, 100Mbit, 1.25GB
    latency: str = "50us"  # of a message from one worker to another: 50us, 0.2ms
    measured_bandwidth: str = ""  # of the network that `model` was trained on; "" (one machine): it cost no time
    measured_latency: str = "0us"  # likewise
    against: Path | None = None  # training with one worker that speed-ups are told against
    json: bool = False  # print JSON instead of a table


@dataclass(frozen=True)
class DoctorConfig(VerbConfig):
    """Say what is broken in this installation and how to mend it."""

    json: bool = False  # print JSON instead of a table
