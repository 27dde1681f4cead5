"""Graphs of pieces of words, against brute force: silence may stand between words and nowhere else."""

import itertools
import math
from collections import defaultdict

import kaldifst
import numpy as np
import pytest
from test_graph import assert_same, hmm_paths, language, make_hmm

from asr_parallel.config import HypothesesConfig
from asr_parallel.decode.graph import TrainingGraphs, compile_graph
from asr_parallel.decode.lattice import Lattices, WordLattice
from asr_parallel.decode.taken import take
from asr_parallel.lang.fst import disambiguated_fst, lexicon_fst, pairs_of
from asr_parallel.lang.graphemes import spelt
from asr_parallel.lang.lexicon import EPS, disambiguate, phone_table, read_symbols, word_table
from asr_parallel.lang.ngram import kneser_ney
from asr_parallel.lang.pieces import Pieces
from asr_parallel.lang.run import write_grammar, write_lang

LEXICON = spelt(["▁A", "▁B", "B", "AB", "▁BA"])
ALONE = ("!SIL", "<unk>")


def is_said(pieces):
    """Whether the pieces make words: what goes on with a word comes after a piece."""
    return all(p.startswith("▁") or p in ALONE or (q and q not in ALONE) for q, p in zip(("", *pieces), pieces))


def streams(pieces, pairs, silence=("SIL",)):
    """(phones, cost) of all ways to say pieces, with silence or none, each 1/2, before words and at the end."""
    if not is_said(pieces):
        return
    prons = [[pron for word, pron in pairs if word == piece] for piece in pieces]
    free = [piece.startswith("▁") or piece in ALONE for piece in pieces] + [True]
    for spoken in itertools.product(*prons):
        for pauses in itertools.product(*[((), silence) if f else ((),) for f in free]):
            phones = [p for pause, pron in zip(pauses, spoken) for p in (*pause, *pron)] + [*pauses[-1]]
            yield tuple(phones), sum(free) * math.log(2)


def paths(fst, pieces, words, names):
    """{phones: least cost} of the paths whose output is ``pieces``."""
    found = kaldifst.compose(fst, kaldifst.make_linear_acceptor([words[p] for p in pieces]))
    table = {}
    waiting = [(found.start, (), 0.0)] if found.num_states else []
    while waiting:
        state, phones, cost = waiting.pop()
        if math.isfinite(found.final(state).value):
            table[phones] = min(cost + found.final(state).value, table.get(phones, math.inf))
        for arc in kaldifst.ArcIterator(found, state):
            more = (names[arc.ilabel],) if arc.ilabel else ()
            waiting.append((arc.nextstate, phones + more, cost + arc.weight.value))
    return table


def tables():
    phones = phone_table(LEXICON.phones, disambiguate(LEXICON)[1])
    words = word_table(LEXICON.prons)
    return phones, words, {w: i for i, w in enumerate(words)}


def some_pieces(most=3):
    return [s for n in range(most + 1) for s in itertools.product(LEXICON.prons, repeat=n)]


def test_lexicon_is_brute_force():
    phones, _, number = tables()
    fst = lexicon_fst(pairs_of(LEXICON.prons), {p: i for i, p in enumerate(phones)}, number)
    for pieces in some_pieces():
        expected = {}
        for stream, cost in streams(pieces, pairs_of(LEXICON.prons)):
            expected[stream] = min(cost, expected.get(stream, math.inf))
        got = paths(fst, pieces, number, phones)
        assert set(got) == set(expected), pieces
        assert all(got[s] == pytest.approx(c, abs=1e-5) for s, c in expected.items())


def test_a_stream_with_marks_has_one_reading():
    phones, words, number = tables()
    marked, highest = disambiguate(LEXICON)
    fst = disambiguated_fst(LEXICON, phones, words)
    readings = defaultdict(set)
    for pieces in some_pieces():
        got = paths(fst, pieces, number, phones)
        assert set(got) == {s for s, _ in streams(pieces, marked, ("SIL", f"#{highest + 1}"))}
        for stream in got:
            readings[stream].add(pieces)
    assert all(len(found) == 1 for found in readings.values())


def test_back_off_passes_once_between_any_two_pieces():
    """Two ways for the same stream would add up when L o G is determinised, and make back-off cheaper than it is."""
    phones, words, number = tables()
    fst = disambiguated_fst(LEXICON, phones, words)
    backoff = number["#0"]
    for pieces in (("▁A", "B"), ("▁A", "▁B"), ("▁BA", "AB"), ("<unk>", "▁B")):
        first, second = (number[p] for p in pieces)
        linear = kaldifst.make_linear_acceptor([backoff, first, backoff, second, backoff])
        found = kaldifst.compose(fst, linear)
        streams_seen = [s for s in all_streams(found) if "SIL" not in [phones[p] for p in s]]
        assert len(streams_seen) == 1, pieces


