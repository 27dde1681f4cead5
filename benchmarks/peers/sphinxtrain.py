"""SphinxTrain and PocketSphinx beside our GMM systems: the same sets, lexicon, language model and scorer.

    python benchmarks/peers/sphinxtrain.py --data data/fotaq --exp exp/fotaq --out exp/peers/sphinxtrain

The peer is the wheel ``pstrain``, the C code of SphinxTrain with its recipe in Python; it goes into ``OUT/venv``.  Its
settings are those of its recipe for telephone speech: 13 MFCC of 15 filters with deltas and accelerations, mean
normalisation by utterance, 3 states a phone, SphinxTrain's own threshold of convergence (0.1), and all pronunciations
of a word in training.  Senones and Gaussians are near those of our ``tri``.  All Gaussians are scored, the language
weight is tuned on the dev sets, and beams are ``--beams``, of which ``script`` are those of SphinxTrain's decoding
script, slower than real time.  It has no LDA, MLLT or fMLLR.

Prints a line for each figure, of the peer and of the systems in ``EXP``.  The same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile
from lhotse import CutSet

from asr_parallel.config import ScoreConfig, cuts_path
from asr_parallel.files import atomic, read_json, write_json, write_text
from asr_parallel.lang.lexicon import SILENCE_WORD, UNK, Lexicon
from asr_parallel.score.align import COSTS
from asr_parallel.score.references import load_cuts, references
from asr_parallel.score.sources import wording_of
from asr_parallel.score.summary import figures
from asr_parallel.score.wer import score_set

PACKAGES = ("pstrain==0.5.0", "pocketsphinx==5.1.1")
TRAIN = "train"
PAIRS = {"dev_joe": "test_joe", "dev_new": "test_new"}
WEIGHT, STEP = 10, 2  # of the language model, tried first, and up and down from there
OURS = ("mono", "tri", "lda_mllt", "sat")
CONFIG = """config_version: 1
profile: telephone
training:
  n_senones: {senones}
  ci: {{convergence_ratio: 0.1}}
  untied: {{convergence_ratio: 0.1}}
  tied: {{convergence_ratio: 0.1}}
