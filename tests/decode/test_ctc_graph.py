"""The graph of CTC against all paths, and decoding with it against all word sequences."""

import itertools
import math

import kaldifst
import numpy as np
import pytest
from test_graph import assert_same, language

from asr_parallel.align.ctc import ctc_hmm, save_ctc
from asr_parallel.config import GraphConfig
from asr_parallel.decode.acoustic import Scorer
from asr_parallel.decode.ctc_graph import token_transducer
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.make_graph import run
from asr_parallel.decode.search import Beams
from asr_parallel.decode.search_graph import Graph
from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.ngram import kneser_ney
from asr_parallel.lang.run import write_grammar, write_lang

PRONS = {
    "!SIL": (("SIL",),),
    "<unk>": (("SPN",),),
    "A": (("a",), ("b", "a")),
    "AA": (("a", "a"),),
    "B": (("b",),),
    "BEE": (("b",),),
}
WORDS = [w for w in PRONS if w not in ("!SIL", "<unk>")]
LM = kneser_ney([["A", "B"], ["AA"], ["BEE", "A"], ["A", "B", "B"], ["B"]], 2)
OUTPUTS = ["SIL", "SPN", "a", "b"]  # 0 is the blank


def said(path):
    """Phones that a path of outputs stands for."""
    return tuple(OUTPUTS[k] for k, _ in itertools.groupby(path) if k)


def sentence_cost(words):
    number, total = {w: i for i, w in enumerate(LM.words)}, 0.0
    for before, word in itertools.pairwise(("<s>", *words, "</s>")):
        gram = np.array([[number[before], number[word]]])
        row = LM.find(gram)[0]
        ways = [LM.backoff[0][LM.find(gram[:, :1])[0]] + LM.logp[0][LM.find(gram[:, 1:])[0]]]
        total -= max(ways + ([LM.logp[1][row]] if row >= 0 else []))
    return total


def sentences(most):
    """{phones: {words: cost}} of all sentences of at most so many words."""
    table = {}
    for n in range(most + 1):
        for words in itertools.product(WORDS, repeat=n):
            for prons in itertools.product(*(PRONS[w] for w in words)):
                table.setdefault(sum(prons, ()), {})[words] = sentence_cost(words)
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("ctc")
    write_lang(Lexicon(PRONS), root / "lang")
    write_grammar(LM, root / "lang")
    save_ctc(ctc_hmm(root / "lang"), root / "model")
    run(GraphConfig(model=root / "model", lang=root / "lang", out=root / "graph"))
    return root


def test_graph_is_brute_force(folder):
    fst = kaldifst.StdConstFst.read(str(folder / "graph" / "HCLG.fst"))
    symbols, known = read_symbols(folder / "graph" / "words.txt"), sentences(5)
    for frames in range(1, 6):
        expected = {}
        for path in itertools.product(range(len(OUTPUTS)), repeat=frames):
            for words, cost in known.get(said(path), {}).items():
                expected[tuple(k + 1 for k in path), words] = cost
        assert_same(language(fst, frames, symbols), expected)


@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_the_best_of_all_sentences(folder, seed):
    """Each sentence counts by its best path: that of its labels through the posteriors."""
    logp = np.log(np.random.default_rng(seed).dirichlet(0.5 * np.ones(len(OUTPUTS)), 6)).astype(np.float32)
    lmwt = 2.0
    best = {}
    known = sentences(4)
    for path in itertools.product(range(len(OUTPUTS)), repeat=6):
        for words, cost in known.get(said(path), {}).items():
            total = cost - logp[np.arange(6), path].sum() / lmwt
            best[words] = min(total, best.get(words, math.inf))
    graph = Graph.read(folder / "graph" / "HCLG.fst")
    scorer = Scorer("fbank", 4, len(OUTPUTS), lambda feats: feats)
    found = Decoder(graph, scorer, 1 / lmwt, Beams(100.0, 50.0, 10000)).decode(logp)
    table = dict(enumerate(read_symbols(folder / "graph" / "words.txt")))
    lattices = Lattices.join(["u"], [found.flag], [found.lattice], table)
    words = min(best, key=lambda w: best[w])
    assert lattices.best("u", lmwt, 0.0) == list(words)
    assert lattices.costs(lmwt, 0.0)[0] == pytest.approx(best[words], abs=2e-3)


def test_token_transducer_collapses(tmp_path):
    """All paths of four frames: one way through T each, to the labels that the path stands for."""
    contexts = [[], [3], [-7], [4]]
    fst = token_transducer(contexts, outputs=4)
    names = {3: 1, 4: 3}
    for path in itertools.product(range(4), repeat=4):
        found = kaldifst.compose(kaldifst.make_linear_acceptor([k + 1 for k in path]), fst)
        if 1 in path:  # an output that no label has
            assert found.num_states == 0
            continue
        outputs = [names[k + 1] for k, _ in itertools.groupby(path) if k]
        assert kaldifst.get_linear_symbol_sequence(kaldifst.shortest_path(found))[2] == outputs
        assert found.num_states == 5


def test_other_phones_and_a_graph_that_is_there(folder, caplog):
    before = (folder / "graph" / "HCLG.fst").stat().st_mtime_ns
    run(GraphConfig(model=folder / "model", lang=folder / "lang", out=folder / "graph"))
    assert (folder / "graph" / "HCLG.fst").stat().st_mtime_ns == before
