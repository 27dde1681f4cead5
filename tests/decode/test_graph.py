"""Graphs against brute force: every path of a tiny task is written down by hand-made expansion."""

import itertools
import math
import random
from collections import defaultdict

import kaldifst
import numpy as np
import pytest

from asr_parallel.align.hmm import ContextTree, HmmModel, Topology
from asr_parallel.decode.graph import TrainingGraphs, compile_graph
from asr_parallel.decode.graph_identity import tree_hash
from asr_parallel.files import read_json
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.lexicon import Lexicon, disambiguate, phone_table, read_symbols, word_table, write_symbols
from asr_parallel.lang.lexicon_probs import EVEN, OTHER, EntryProbs, LexiconProbs
from asr_parallel.lang.run import write_lang
from asr_parallel.log import UserError

LEFT_TO_RIGHT = (((0, 0.6), (1, 0.4)), ((1, 0.7), (2, 0.3)))
ERGODIC = (((0, 0.5), (1, 0.3), (2, 0.2)), ((1, 0.4), (2, 0.6)), ((2, 0.5), (1, 0.2), (3, 0.3)))
PRONS = {
    "!SIL": (("SIL",),),
    "<unk>": (("SPN",),),
    "A": (("a",), ("b", "a")),
    "AB": (("a", "b"),),
    "B": (("b",),),
    "BEE": (("b",),),
}


B = 4  # the only question of triphone trees: is the neighbour ``b``?


def make_hmm(width, seed=0):
    """Phones a and b with two states, SIL with three; their triphones ask both neighbours."""
    phones = ["<eps>", "SIL", "SPN", "a", "b"]
    topology = Topology(((), ERGODIC, LEFT_TO_RIGHT, LEFT_TO_RIGHT, LEFT_TO_RIGHT))
    pdf = itertools.count()
    roots: list = [[]]
    for phone in range(1, len(phones)):
        if width == 1 or phone <= 2:
            roots.append([next(pdf) for _ in topology.states[phone]])
        else:
            roots.append([[0, 0, next(pdf), [1, 0, next(pdf), next(pdf)]] for _ in topology.states[phone]])
    hmm = HmmModel.start(phones, [1, 2], topology, ContextTree(width, roots, [[B]]))
    rng = np.random.default_rng(seed)
    for pdf in range(hmm.tree.num_pdfs):
        n = len(hmm.transitions(pdf))
        hmm.log_probs[pdf, :n] = np.log(rng.dirichlet(np.ones(n) * 3))
    return hmm


@pytest.fixture
def lang_dir(tmp_path):
    lexicon = Lexicon(PRONS)
    lexicon.write(tmp_path / "lexicon.txt")
    write_symbols(tmp_path / "phones.txt", phone_table(lexicon.phones, disambiguate(lexicon)[1]))
    write_symbols(tmp_path / "words.txt", word_table(PRONS))
    return tmp_path


def hmm_paths(hmm, phones, frames, scale, loop_scale):
    """All pdf sequences of ``frames`` frames through a phone sequence, with their least cost."""
    states = []
    for left, phone, right in zip((0, *phones), phones, (*phones[1:], 0)):
        states.append([hmm.tree.pdf(left, phone, right, s) for s in range(hmm.topology.num_states(phone))])
    paths = {}

    def extend(position, state, emitted, cost):
        if position == len(phones):
            if len(emitted) == frames:
                paths[emitted] = min(cost, paths.get(emitted, math.inf))
            return
        if len(emitted) == frames:
            return
        pdf = states[position][state]
        transitions = hmm.topology.states[phones[position]][state]
        p = np.exp(hmm.log_probs[pdf].astype(float))
        stay = sum(p[i] for i, (destination, _) in enumerate(transitions) if destination == state)
        for i, (destination, _) in enumerate(transitions):
            if destination == state:
                weight = -loop_scale * math.log(stay)
            else:
                weight = -scale * math.log(p[i] / (1 - stay)) - loop_scale * math.log(1 - stay)
            at = (position, destination) if destination < len(states[position]) else (position + 1, 0)
            extend(*at, (*emitted, pdf + 1), cost + weight)

    extend(0, 0, (), 0.0)
    return paths