split: {{test_count: 0}}
runner: {{jobs: {jobs}, nice: 0}}
"""


def targets(gaussians: int) -> list[str]:
    """What the peer builds, in order; the first is features."""
    sizes = [1 << n for n in range(gaussians.bit_length())]
    return ["features", "ci-1g", "cd-untied", *(f"cd-{n}g" for n in sizes)]


def run(*command: object, log: Path) -> None:
    """Run a command, whose output goes to ``log``; exit with its last lines if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        done = subprocess.run([str(c) for c in command], stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        sys.exit("\n".join([*lines, f"{command[0]}: exit code {done.returncode}; all of its output is in {log}"]))


def install(out: Path) -> Path:
    """The bin folder of the peer's own environment."""
    bin_dir = out / "venv" / "bin"
    if not (bin_dir / "pstrain").exists():
        run(sys.executable, "-m", "venv", "--clear", out / "venv", log=out / "log" / "install.log")
        run(bin_dir / "pip", "install", *PACKAGES, log=out / "log" / "install.log")
    return bin_dir


def prepare(args: argparse.Namespace) -> None:
    """Audio as WAV, transcripts, dictionary and language model in the forms that the peer reads."""
    for name in (TRAIN, *PAIRS, *PAIRS.values()):
        write_audio(args.data, name, args.out / "audio" / name)
    train = load_cuts(cuts_path(args.data, TRAIN))
    lines = [f"{utt_id} {utt.text}\n" for utt_id, utt in train.items()]
    write_text(args.out / "train.transcription", "".join(lines))
    lexicon = Lexicon.read(args.data / "lang" / "lexicon.txt")
    rows = []
    for word, prons in lexicon.prons.items():
        if word not in (SILENCE_WORD, UNK):
            rows += [f"{word}{f'({n})' if n > 1 else ''} {' '.join(pron)}\n" for n, pron in enumerate(prons, 1)]
    write_text(args.out / "lexicon.dict", "".join(rows))
    write_text(args.out / "config.yaml", CONFIG.format(senones=args.senones, jobs=args.jobs))
    if not (args.out / "lm.arpa").exists():
        with gzip.open(args.data / "lang" / "lm.arpa.gz", "rt", encoding="utf-8") as arpa:
            write_text(args.out / "lm.arpa", arpa.read())


def write_audio(data: Path, name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for cut in CutSet.from_file(cuts_path(data, name)):
        path = folder / f"{cut.id}.wav"
        if not path.exists():
            with atomic(path) as temporary:
                soundfile.write(temporary, cut.load_audio()[0], cut.sampling_rate, "PCM_16")


def train(args: argparse.Namespace, bin_dir: Path) -> dict[str, float]:
    """Seconds of training, and of processors; features are made before."""
    project, log = args.out / "project", args.out / "log" / "train.log"
    if not project.exists():
        inputs = ("--transcription", args.out / "train.transcription", "--dictionary", args.out / "lexicon.dict")
        audio = ("--audio", args.out / "audio" / TRAIN, "--link", "--config", args.out / "config.yaml")
        run(bin_dir / "pstrain", "setup", project, *inputs, *audio, log=log)
    path = args.out / "seconds.json"
    took: dict[str, dict[str, float]] = read_json(path) if path.exists() else {}
    for target in targets(args.gaussians):
        if target not in took:
            start, before = time.monotonic(), processor_seconds()
            run(bin_dir / "pstrain", "build", target, "--project-dir", project, "--config", "telephone", log=log)
            took[target] = {"seconds": time.monotonic() - start, "processor_seconds": processor_seconds() - before}
            write_json(path, took)
    return {key: sum(took[t][key] for t in targets(args.gaussians)[1:]) for key in ("seconds", "processor_seconds")}


def processor_seconds() -> float:
    """Of all commands that have been run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def decode(args: argparse.Namespace, bin_dir: Path, name: str, weight: float) -> Path:
    """Hypotheses of a set at a weight of the language model, with lines ``utt word word ...``."""
    path = args.out / f"decode_{name}" / f"hyp_{weight}_{args.beams}.txt"
    if not path.exists():
        script = Path(__file__).with_name("pocketsphinx_decode.py")
        model = args.out / "project" / "shared" / "models" / f"cd-{args.gaussians}g" / "telephone"
        with atomic(path) as temporary:
            words = ("--dictionary", args.out / "lexicon.dict", "--lm", args.out / "lm.arpa", "--lw", weight)
            files = ("--audio", args.out / "audio" / name, "--out", temporary)
            options = ("--topn", args.gaussians, "--beams", args.beams, "--jobs", args.jobs)
            log = args.out / "log" / f"decode_{name}.log"
            run(bin_dir / "python", script, "--model", model, *words, *files, *options, log=log)
    return path


def score(args: argparse.Namespace, name: str, hyp: Path) -> dict[str, Any]:
    """Figures of a set by the scorer that scores our systems, with its default options."""
    config = ScoreConfig()
    wording = wording_of(config)
    refs = references(load_cuts(cuts_path(args.data, name)), wording)
    lines = [line.split() for line in hyp.read_text(encoding="utf-8").splitlines()]
    hyps = {utt: wording.words(" ".join(words), "hyp", utt) for utt, *words in lines}
    return figures(score_set(refs, hyps, str(hyp), "all", COSTS[config.costs]), config.seed)


def tune(args: argparse.Namespace, bin_dir: Path, dev: str) -> tuple[int, dict[str, Any]]:
    """The best weight of the language model on ``dev``, higher and lower than which is worse, and its figures."""
    tried: dict[int, dict[str, Any]] = {}
    best, untried = WEIGHT, [WEIGHT]
    while untried:
        tried |= {w: score(args, dev, decode(args, bin_dir, dev, w)) for w in untried}
        best = min(tried, key=lambda w: (tried[w]["errors"], w))
        untried = [w for w in (best - STEP, best + STEP) if w > 0 and w not in tried]
    print(f"{dev}: WER by language weight", {w: tried[w]["wer"] for w in sorted(tried)}, file=sys.stderr)
    return best, tried[best]


def peer(args: argparse.Namespace) -> dict[str, Any]:
    """Train, tune and test the peer."""
    bin_dir = install(args.out)
    prepare(args)
    found: dict[str, Any] = dict(train(args, bin_dir))
    for dev, test in PAIRS.items():
        weight, found[dev] = tune(args, bin_dir, dev)
        found[test] = score(args, test, decode(args, bin_dir, test, weight))
    return found


def ours(exp: Path, system: str) -> dict[str, Any]:
    """What ``align``, ``decode`` and ``score`` have left of a system and those that it begins with."""
    found: dict[str, Any] = {"seconds": 0.0}
    for phase, entry in read_json(exp / "align.json").items():
        found["seconds"] += entry["seconds"]
        if phase == system:
            break
    for name in (*PAIRS, *PAIRS.values()):
        found[name] = read_json(exp / system / f"decode_{name}" / "score.json")
    return found


def show(systems: dict[str, dict[str, Any]]) -> None:
    """A line a figure, a column a system."""
    rows: list[Sequence[str]] = [("", *systems), ("---", *("---:" for _ in systems))]
    rows.append(("training, s", *(f"{s['seconds']:.0f}" for s in systems.values())))
    for name in (*PAIRS, *PAIRS.values()):
        rates = [(s[name]["wer"], *s[name]["ci95"]) for s in systems.values()]
        rows.append((f"WER {name}", *(f"{wer:.1f} ({low:.1f}–{high:.1f})" for wer, low, high in rates)))
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/fotaq"))
    parser.add_argument("--exp", type=Path, default=Path("exp/fotaq"), help="our systems")
    parser.add_argument("--out", type=Path, default=Path("exp/peers/sphinxtrain"))
    parser.add_argument("--senones", type=int, default=1200)
    parser.add_argument("--gaussians", type=int, default=8, choices=(1, 2, 4, 8, 16, 32), help="of a senone")
    parser.add_argument("--beams", choices=("narrow", "wide", "script"), default="narrow")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    args.out = args.out.resolve()
    systems = {"SphinxTrain": peer(args)}
    systems |= {
        name: ours(args.exp, name) for name in OURS if (args.exp / name / "decode_test_new/score.json").exists()
    }
    write_json(args.out / "peers.json", systems)
    show(systems)


if __name__ == "__main__":
    main()
