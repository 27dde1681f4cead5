"""Experiments whose errors, sounds and curves are known, with names and words that would break a careless page."""

from pathlib import Path

import numpy as np
import soundfile

from asr_parallel.config import StrategyConfig, TrainConfig
from asr_parallel.data.manifests import Utt, read_jsonl, write, write_jsonl
from asr_parallel.files import write_json, write_text
from asr_parallel.score.references import Reference
from asr_parallel.score.run import summarise
from asr_parallel.score.summary import write_details
from asr_parallel.score.wer import score_set
from asr_parallel.train.settings import plain

RATE = 8000
NAME = 'dnn<b>&"2'  # of the experiment's directory
SCRIPT = "<script>window.hacked=1</script>"
IMAGE = '"><img/src=x/onerror=window.hacked=1>'
HEBREW, TURNED = "שלום", "\u202eEVIL"
SPEAKERS = ("ann", "bob<i>'")
LOG = """
# 2026-01-02 03:04:05 asr-parallel train --out 'exp/a<b>'
# python 3.11.7, torch 2.14.1
# commit abc123, host some<host>, 2 cores
2026-01-02 03:04:06,000 # code 9, 1:11
# code 0, 2:25
2026-01-02 03:06:31,000 # code 8, 2:22

# 2026-01-03 00:00:00 asr-parallel train --killed
"""
LEDGER = (
    "epoch\texchange\trank\tminibatch\tbytes\twait_s\tsend_s\tcompute_s\tprobe_s\tleft_out"
    "\tloss_local\tloss_average\tloss_ensemble\tspread\n"
)

# utterance: (speaker, words said, words heard); None: no hypothesis
TALK = {
    "ann-1": (0, [SCRIPT, "B", "C", "D"], [SCRIPT, "B", "X", "D", "E"]),
    "ann-2": (0, ["A", "B"], ["A", "B"]),
    "ann-3&amp;": (0, [HEBREW, "&lt;", TURNED, "{{7*7}}"], [IMAGE, "&lt;"]),
    "bob<i>'-1": (1, ["A", "B", "C", "D", "E"], None),
    "bob<i>'-2": (1, ["A"], ["A"]),
}


def seconds_of(utt: str) -> float:
    return 0.5 + 0.25 * list(TALK).index(utt)


def tone(utt: str, begin: float = 0.0) -> np.ndarray:
    """What an utterance sounds like."""
    times = begin + np.arange(round(seconds_of(utt) * RATE)) / RATE
    return 0.3 * np.sin(2 * np.pi * (300 + 200 * list(TALK).index(utt)) * times)


def add_audio(data: Path, name: str) -> None:
    """All utterances of a set in one file, one after the other."""
    path, start, utts = data / name / "all.flac", 0.0, []
    path.parent.mkdir(parents=True)
    samples = np.concatenate([tone(utt) for utt in TALK])
    soundfile.write(path, samples, RATE)
    for utt, (spk, said, _) in TALK.items():
        length = seconds_of(utt)
        utts.append(Utt(utt, SPEAKERS[spk], " ".join(said), str(path), RATE, len(samples), "all", start, length))
        start += length
    write(data / name, utts)


def write_as_commands(data: Path, name: str, command: str) -> None:
    """The same manifest, whose sounds are what a command puts out."""
    path = data / name / "cuts.jsonl.gz"
    rows = read_jsonl(path)
    for row in rows:
        row["recording"]["sources"] = [{"type": "command", "channels": [0], "source": command}]
    write_jsonl(path, rows)


def add_scores(exp: Path, name: str, tuned_on: str) -> None:
    refs = {utt: Reference(SPEAKERS[spk], said) for utt, (spk, said, _) in TALK.items()}
    score = score_set(refs, {utt: heard for utt, (_, _, heard) in TALK.items() if heard is not None})
    folder = exp / f"decode_{name}"
    write_details(folder, score, summarise(score, name, tuned_on, (7, 0.5), 0))
    write_json(folder / "decode.json", {"audio_seconds": 600.0, "core_seconds": 25.0})
    for lmwt, wip, wer in ((6, 0.0, 60.0), (7, 0.0, 58.0), (6, 0.5, 59.0), (7, 0.5, 56.25)):
        if name == tuned_on or (lmwt, wip) == (7, 0.5):
            write_text(folder / f"wer_{lmwt}_{wip}", f"%WER {wer:.2f} [ 9 / 16, 1 ins, 7 del, 1 sub ]\n")


def add_training(exp: Path, data: Path, workers: int = 2, finished: bool = True) -> None:
    strategy = StrategyConfig(name="model_average" if workers > 1 else "single")
    config = TrainConfig(data=data, out=exp, workers=workers, threads=1, strategy=strategy)
    write_json(exp / "config.json", plain(config))
    write_text(
        exp / "history.tsv",
        "epoch\tlr\tframes\tdev_loss\tdev_acc\tseconds\tverdict\n1\t1\t9000\t2.5\t0.40\t12.0\taccept\n"
        "2\t1\t9000\t2.0\t0.50\t8.0\taccept\n3\t0.5\t9000\t2.2\t0.45\t10.0\treject, halve\n",
    )
    parts = [f"{e}\t{m}\t{90 * m}\t{m / 10}\t{1 / e}\t{3 / e}\t{0.1 * e}\n" for e in (1, 2, 3) for m in (50, 100)]
    write_text(exp / "curve.tsv", "epoch\tminibatch\tframes\tseconds\tlr\tloss\tacc\n" + "".join(parts))
    rows = [f"{e}\t{x}\t{r}\t{10 * x}\t3000000\t0.1\t0.2\t1.0\t0.1\t0\t{2 + r}\t1.9\t1.8\t0.1\n"
            for e in (1, 2, 3) for x in (5, 10) for r in range(workers) if workers > 1]  # fmt: skip
    write_text(exp / "ledger.tsv", LEDGER + "".join(rows))
    write_text(exp / "log" / "train.log", LOG)
    if finished:
        machine = {"cpu": "Some <CPU>", "cores": 2}
        figures = {"dev_acc": 0.5, "train_seconds": 30.0, "frames_per_s": 900, "params": 1234}
        write_json(exp / "train.json", {"workers": workers, "threads": 1, "machine": machine} | figures)


def make(root: Path) -> Path:
    """A network with a dev and a test set; gives its directory.  The corpus is ``root / "data"``."""
    exp, data = root / "exp" / NAME, root / "data"
    add_training(exp, data)
    for name in ("test<u>", "dev"):
        add_audio(data, name)
        add_scores(exp, name, "dev")
    return exp