def some_probs():
    """Random ones of all pronunciations but those of BEE, which are OTHER's."""
    rng = np.random.default_rng(5)
    entries = [(w, p) for w, prons in PRONS.items() if w != "BEE" for p in prons]
    keys = [*entries, ("<s>", ()), ("</s>", ()), (OTHER, ())]
    return LexiconProbs({key: EntryProbs(*rng.uniform(0.1, 0.9, 2), *rng.uniform(0.3, 3, 2)) for key in keys})


def phone_sequences(words, probs):
    """All (phones, cost) of words with optional silence."""
    names = [w if w in PRONS else "<unk>" for w in words]
    for prons in itertools.product(*(PRONS[w] for w in names)):
        for silences in itertools.product((False, True), repeat=len(words) + 1):
            begin, end = probs.of("<s>"), probs.of("</s>")
            phones, p = [], begin.silence_after if silences[0] else 1 - begin.silence_after
            phones += ["SIL"] if silences[0] else []
            for name, pron, silence in zip(names, prons, silences[1:]):
                entry = probs.of(name, pron)
                p *= entry.pron * (entry.after_silence if phones[-1:] == ["SIL"] else entry.after_word)
                p *= entry.silence_after if silence else 1 - entry.silence_after
                phones += [*pron, *(["SIL"] if silence else [])]
            yield phones, -math.log(p * end.pron * (end.after_silence if phones[-1:] == ["SIL"] else end.after_word))


def brute_force(hmm, sentences, frames, scale, loop_scale, probs=EVEN):
    """{(pdf + 1 sequence, words): least cost} for {words: cost}."""
    table = defaultdict(lambda: math.inf)
    for words, sentence_cost in sentences.items():
        for phones, cost in phone_sequences(words, probs):
            ids = tuple(hmm.phones.index(p) for p in phones)
            for pdfs, more in hmm_paths(hmm, ids, frames, scale, loop_scale).items():
                key = (pdfs, words)
                table[key] = min(table[key], sentence_cost + cost + more)
    return dict(table)


def language(fst, frames, symbols):
    """{(input labels, output words): least cost} of all paths with ``frames`` input labels."""
    arcs = [[(a.ilabel, a.olabel, a.weight.value, a.nextstate) for a in kaldifst.ArcIterator(fst, s)]
            for s in kaldifst.StateIterator(fst)]  # fmt: skip
    paths = {(fst.start, (), ()): 0.0}
    for _ in range(frames + 1):
        queue = list(paths)
        while queue:  # closure over epsilon arcs
            key = queue.pop()
            state, inputs, outputs = key
            for i, o, w, target in arcs[state]:
                if i == 0:
                    new = (target, inputs, (*outputs, symbols[o]) if o else outputs)
                    if paths[key] + w < paths.get(new, math.inf) - 1e-6:
                        paths[new] = paths[key] + w
                        queue.append(new)
        if len(next(iter(paths))[1]) == frames:
            break
        following = {}
        for (state, inputs, outputs), cost in paths.items():
            for i, o, w, target in arcs[state]:
                if i:
                    new = (target, (*inputs, i), (*outputs, symbols[o]) if o else outputs)
                    following[new] = min(cost + w, following.get(new, math.inf))
        paths = following
        if not paths:
            return {}
    table = {}
    for (state, inputs, outputs), cost in paths.items():
        final = fst.final(state).value
        if math.isfinite(final):
            key = (inputs, outputs)
            table[key] = min(cost + final, table.get(key, math.inf))
    return table


def assert_same(got, expected, tolerance=2e-3):
    assert set(got) == set(expected)
    for key, cost in expected.items():
        assert got[key] == pytest.approx(cost, abs=tolerance), key


