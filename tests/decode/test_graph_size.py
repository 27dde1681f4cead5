"""The size that a graph is expected to have, against composition; refusal, and graphs that are kept."""

from __future__ import annotations

import logging

import kaldifst
import numpy as np
import pytest
from test_graph import PRONS, lang_dir, make_hmm  # noqa: F401 (a fixture)
from test_rescore import model

from asr_parallel.decode.graph import compile_graph
from asr_parallel.decode.graph_size import expected_size, refuse_if_too_large
from asr_parallel.files import read_json
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.fst import grammar_fst
from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.run import write_grammar, write_lang
from asr_parallel.log import UserError


@pytest.fixture
def made(lang_dir):  # noqa: F811
    """A language directory with L and G."""
    write_lang(Lexicon(PRONS), lang_dir)
    write_grammar(model(3, words=("A", "AB", "B", "BEE")), lang_dir)
    return lang_dir


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", [1, 2, 3])
def test_states_are_those_of_the_composition(lang_dir, seed, order):  # noqa: F811
    """Counted from pronunciations and n-grams, where OpenFst composes; it reaches one state more, the start."""
    rng = np.random.default_rng(seed)
    names = [f"W{i}" for i in range(12)]
    prons = {n: {tuple(rng.choice(["a", "b", "c"], rng.integers(1, 6)).tolist()) for _ in range(2)} for n in names}
    lexicon = Lexicon({"!SIL": (("SIL",),), "<unk>": (("SPN",),)} | {n: tuple(sorted(p)) for n, p in prons.items()})
    write_lang(lexicon, lang_dir)
    words = {w: i for i, w in enumerate(read_symbols(lang_dir / "words.txt"))}
    lm = model(seed, order, names)
    grammar = grammar_fst(lm, words)
    fst = grammar.to_fst()
    kaldifst.arcsort(fst, "ilabel")
    lg = kaldifst.compose(kaldifst.StdVectorFst.read(str(lang_dir / "L_disambig.fst")), fst)
    size = expected_size(lexicon, words, grammar, 3)
    assert size.states == pytest.approx(lg.num_states, abs=3)
    assert size.ngrams == len(grammar.arcs)


def test_too_large_is_refused_before_anything_is_made(made):
    grammar = FstArrays.from_fst(kaldifst.StdVectorFst.read(str(made / "G.fst")))
    words = {w: i for i, w in enumerate(read_symbols(made / "words.txt"))}
    size = expected_size(Lexicon(PRONS), words, grammar, 1)
    refuse_if_too_large(size, size.memory)
    with pytest.raises(UserError, match=f"of 6 words and {len(grammar.arcs)} n-grams .* prune the language model"):
        refuse_if_too_large(size, size.memory / 2)
    with pytest.raises(UserError, match="rescore"):
        compile_graph(made, make_hmm(1), made / "graph", max_memory=100.0)
    assert not (made / "graph" / "HCLG.fst").exists()


def test_graph_of_the_same_content_is_kept(made, monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    hmm, out = make_hmm(3), made / "graph"
    compile_graph(made, hmm, out)
    first = (out / "HCLG.fst").read_bytes()
    figures = read_json(out / "graph.json")
    assert figures["arcs"] == len(FstArrays.read(out / "HCLG.fst").arcs)

    def times_made():
        caplog.clear()
        with caplog.at_level("INFO"):
            compile_graph(made, hmm, out)
        return caplog.text.count("at most")

    assert times_made() == 0
    assert "made of the same" in caplog.text
    (out / "HCLG.fst").write_bytes(first[:-8])
    assert times_made() == 1
    assert (out / "HCLG.fst").read_bytes() == first
    hmm.log_probs[0] -= 0.5
    assert times_made() == 1
    assert (out / "HCLG.fst").read_bytes() != first
    write_grammar(model(4, words=("A", "AB", "B", "BEE")), made)
    assert times_made() == 1
    assert times_made() == 0
