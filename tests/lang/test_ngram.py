"""n-gram models against slow, plain computations."""

import gzip
import math
from collections import Counter, defaultdict

import kaldifst
import numpy as np
import pytest

from asr_parallel.lang import mix
from asr_parallel.lang.fst import grammar_fst
from asr_parallel.lang.lexicon import word_table, write_symbols
from asr_parallel.lang.ngram import kneser_ney, pack, perplexity, text_windows, write_arpa
from asr_parallel.log import UserError


def make_lines(seed, num=60, words="ABCDEFG"):
    rng = np.random.default_rng(seed)
    p = 0.5 ** np.arange(len(words))
    return [list(rng.choice(list(words), rng.integers(1, 7), p=p / p.sum())) for _ in range(num)]


def slow_log_prob(model, gram):
    """Back-off recursion over dictionaries."""
    tables = [
        {tuple(g): (p, b) for g, p, b in zip(grams.tolist(), logp, backoff)}
        for grams, logp, backoff in zip(model.grams, model.logp, model.backoff)
    ]

    def look(gram):
        found = tables[len(gram) - 1].get(gram)
        if found:
            return found[0]
        if len(gram) == 1:
            return -math.inf
        history = tables[len(gram) - 2].get(gram[:-1])
        return (history[1] if history else 0.0) + look(gram[1:])

    return look(tuple(gram))


def assert_sums_to_one(model):
    bos = model.words.index("<s>")
    n = len(model.words)
    following = [w for w in range(n) if w != bos]
    histories = [(w,) for w in range(n)] + [(v, w) for v in range(n) for w in range(n) if w != bos]
    for history in histories:
        total = np.exp(model.log_prob(np.array([[*history, w] for w in following]))).sum()
        assert total == pytest.approx(1.0, abs=1e-9), history


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_kneser_ney_sums_to_one(order):
    assert_sums_to_one(kneser_ney(make_lines(0), order))


def test_kneser_ney_is_the_textbook_formula():
    """Interpolated modified Kneser-Ney of bigrams, written down with dictionaries."""
    lines = make_lines(1, 200)
    model = kneser_ney(lines, 2)
    bigrams = Counter(pair for line in lines for pair in zip(["<s>", *line], [*line, "</s>"]))
    contexts = Counter(w for _, w in bigrams)

    def discounts(counts):
        n = Counter(counts)
        y = n[1] / (n[1] + 2 * n[2])
        return [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]

    d2 = discounts(bigrams.values())
    uni = Counter(contexts.values())
    d1 = [0, 0.5, 1.0, 1.5] if not all(uni[c] for c in (1, 2, 3, 4)) else discounts(contexts.values())
    total = sum(contexts.values())
    spared = sum(d1[min(c, 3)] for c in contexts.values()) / total
    p1 = {w: (c - d1[min(c, 3)]) / total + spared / len(contexts) for w, c in contexts.items()}
    by_history = defaultdict(list)
    for (v, w), c in bigrams.items():
        by_history[v].append((w, c))
    for v, followers in by_history.items():
        total = sum(c for _, c in followers)
        gamma = sum(d2[min(c, 3)] for _, c in followers) / total
        seen = dict(followers)
        for w in p1:
            c = seen.get(w, 0)
            expected = (c - d2[min(c, 3)]) / total + gamma * p1[w]
            gram = np.array([[model.words.index(v), model.words.index(w)]])
            assert np.exp(model.log_prob(gram))[0] == pytest.approx(expected, rel=1e-9)


def test_perplexity_is_brute_force():
    model = kneser_ney(make_lines(2), 3)
    lines = [["A", "B", "Z", "A"], [], ["C"]]  # Z is unknown: no probability, and no history for what follows
    logp = []
    for line in lines:
        history = [-1, model.words.index("<s>")]
        for word in [*line, "</s>"]:
            w = model.words.index(word) if word in model.words else -1
            logp.append(slow_log_prob(model, (*history, w)) if w >= 0 else math.nan)
            history = [history[1], w]
    assert np.allclose(model.score(lines), logp, equal_nan=True)
    assert perplexity(model.score(lines)) == pytest.approx(math.exp(-np.nanmean(logp)))


def test_windows():
    words = ["<s>", "</s>", "A", "B"]
    assert text_windows([["A", "X"], ["B"]], words, 3).tolist() == [
        [-1, 0, 2], [0, 2, -1], [2, -1, 1], [-1, 0, 3], [0, 3, 1],
    ]  # fmt: skip


@pytest.fixture
def pair():
    """Two models over one vocabulary, each with words that the other lacks."""
    a, b = kneser_ney(make_lines(3, words="ABCDE"), 3), kneser_ney(make_lines(4, 300, words="CDEFGH"), 3)
    words = ["<s>", "</s>", *"ABCDEFGH"]
    return mix.restrict(a, words, {}, 3), mix.restrict(b, words, {}, 3)


@pytest.mark.parametrize(("order", "words"), [(1, 200_000), (3, 200_000), (4, 200_000), (5, 200_000), (6, 200_000)])
def test_packed_rows_sort_as_the_rows(order, words):
    """Whatever the order, though 200,000^4 is more than 64 bits hold."""
    rng = np.random.default_rng(order)
    rows = rng.choice([0, 1, words - 2, words - 1, *rng.integers(0, words, 3)], (3000, order)).astype(np.int32)
    keys = pack(rows, words)
    assert np.array_equal(rows[np.argsort(keys, kind="stable")], rows[np.lexsort(rows.T[::-1])])
    assert len(np.unique(keys)) == len(np.unique(rows, axis=0))
    with pytest.raises(ValueError, match="6-grams of 300000 words are too many"):
        pack(np.zeros((1, 6), np.int32), 300_000)


