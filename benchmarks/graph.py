"""Time and memory that a large decoding graph takes, beside what was expected of it.

    python benchmarks/graph.py --model exp/fotaq/tri --words 200000 --ngrams 1500000

Lexicon and trigram are made up: words are stems with endings, n-grams are drawn from Zipf's law, and go through an
ARPA file as a user's would.  Phones and tree are those of the model.  Prints JSON lines.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from figure import Figure, command_line

from asr_parallel.align.hmm import HmmModel
from asr_parallel.decode.graph import compile_graph
from asr_parallel.decode.graph_size import BYTES_PER_ARC
from asr_parallel.files import read_json
from asr_parallel.free_memory import peak_memory
from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.lexicon import BOS, EOS, SILENCE_PHONES, SILENCE_WORD, SPN, UNK, Lexicon
from asr_parallel.lang.mix import set_backoffs, sorted_ngram
from asr_parallel.lang.ngram import Ngram, write_arpa
from asr_parallel.lang.run import write_grammar, write_lang
from asr_parallel.log import setup

T = TypeVar("T")
SHARES = (0.6, 0.4)  # of the n-grams that are no words: bigrams, trigrams
DISCOUNT = 0.5  # of the count of each n-gram


def lexicon(words: int, phones: list[str], rng: np.random.Generator) -> Lexicon:
    """Words of six or seven phones in the mean, of which many share their beginnings."""
    stems = [rng.choice(phones, rng.integers(2, 8)).tolist() for _ in range(words // 4)]
    endings = [rng.choice(phones, rng.integers(0, 4)).tolist() for _ in range(200)]
    prons: dict[str, tuple[tuple[str, ...], ...]] = {SILENCE_WORD: ((SILENCE_PHONES[0],),), UNK: ((SPN,),)}
    for n in range(words):
        pron = (*stems[rng.integers(len(stems))], *endings[rng.integers(len(endings))])
        prons[f"W{n:07d}"] = (tuple(str(p) for p in pron),)
    return Lexicon(dict(sorted(prons.items())))


def drawn(histories: np.ndarray, size: int, words: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """``size`` different n-grams that go on from likely ``histories`` [H, k], with their counts."""
    rows = np.zeros((0, histories.shape[1] + 1), np.int64)
    counts: np.ndarray = np.zeros(0, np.int64)
    while len(rows) < size:
        first = histories[zipf(len(histories), size, rng)]
        longer = np.concatenate([first, 1 + zipf(words - 1, size, rng)[:, None]], axis=1)  # all but <s>
        rows, place = np.unique(np.concatenate([rows, longer]), axis=0, return_inverse=True)
        counts = np.bincount(place.reshape(-1), np.concatenate([counts, np.ones(size, np.int64)])).astype(np.int64)
    kept = np.sort(np.argsort(-counts, kind="stable")[:size])
    return rows[kept], counts[kept]


def zipf(size: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers below ``size``, each about in proportion to 1 / (1 + it)."""
    return np.minimum((size + 1) ** rng.random(draws) - 1, size - 1).astype(np.int64)


def trigram(words: list[str], ngrams: int, rng: np.random.Generator) -> Ngram:
    """A model of ``ngrams`` n-grams in all, whose probabilities sum to one."""
    names = [BOS, EOS, *words]
    p = 1.0 / np.arange(1, len(names) + 1)
    p[0] = 0.0
    with np.errstate(divide="ignore"):
        levels = [(np.arange(len(names))[:, None], np.log(p / p.sum()), np.zeros(len(names)))]
    for share in SHARES:
        before = levels[-1][0]
        rows, counts = drawn(before[before[:, -1] != 1], int(share * (ngrams - len(names))), len(names), rng)
        _, history = np.unique(rows[:, :-1], axis=0, return_inverse=True)
        history = history.reshape(-1)
        levels.append((rows, np.log((counts - DISCOUNT) / np.bincount(history, counts)[history]), np.zeros(len(rows))))
    model = sorted_ngram(names, levels)
    set_backoffs(model)
    return model


def make_lang(lang: Path, model_dir: Path, words: int, ngrams: int) -> float:
    """A language directory, its G from an ARPA file; gives the seconds that reading that took."""
    rng = np.random.default_rng(0)
    hmm = HmmModel.load(model_dir / "hmm.json")
    made = lexicon(words, [p for p in hmm.phones[1:] if p not in SILENCE_PHONES], rng)
    own = [w for w in made.prons if w != SILENCE_WORD]
    write_arpa(trigram([own[i] for i in rng.permutation(len(own))], ngrams, rng), lang / "made_up.arpa")
    start = time.monotonic()
    model = read_arpa(lang / "made_up.arpa")
    seconds = time.monotonic() - start
    write_lang(made, lang)
    write_grammar(model, lang)
    return seconds


def make_graph(lang: Path, model_dir: Path, max_memory: float) -> tuple[float, float]:
    """(seconds, bytes at most) that the graph took, beyond what a process has that has read its code."""
    setup()
    before, start = peak_memory(), time.monotonic()
    compile_graph(lang, HmmModel.load(model_dir / "hmm.json"), lang / "graph", max_memory=max_memory)
    return time.monotonic() - start, peak_memory() - before


def alone(function: Callable[..., T], *arguments: object) -> T:
    """Run in a new process, whose memory is that of ``function``."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("exp/fotaq/tri"))
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--ngrams", type=int, default=1_500_000)
    parser.add_argument("--max-memory", type=float, default=24.0, help="GiB that the graph may be expected to take")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lang = Path(folder)
        reading = alone(make_lang, lang, args.model, args.words, args.ngrams)
        seconds, peak = alone(make_graph, lang, args.model, args.max_memory * 2**30)
        made = read_json(lang / "graph" / "graph.json")
    expected = BYTES_PER_ARC * made["expected_arcs"]
    for name, value, unit, target in (
        ("graph_arpa_seconds", reading, "s", ""),
        ("graph_seconds", seconds, "s", ""),
        ("graph_arcs", made["arcs"] / 1e6, "million", ""),
        ("graph_arcs_vs_expected", made["arcs"] / made["expected_arcs"], "ratio", ""),
        ("graph_memory", peak / 2**30, "GiB", "<= 24"),
        ("graph_memory_vs_expected", peak / expected, "ratio", "<= 1"),
    ):
        Figure(name, value, unit, target, command_line()).show()


if __name__ == "__main__":
    main()
