"""Lattices with another language model against decoding with it, and against all paths of the grammar."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pytest
from test_graph import lang_dir, make_hmm  # noqa: F401 (a fixture)
from test_hypotheses_of_lattices import best_paths, random_lattice

from asr_parallel.config import RescoreConfig
from asr_parallel.decode import rescore
from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.graph import compile_graph
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.decode.rescore import of_ngram, rescored
from asr_parallel.decode.search import Beams
from asr_parallel.decode.search_graph import Graph
from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.ngram import kneser_ney, write_arpa
from asr_parallel.lang.run import write_grammar, write_lang
from asr_parallel.log import UserError

NAMES = ["<eps>", "A", "AB", "B"]
LMWT = 7.0


def model(seed, order=3, words=("A", "AB", "B")):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(len(words)))
    return kneser_ney([list(rng.choice(words, rng.integers(1, 6), p=p)) for _ in range(40)], order)


def cheapest(lm, words):
    """Least cost of a sentence over all choices to back off, by recursion over the arrays of the model."""
    tables = [
        {tuple(lm.words[i] for i in g): (-p, -b) for g, p, b in zip(grams.tolist(), logp, backoff)}
        for grams, logp, backoff in zip(lm.grams, lm.logp, lm.backoff)
    ]
    states = {gram[:-1] for table in tables for gram in table}

    def walk(history, left):
        while history and history not in states:
            history = history[1:]
        if not left:
            return 0.0
        found = [np.inf]
        gram = (*history, left[0])
        if gram in tables[len(gram) - 1]:
            after = gram[-(lm.order - 1) :] if lm.order > 1 else ()
            found.append(tables[len(gram) - 1][gram][0] + walk(after, left[1:]))
        if history:
            found.append(tables[len(history) - 1][history][1] + walk(history[1:], left))
        return min(found)

    return walk(("<s>",), (*words, "</s>"))


def part(lm, scale):
    states = of_ngram(lm)
    return states, states.label_of(NAMES, "lm"), scale


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_other_model_is_put_on(seed, order):
    """Put a trigram on, take it off and put another one on: every word sequence has the costs of that."""
    raw = random_lattice(seed)
    first, second = model(1), model(2, order)
    once = rescored(raw, [part(first, 1.0)])
    twice = rescored(once, [part(first, -1.0), part(second, 1.0)])
    before = best_paths(raw, LMWT)
    for lattice, lm in ((once, first), (twice, second)):
        after = best_paths(lattice, LMWT)
        assert after.keys() == before.keys()
        for words, (graph, acoustic) in before.items():
            expected = graph + cheapest(lm, [NAMES[w] for w in words]), acoustic
            assert after[words] == pytest.approx(expected, abs=2e-3), words


def test_unfinished_lattice_gets_no_sentence_end():
    lattice, lm = random_lattice(3), model(1)
    whole, part_of = (best_paths(rescored(lattice, [part(lm, 1.0)], ended), LMWT) for ended in (True, False))
    assert part_of.keys() == whole.keys()
    for words, (graph, _) in best_paths(lattice, LMWT).items():
        states, labels, _ = part(lm, 1.0)
        history, total = states.start, graph
        for word in words:
            history, cost = states.step(history, labels[word])
            total += cost
        assert part_of[words][0] == pytest.approx(total, abs=2e-3)
        assert whole[words][0] == pytest.approx(total + states.final(history), abs=2e-3)


def test_back_off_may_be_cheaper_than_the_ngram():
    """Otherwise the tests above would say nothing of it."""
    lm = model(1)
    sentences = [(a, b, c) for a in NAMES[1:] for b in NAMES[1:] for c in NAMES[1:]]
    proper = [-np.nansum(lm.score([list(s)])) for s in sentences]
    assert any(cheapest(lm, s) < p - 0.01 for s, p in zip(sentences, proper))


def test_rescoring_equals_decoding(lang_dir):  # noqa: F811
    """A lattice of all paths that one graph has, given the grammar of another, is the other graph's lattice."""
    hmm = make_hmm(1)
    write_lang(Lexicon.read(lang_dir / "lexicon.txt"), lang_dir)
    names = read_symbols(lang_dir / "words.txt")
    models = [model(3, words=("A", "AB", "B", "BEE")), model(4, words=("A", "AB", "B", "BEE"))]
    loglikes = np.random.default_rng(0).normal(-20, 6, (7, hmm.tree.num_pdfs)).astype(np.float32)
    found = []
    for lm in models:
        write_grammar(lm, lang_dir)
        compile_graph(lang_dir, hmm, lang_dir / "graph")
        scorer = Scorer("mfcc", 1, hmm.tree.num_pdfs, lambda feats: feats)
        beams = Beams(1000.0, 1000.0, 100_000, 100_000)
        found.append(Decoder(Graph.read(lang_dir / "graph" / "HCLG.fst"), scorer, 1 / LMWT, beams).decode(loglikes))
    assert [d.flag for d in found] == ["ok", "ok"]
    parts, spoken = [], [n if n in ("A", "AB", "B", "BEE") else "<eps>" for n in names]
    for lm, scale in zip(models, (-1.0, 1.0)):
        states = of_ngram(lm)
        parts.append((states, states.label_of(spoken, lm), scale))
    got, expected = best_paths(rescored(found[0].lattice, parts), LMWT), best_paths(found[1].lattice, LMWT)
    assert len(expected) > 40
    assert got.keys() == expected.keys()
    for words, pair in expected.items():
        total = [graph + acoustic / LMWT for graph, acoustic in (got[words], pair)]
        assert total[0] == pytest.approx(total[1], abs=1e-2), words