@pytest.mark.parametrize("probs", [EVEN, some_probs()], ids=["even", "learnt"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("words", [("A", "AB"), ("B",), ("!SIL",), (), ("A", "ZEBRA"), ("BEE", "B")])
def test_utterance_graph_is_brute_force(lang_dir, width, words, probs):
    hmm = make_hmm(width)
    graphs = TrainingGraphs(lang_dir, hmm, transition_scale=0.7, self_loop_scale=0.3, probs=probs)
    fst = graphs.compile(words)
    symbols = word_table(PRONS)
    known = tuple(w if w in PRONS else "<unk>" for w in words)
    for frames in range(1, 8):
        expected = brute_force(hmm, {known: 0.0}, frames, 0.7, 0.3, probs)
        assert_same(language(fst, frames, symbols), expected, 1e-5)


ARPA = """
\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-99\t<s>\t-0.2
-0.6\t</s>
-0.5\tA\t-0.3
-0.9\tAB\t-0.1
-0.8\tB
-1.0\tBEE

\\2-grams:
-0.4\t<s> A
-0.5\tA B
-0.7\tA </s>
-0.3\tAB AB

\\end\\
"""
UNIGRAMS = {"</s>": -0.6, "A": -0.5, "AB": -0.9, "B": -0.8, "BEE": -1.0}
BIGRAMS = {("<s>", "A"): -0.4, ("A", "B"): -0.5, ("A", "</s>"): -0.7, ("AB", "AB"): -0.3}
BACKOFFS = {"<s>": -0.2, "A": -0.3, "AB": -0.1}


def sentence_cost(words):
    """Least cost over the ways through G: a word may also be reached by back-off where its bigram exists."""
    total = 0.0
    for before, word in itertools.pairwise(("<s>", *words, "</s>")):
        ways = [BACKOFFS.get(before, 0.0) + UNIGRAMS[word], BIGRAMS.get((before, word), -math.inf)]
        total -= max(ways) * math.log(10)
    return total


@pytest.fixture
def graph_dir(lang_dir, kaldilm_grammar):
    lexicon = Lexicon(PRONS)
    write_lang(lexicon, lang_dir)
    (lang_dir / "lm.arpa").write_text(ARPA)
    kaldilm_grammar(lang_dir, order=2)
    return lang_dir


@pytest.mark.parametrize("probs", [EVEN, some_probs()], ids=["even", "learnt"])
@pytest.mark.parametrize("width", [1, 3])
def test_hclg_is_brute_force(graph_dir, width, probs):
    hmm = make_hmm(width)
    compile_graph(graph_dir, hmm, graph_dir / "graph", transition_scale=0.7, self_loop_scale=0.3, probs=probs)
    fst = kaldifst.StdConstFst.read(str(graph_dir / "graph" / "HCLG.fst"))
    symbols = read_symbols(graph_dir / "graph" / "words.txt")
    sentences = {s: sentence_cost(s) for n in range(4) for s in itertools.product(list(UNIGRAMS)[1:], repeat=n)}
    for frames in range(2, 6):
        expected = brute_force(hmm, sentences, frames, 0.7, 0.3, probs)
        assert_same(language(fst, frames, symbols), expected)


@pytest.mark.parametrize("width", [1, 3])
def test_even_probabilities_that_are_written_out_make_the_same_graph(graph_dir, width):
    hmm = make_hmm(width)
    folders = graph_dir / "even", graph_dir / "spelt"
    for folder, probs in zip(folders, (EVEN, LexiconProbs({(OTHER, ()): EntryProbs()}))):
        compile_graph(graph_dir, hmm, folder, probs=probs)
    even, spelt = (FstArrays.read(folder / "HCLG.fst") for folder in folders)
    assert len(even.finals) == len(spelt.finals)
    np.testing.assert_array_equal(even.arcs[["ilabel", "olabel", "next"]], spelt.arcs[["ilabel", "olabel", "next"]])
    np.testing.assert_allclose(even.arcs["weight"], spelt.arcs["weight"], atol=1e-5)


def test_a_graph_of_other_probabilities_is_made_anew(graph_dir):
    hashes = []
    for probs in (EVEN, some_probs(), some_probs(), EVEN):
        compile_graph(graph_dir, make_hmm(1), graph_dir / "graph", probs=probs)
        hashes.append(read_json(graph_dir / "graph" / "graph.json")["sha256"])
    assert hashes[0] == hashes[3] != hashes[1] == hashes[2]


def test_graph_names_its_tree(graph_dir):
    hashes = []
    for seed, width in ((0, 3), (1, 3), (0, 1)):
        hmm = make_hmm(width, seed)
        compile_graph(graph_dir, hmm, graph_dir / "graph")
        hmm.save(graph_dir / "hmm.json")
        assert read_json(graph_dir / "graph" / "graph.json")["tree"] == tree_hash(HmmModel.load(graph_dir / "hmm.json"))
        hashes.append(tree_hash(hmm))
    assert hashes[0] == hashes[1] != hashes[2]  # seeds give other transition probabilities


@pytest.mark.parametrize("width", [1, 3])
def test_hclg_accepts_what_utterance_graphs_accept(graph_dir, width):
    """A random sentence through both graphs: the costs differ by the grammar's."""
    hmm = make_hmm(width, seed=1)
    compile_graph(graph_dir, hmm, graph_dir / "graph")
    hclg = kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(graph_dir / "graph" / "HCLG.fst")))
    graphs, symbols, rng = TrainingGraphs(graph_dir, hmm), word_table(PRONS), random.Random(0)
    for _ in range(5):
        words = tuple(rng.choice(list(UNIGRAMS)[1:]) for _ in range(6))
        pdfs, cost = random_path(graphs.compile(words), rng)
        linear = kaldifst.make_linear_acceptor(pdfs)
        kaldifst.arcsort(hclg, "ilabel")
        found = kaldifst.compose(linear, hclg)
        table = {}
        for path in all_paths(found, symbols):
            table[path[0]] = min(path[1], table.get(path[0], math.inf))
        ways = brute_force_given(graphs, words, pdfs)
        assert ways <= cost + 1e-4
        assert table[words] == pytest.approx(ways + sentence_cost(words), abs=0.05)


