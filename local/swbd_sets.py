"""The sets of the recipe `swbd`: Switchboard-1 split into train and dev, tests by their STM; lexicon and more text."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hub5 import read_set, split_stm
from swbd_calls import Bad, open_calls
from swbd_train import TRANSCRIPT, fraction, hold_out, read_callers, read_transcript, without_repeats
from swbd_words import Dictionary, lexicon, read_dictionary, words

from asr_parallel.data.manifests import Utt
from asr_parallel.files import write_text
from asr_parallel.log import UserError, logger

log = logger("asr_parallel.swbd_sets")

TESTS = ("eval2000", "hub5_01", "rt03")
DICTIONARY, CALLERS = "sw-ms98-dict.text", "call_con_tab.csv"
FISHER = re.compile(r"\d+\.\d+ \d+\.\d+ [AB]: (.*)")

Files = Mapping[str, list[Path]]
Sets = dict[str, list[Utt]]
Left = dict[str, list[Bad]]
Dropped = dict[str, dict[str, int]]


def make(files: Files, args: argparse.Namespace) -> tuple[Sets, Left, Dropped]:
    """Utterances of each set, what could not be used, and how many were dropped why; writes OUT/local, SET/ref.stm."""
    dictionary = read_dictionary(dictionary_of(files["train"]))
    found, bad = read_train(files["train"], args, lambda text: words(text, dictionary.spelt))
    train, dev = hold_out(found, args.dev_share, args.dev, callers_of(files["train"], args.dev))
    kept = without_repeats(train, args.max_repeats)
    sets: Sets = {"train": limited(kept, args.max_train_minutes), "dev": limited(dev, args.max_test_minutes)}
    left: Left = {"train": bad, "dev": []}
    for test in TESTS:
        stms = (p for p in files[test] if p.suffix.lower() == ".stm")
        for name, stm in split_stm(stms, test, args.out, args.max_test_minutes).items():
            sets[name], left[name] = read_test(stm, files[test], args)
    dropped = {name: dict(Counter(b.kind for b in bad)) for name, bad in left.items()}
    dropped["train"]["repeat a text too often"] = len(train) - len(kept)
    write_language(dictionary, sets["train"], files["fisher"], args.out / "local")
    return sets, left, dropped


def dictionary_of(paths: list[Path]) -> Path:
    """UserError if there is none."""
    found = [p for p in paths if p.name.lower() == DICTIONARY]
    if not found:
        raise UserError(f"swb_ms98_transcriptions has no {DICTIONARY}; unpack switchboard_word_alignments.tar.gz again")
    return found[0]


def callers_of(paths: list[Path], dev: str) -> dict[str, str]:
    """Who speaks on each side of a call, if the table of callers is there."""
    tables = [p for p in paths if p.name.lower() == CALLERS]
    if not tables and dev == "speakers":
        log.warning("LDC97S62 has no %s: whole calls are held out; who speaks in dev may also speak in train", CALLERS)
    return read_callers(tables[0]) if tables else {}


def read_train(
    files: list[Path], args: argparse.Namespace, said: Callable[[str], list[str]]
) -> tuple[list[Utt], list[Bad]]:
    """Utterances of Switchboard-1, and what is wrong with the rest."""
    sides = {(f"sw0{m[1]}", m[2].upper()): p for p in files if (m := TRANSCRIPT.fullmatch(p.name))}
    calls = open_calls(files, (call for call, _ in sides), args.out / "audio", args.jobs)
    untold = {p.stem.lower() for p in files if p.suffix.lower() == ".sph"} - calls.keys()
    if untold:
        log.warning("%d calls have no transcript and are not used: %s ...", len(untold), min(untold))
    found = [u for (call, side), path in sorted(sides.items()) for u in read_transcript(path, calls[call], side, said)]
    good, bad = parted(found)
    if not good:
        raise UserError(f"LDC97S62 has no audio for swb_ms98_transcriptions: {bad[0].where if bad else 'no texts'}")
    return good, bad


def read_test(stm: Path, files: list[Path], args: argparse.Namespace) -> tuple[list[Utt], list[Bad]]:
    """Utterances of a part of a test, and what is wrong with the rest."""
    wanted = {line.split()[0] for line in stm.read_text("utf-8").splitlines() if not line.startswith(";;")}
    return parted(read_set(stm, open_calls(files, wanted, args.out / "audio", args.jobs)))


def parted(items: list[Utt | Bad]) -> tuple[list[Utt], list[Bad]]:
    return [i for i in items if isinstance(i, Utt)], [i for i in items if isinstance(i, Bad)]


def limited(utts: list[Utt], minutes: float) -> list[Utt]:
    """As many utterances, in the order of a hash, as fill ``minutes`` (0: all)."""
    if not minutes:
        return utts
    taken, left = [], 60 * minutes
    for utt in sorted(utts, key=lambda u: fraction(u.id)):
        left -= utt.duration
        if left < 0:
            break
        taken.append(utt)
    return taken


def write_language(dictionary: Dictionary, train: list[Utt], fisher: list[Path], out: Path) -> None:
    """``lexicon.txt``, ``guessed.tsv`` (words that the dictionary lacks) and, with its transcripts, ``fisher.txt``."""
    text, guessed = lexicon(dictionary, (u.text.split() for u in train))
    write_text(out / "lexicon.txt", text)
    write_text(out / "guessed.tsv", "".join(f"{w}\t{how}\n" for w, how in guessed.items()))
    log.info("lexicon: %d words of %s, %d others guessed", len(dictionary.prons), DICTIONARY, len(guessed))
    (out / "fisher.txt").unlink(missing_ok=True)
    if more := "".join(f"{line}\n" for path in fisher for line in fisher_lines(path)):
        write_text(out / "fisher.txt", more)
        log.info("fisher.txt: %d lines", more.count("\n"))


def fisher_lines(path: Path) -> Iterator[str]:
    """Texts of a transcript (``BEGIN END A: TEXT`` lines) in our words: no marks of noise or doubt, T V for t._v."""
    if path.suffix != ".txt":
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if said := FISHER.match(line):
            text = re.sub(r"\[[^]]*\]|\(\(|\)\)|[.,?!]_?", " ", said[1])
            if text := " ".join(w for w in text.upper().split() if w.strip("-")):
                yield text