@pytest.fixture
def config(tmp_path):
    lattices = [*(random_lattice(seed) for seed in (1, 2, 4)), WordLattice.empty()]
    lattices = [rescored(x, [part(model(1), 1.0)]) for x in lattices]
    flags = ["ok", "ok", "retried", "failed"]
    Lattices.join([f"s-{i}" for i in range(4)], flags, lattices, dict(enumerate(NAMES))).save(
        tmp_path / "tri" / "decode_dev" / "lattices.npz"
    )
    (tmp_path / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate([*NAMES, "#0", "<s>", "</s>"])))
    write_grammar(model(1), tmp_path)
    write_arpa(model(2), tmp_path / "new.arpa.gz")
    return RescoreConfig(
        jobs=1, model=tmp_path / "tri", lang=tmp_path, lm=tmp_path / "new.arpa.gz", out=tmp_path / "new", sets=["dev"]
    )


def test_verb(config):
    rescore.run(config)
    before, after = (Lattices.load(d / "decode_dev" / "lattices.npz") for d in (config.model, config.out))
    assert (after.utts, after.flags) == (before.utts, before.flags)
    for row in range(3):
        old, new = best_paths(before.one(row), LMWT), best_paths(after.one(row), LMWT)
        for words, (graph, _) in old.items():
            names = [before.words[w] for w in words]
            expected = graph - cheapest(model(1), names) + cheapest(model(2), names)
            same = tuple(after.words.index(w) for w in names)
            assert new[same][0] == pytest.approx(expected, abs=5e-3)
    assert "s-3\n" in (config.out / "decode_dev" / "hyp.txt").read_text()


def test_same_model_gives_the_same_costs(config):
    write_arpa(model(1), config.lm)
    rescore.run(config)
    before, after = (Lattices.load(d / "decode_dev" / "lattices.npz") for d in (config.model, config.out))
    assert after.costs(LMWT, 0.0) == pytest.approx(before.costs(LMWT, 0.0), abs=5e-3)
    assert after.best_all(LMWT, 0.0) == before.best_all(LMWT, 0.0)


def test_words_that_the_model_lacks_are_an_error(config):
    write_arpa(model(2, words=("A", "B")), config.lm)
    with pytest.raises(UserError, match=r"new\.arpa\.gz has no <unk> and lacks 1 words of the lattices, such as AB"):
        rescore.run(config)


def test_unknown_words_are_unk(config):
    write_arpa(model(2, words=("A", "B", "<unk>")), config.lm)
    rescore.run(config)
    after = Lattices.load(config.out / "decode_dev" / "lattices.npz")
    before = Lattices.load(config.model / "decode_dev" / "lattices.npz")
    assert [len(best_paths(after.one(row))) for row in range(3)] == [
        len(best_paths(before.one(row))) for row in range(3)
    ]


@pytest.mark.parametrize("wrong", [{"lmwt": 0.0}, {"beam": -1.0}, {"out": None}])
def test_impossible_options(config, wrong):
    wrong = {k: config.model if v is None else v for k, v in wrong.items()}
    with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
        rescore.run(dataclasses.replace(config, **wrong))


def test_arpa_that_is_damaged_is_named(config):
    text = gzip.decompress(config.lm.read_bytes()).decode()
    config.lm.write_bytes(gzip.compress(text.replace("\n\\end\\", "\\end\\").encode()))
    with pytest.raises(UserError, match=r"new\.arpa\.gz:\d+: no empty line before"):
        rescore.run(config)