def test_interpolation_sums_to_one_and_mixes(pair):
    a, b = pair
    mixed = mix.interpolate(a, b, 0.3)
    assert_sums_to_one(mixed)
    for k, grams in enumerate(mixed.grams):
        for gram, logp in zip(grams.tolist(), mixed.logp[k]):
            expected = 0.3 * math.exp(slow_log_prob(a, gram)) + 0.7 * math.exp(slow_log_prob(b, gram))
            assert math.exp(logp) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_interpolation_with_all_weight_gives_the_model_back(pair, weight):
    mixed = mix.interpolate(*pair, weight)
    one = pair[0] if weight else pair[1]
    grams = np.array([[v, w, x] for v in range(10) for w in range(10) for x in range(1, 10)])
    assert np.allclose(np.exp(mixed.log_prob(grams)), np.exp(one.log_prob(grams)), atol=1e-9)


def test_best_weight_is_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    p, q = rng.random(500), rng.random(500)
    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmax([np.log(w * p + (1 - w) * q).sum() for w in grid])]
    assert mix.best_weight(p, q) == pytest.approx(best, abs=2e-3)
    assert mix.best_weight(p, np.zeros(500)) == pytest.approx(1.0)


def test_restricted_model_sums_to_one(pair):
    full = pair[1]
    small = mix.restrict(full, ["<s>", "</s>", "d", *"ABCEF"], {"D": "d"}, 2)
    assert_sums_to_one(small)
    assert small.order == 2
    # what is kept after a history keeps its proportions
    old = np.array([[full.words.index("D"), full.words.index(w)] for w in "CEF"])
    new = np.array([[small.words.index("d"), small.words.index(w)] for w in "CEF"])
    assert (full.find(old) >= 0).all()
    assert np.ptp(small.log_prob(new) - full.log_prob(old)) == pytest.approx(0, abs=1e-9)
    assert_sums_to_one(mix.restrict(full, ["<s>", "</s>", "C", "D"], {}, 3))  # hardly anything to back off to


def test_pruning_is_the_change_of_relative_entropy(pair):
    """The criterion against its definition: sum over words of p(h) p(w|h) log(p(w|h) / p'(w|h))."""
    model = mix.interpolate(*pair, 0.5)
    rises = mix._perplexity_rise(model, 2)
    n = len(model.words)
    bos, eos = 0, 1
    for row in range(0, len(rises), 7):
        gram = model.grams[2][row]
        keep = np.arange(len(rises)) != row
        levels = list(zip(model.grams, model.logp, model.backoff))
        levels[2] = (model.grams[2][keep], model.logp[2][keep], model.backoff[2][keep])
        without = mix.sorted_ngram(model.words, levels)
        mix.set_backoffs(without)
        history = gram[:2]
        all_words = np.array([[*history, w] for w in range(1, n)])
        p, q = model.log_prob(all_words), without.log_prob(all_words)
        first = eos if history[0] == bos else history[0]
        p_history = math.exp(slow_log_prob(model, (first,)) + slow_log_prob(model, tuple(history)))
        entropy = p_history * np.sum(np.where(np.isfinite(p), np.exp(p) * (p - q), 0.0))
        assert rises[row] == pytest.approx(math.expm1(entropy), abs=1e-10)


def test_pruned_model_is_smaller_and_sums_to_one(pair):
    model = mix.interpolate(*pair, 0.5)
    small = mix.prune(model, 1e-3)
    assert sum(small.sizes()) < sum(model.sizes())
    assert small.sizes()[0] == model.sizes()[0]
    assert_sums_to_one(small)
    assert mix.prune(model, 0.0).sizes() == model.sizes()


def sentence_costs(fst, symbols, length):
    """{words: least cost} of all sentences of at most ``length`` words in an acceptor with #0 back-off."""
    costs: dict = {}
    best = {(fst.start, ()): 0.0}
    queue = list(best)
    while queue:
        state, words = queue.pop()
        cost = best[state, words]
        final = fst.final(state).value
        if math.isfinite(final):
            costs[words] = min(cost + final, costs.get(words, math.inf))
        for arc in kaldifst.ArcIterator(fst, state):
            word = symbols[arc.olabel]
            key = (arc.nextstate, words if word == "<eps>" else (*words, word))
            if len(key[1]) <= length and cost + arc.weight.value < best.get(key, math.inf) - 1e-6:
                best[key] = cost + arc.weight.value
                queue.append(key)
    return costs


def test_grammar_is_that_of_kaldilm(pair, tmp_path, kaldilm_grammar):
    model = mix.prune(mix.interpolate(*pair, 0.5), 1e-3)
    symbols = word_table(set(model.words) - {"<s>", "</s>"})
    write_symbols(tmp_path / "words.txt", symbols)
    write_arpa(model, tmp_path / "lm.arpa.gz")
    (tmp_path / "lm.arpa").write_bytes(gzip.decompress((tmp_path / "lm.arpa.gz").read_bytes()))
    expected = sentence_costs(kaldifst.StdVectorFst.read(str(kaldilm_grammar(tmp_path, order=3))), symbols, 3)
    fst = grammar_fst(model, {s: i for i, s in enumerate(symbols)}).to_fst()
    got = sentence_costs(fst, symbols, 3)
    assert set(got) == set(expected)
    assert len(got) > 100
    for words, cost in expected.items():
        assert got[words] == pytest.approx(cost, abs=1e-4)


def test_words_that_the_table_lacks_are_named(pair):
    symbols = word_table({"A", "B", "C", "D", "E", "F", "G"})
    with pytest.raises(UserError, match="lacks 1 words of the language model: H"):
        grammar_fst(pair[0], {s: i for i, s in enumerate(symbols)})