def all_streams(fst):
    """Input labels of every path, as often as there are paths."""
    seen, waiting = [], [(fst.start, ())] if fst.num_states else []
    while waiting:
        state, labels = waiting.pop()
        if math.isfinite(fst.final(state).value):
            seen.append(labels)
        for arc in kaldifst.ArcIterator(fst, state):
            waiting.append((arc.nextstate, (*labels, arc.ilabel) if arc.ilabel else labels))
    return seen


@pytest.fixture
def lang_dir(tmp_path):
    """A language directory of pieces with L and a bigram G."""
    write_lang(LEXICON, tmp_path)
    lines = [["▁A", "B", "▁BA"], ["▁BA", "AB"], ["▁B"], ["▁A", "▁A"], ["▁BA", "B", "B"]]
    model = kneser_ney(lines, 2, (w for w in LEXICON.prons if w not in ALONE))
    write_grammar(model, tmp_path)
    return tmp_path, model


def sentence_cost(model, pieces):
    """Least cost in G, where a word may be reached by back-off although its bigram is there."""
    number, total = {w: i for i, w in enumerate(model.words)}, 0.0
    for before, word in itertools.pairwise(("<s>", *pieces, "</s>")):
        gram = np.array([[number[before], number[word]]])
        row = model.find(gram)[0]
        ways = [model.backoff[0][model.find(gram[:, :1])[0]] + model.logp[0][model.find(gram[:, 1:])[0]]]
        ways += [model.logp[1][row]] if row >= 0 else []
        total -= max(ways)
    return total


@pytest.mark.parametrize("width", [1, 3])
def test_hclg_is_brute_force(lang_dir, width):
    folder, model = lang_dir
    hmm = make_hmm(width)
    compile_graph(folder, hmm, folder / "graph", transition_scale=0.7, self_loop_scale=0.3)
    fst = kaldifst.StdConstFst.read(str(folder / "graph" / "HCLG.fst"))
    symbols = read_symbols(folder / "graph" / "words.txt")
    said = [p for p in some_pieces() if is_said(p) and not set(p) & set(ALONE)]
    for frames in range(2, 6):
        expected = {}
        for pieces in said:
            for phones, cost in streams(pieces, pairs_of(LEXICON.prons)):
                ids = tuple(hmm.phones.index(p) for p in phones)
                for pdfs, more in hmm_paths(hmm, ids, frames, 0.7, 0.3).items():
                    total = cost + more + sentence_cost(model, pieces)
                    expected[pdfs, pieces] = min(total, expected.get((pdfs, pieces), math.inf))
        got = language(fst, frames, symbols)
        assert_same(got, expected)


def test_transcripts_are_aligned_as_they_are_spelt(tmp_path):
    """A word that no lexicon has, in the graph of pieces and in that of a lexicon that has it."""
    words = ["ABBA", "BA", "BAB"]
    pieces = Pieces.train(["ABBA", "BA", "AB", "B"] * 3, 8)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    write_lang(spelt(words), whole)
    write_lang(spelt(pieces.vocabulary), parts)
    pieces.write(parts)
    hmm = make_hmm(3)
    assert read_symbols(parts / "phones.txt")[:5] == [EPS, "SIL", "SPN", "a", "b"]
    graphs = [TrainingGraphs(folder, hmm) for folder in (whole, parts)]
    for said in (["BAB"], ["BA", "BA"], ["ZEBRA", "BA"], []):
        fsts = [g.compile(said) for g in graphs]
        for frames in range(10):
            a, b = ({key[0]: cost for key, cost in language(f, frames, ["?"] * 99).items()} for f in fsts)
            assert_same(a, b, 1e-5)
        counted = [
            sum(arc.olabel > 0 for s in kaldifst.StateIterator(f) for arc in kaldifst.ArcIterator(f, s)) for f in fsts
        ]
        assert counted[0] == counted[1]


def test_hypotheses_of_a_lattice_are_words():
    costs = np.zeros(3, np.float32)
    numbers = [np.array(x, np.int32) for x in ([0, 1, 2, 3], [0, 1, 2], [1, 2, 3], [1, 2, 3])]
    lattice = WordLattice(*numbers, costs, costs)
    lattices = Lattices.join(["u"], ["ok"], [lattice], {0: "<eps>", 1: "▁BA", 2: "AB", 3: "▁A"})
    assert lattices.best("u", 10, 0.0) == ["BAAB", "A"]
    assert lattices.best_all(10, 0.0) == {"u": ["BAAB", "A"]}
    taken = take(HypothesesConfig(), lattices, 0, (10.0, 0.0), None)
    assert taken.words == ["BAAB", "A"]
    assert len(taken.chosen.confidence) == 2