def random_path(fst, rng):
    """Input labels and cost of a random walk to a final state."""
    state, labels, cost = fst.start, [], 0.0
    while not math.isfinite(fst.final(state).value):
        arc = rng.choice(list(kaldifst.ArcIterator(fst, state)))
        labels += [arc.ilabel] if arc.ilabel else []
        state, cost = arc.nextstate, cost + arc.weight.value
    return labels, cost


def all_paths(fst, symbols):
    """(words, cost) of all paths of an acyclic graph, the least cost first for each state and words."""
    best = {(fst.start, ()): 0.0}
    queue = [(fst.start, ())]
    while queue:
        state, words = queue.pop()
        for arc in kaldifst.ArcIterator(fst, state):
            key = (arc.nextstate, (*words, symbols[arc.olabel]) if arc.olabel else words)
            cost = best[state, words] + arc.weight.value
            if cost < best.get(key, math.inf) - 1e-7:
                best[key] = cost
                queue.append(key)
    return [
        (words, cost + fst.final(s).value) for (s, words), cost in best.items() if math.isfinite(fst.final(s).value)
    ]


def brute_force_given(graphs, words, pdfs):
    """Least cost of a pdf sequence in the graph of ``words``, by composition."""
    fst = graphs.compile(words)
    kaldifst.arcsort(fst, "ilabel")
    symbols = word_table(PRONS)
    return min(cost for _, cost in all_paths(kaldifst.compose(kaldifst.make_linear_acceptor(pdfs), fst), symbols))


def test_self_loops_are_exact(graph_dir):
    """One more frame in a state costs exactly its scaled self-loop."""
    hmm = make_hmm(3)
    compile_graph(graph_dir, hmm, graph_dir / "graph", self_loop_scale=0.1)
    graph = FstArrays.read(graph_dir / "graph" / "HCLG.fst")
    loops = graph.arcs[graph.sources() == graph.arcs["next"]]
    pdf = loops["ilabel"] - 1
    assert len(loops)
    assert set(pdf) == set(range(hmm.tree.num_pdfs)) - set(range(3, 5))  # SPN is only in <unk>, which G lacks
    own = [[d for d, _ in hmm.transitions(p)].index(hmm.tree.pdf_state[p]) for p in pdf]
    assert np.allclose(loops["weight"], -0.1 * hmm.log_probs[pdf, own], atol=1e-6)
    emitting = graph.arcs[graph.arcs["ilabel"] > 0]
    for state in np.unique(emitting["next"]):  # every emitting arc leads to the loop of its own pdf
        labels = set(emitting["ilabel"][emitting["next"] == state])
        inside = graph.arcs[graph.offsets[state] : graph.offsets[state + 1]]
        assert labels <= set(inside["ilabel"][inside["next"] == state])


def test_other_phones_are_refused(graph_dir):
    hmm = make_hmm(1)
    hmm.phones[3] = "z"
    with pytest.raises(UserError, match=r"phones\.txt"):
        TrainingGraphs(graph_dir, hmm)
    with pytest.raises(UserError, match=r"phones\.txt"):
        compile_graph(graph_dir, hmm, graph_dir / "graph")
