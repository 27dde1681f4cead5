"""The whole verb on a small corpus, and the general model of the wheel."""

import gzip
import json
import math

import kaldifst
import numpy as np
import pytest

from asr_parallel.config import LangConfig
from asr_parallel.lang import general
from asr_parallel.lang.arrays import ARC, FstArrays
from asr_parallel.lang.lexicon import Lexicon, read_symbols
from asr_parallel.lang.run import run
from asr_parallel.log import UserError

TEXTS = {
    "train": ["THE CAT SAT", "THE DOG SAT", "A CAT RAN TO THE DOG", "THE FLORBLE RAN", ""] * 3,
    "dev": ["THE CAT RAN", "A FLORBLE SAT"],
    "test": ["THE ZORGON SAT", "XYLOPHANTIC"],
}


@pytest.fixture
def corpus(tmp_path):
    for name, lines in TEXTS.items():
        (tmp_path / name).mkdir()
        with gzip.open(tmp_path / name / "cuts.jsonl.gz", "wt") as file:
            for i, text in enumerate(lines):
                file.write(json.dumps({"id": f"s-{i}", "supervisions": [{"id": f"s-{i}", "text": text}]}) + "\n")
    return tmp_path


def config(corpus, out="lang", **options):
    return LangConfig(data=corpus, out=corpus / out, dev=["dev"], test=["test"], general="none", **options)


def test_run(corpus):
    c = config(corpus)
    run(c)
    assert all(path.exists() for path in c.outputs())
    words = read_symbols(c.out / "words.txt")
    assert words[0] == "<eps>"
    assert words[-3:] == ["#0", "<s>", "</s>"]
    assert set(words[1:-3]) == {"!SIL", "<unk>", *" ".join(TEXTS["train"]).split()}
    assert "ZORGON" not in words  # test text stays out
    phones = read_symbols(c.out / "phones.txt")
    assert phones[:3] == ["<eps>", "SIL", "SPN"]
    assert set(Lexicon.read(c.out / "lexicon.txt").prons) == set(words[1:-3])
    assert "FLORBLE\t3\tg2p\t" in (c.out / "oov_g2p.txt").read_text()
    report = json.loads((c.out / "lang.json").read_text())
    assert report["sets"]["test"]["oov"] == 2
    assert report["sets"]["test"]["top_oov"] == {"XYLOPHANTIC": 1, "ZORGON": 1}
    assert report["sets"]["dev"]["oov_rate"] == 0
    assert report["sets"]["test"]["perplexity_with_oov"] > report["sets"]["test"]["perplexity"]
    assert report["sets"]["train"]["perplexity"] < report["sets"]["test"]["perplexity"]
    g, l_disambig = (kaldifst.StdVectorFst.read(str(c.out / n)) for n in ("G.fst", "L_disambig.fst"))
    assert kaldifst.compose(l_disambig, g).num_states > 0
    for line in TEXTS["train"]:
        if line:
            kaldifst.arcsort(g, "ilabel")
            assert kaldifst.compose(acceptor(line.split(), words), g).num_states > 0


def acceptor(line, words):
    fst = kaldifst.make_linear_acceptor([words.index(w) for w in line])
    kaldifst.add_self_loops(fst, [words.index("#0")], [words.index("#0")])
    return fst


def test_same_bytes_again(corpus):
    run(config(corpus))
    run(config(corpus, "again", jobs=2))
    for path in sorted((corpus / "lang").iterdir()):
        a, b = path.read_bytes(), (corpus / "again" / path.name).read_bytes()
        if path.suffix == ".gz":
            a, b = gzip.decompress(a), gzip.decompress(b)
        assert a == b, path.name


def test_more_text(corpus):
    """Its words and n-grams are in the model as if they stood in the training set."""
    more = corpus / "more.txt.gz"
    with gzip.open(more, "wt") as file:
        file.write("THE ZORGON SAT\n\nA ZORGON RAN\n")
    run(config(corpus, text=[more]))
    cuts = corpus / "train" / "cuts.jsonl.gz"
    with gzip.open(cuts, "at") as file:
        for text in ("THE ZORGON SAT", "A ZORGON RAN"):
            file.write(json.dumps({"id": text, "supervisions": [{"id": text, "text": text}]}) + "\n")
    run(config(corpus, "as_training"))
    a, b = (gzip.decompress((corpus / out / "lm.arpa.gz").read_bytes()) for out in ("lang", "as_training"))
    assert a == b
    assert b"THE ZORGON SAT" in a


def test_more_text_without_the_sentences_of_dev_and_test(corpus):
    for name, line in (("dev", "A CAT SAT TO THE FLORBLE"), ("test", "THE DOG RAN TO A ZORGON")):
        with gzip.open(corpus / name / "cuts.jsonl.gz", "at") as file:
            file.write(json.dumps({"id": "more", "supervisions": [{"id": "more", "text": line}]}) + "\n")
    some = "THE CAT RAN\nA CAT SAT TO THE DOG\n"  # the first is in dev, but short
    (corpus / "some.txt").write_text(some)
    (corpus / "all.txt").write_text(f"A CAT SAT TO THE FLORBLE\n{some}THE DOG RAN TO A ZORGON\n")
    for name in ("some", "all"):
        run(config(corpus, name, text=[corpus / f"{name}.txt"]))
    a, b = (gzip.decompress((corpus / name / "lm.arpa.gz").read_bytes()) for name in ("some", "all"))
    assert a == b
    run(config(corpus, "none"))
    assert gzip.decompress((corpus / "none" / "lm.arpa.gz").read_bytes()) != a


def test_bad_text(corpus):
    (corpus / "a.txt").write_bytes(b"\xff\xfe")
    for path in (corpus / "a.txt", corpus / "none.txt", corpus / "b.txt.gz"):
        (corpus / "b.txt.gz").write_bytes(b"not gzip")
        with pytest.raises(UserError, match=path.name):
            run(config(corpus, text=[path]))
    with pytest.raises(UserError, match="one of the two"):
        run(config(corpus, text=[corpus / "a.txt"], lm=corpus / "lm.arpa"))


def test_no_words(corpus):
    with gzip.open(corpus / "train" / "cuts.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": "u", "supervisions": [{"text": ""}]}) + "\n")
    with pytest.raises(UserError, match="no words"):
        run(config(corpus))


def test_general_model_is_a_distribution():
    """The trie is read right if its probabilities sum to one after any history."""
    model = general.read_trie(general.model_dir() / "en-us.lm.bin")
    assert model.sizes()[0] == 72547
    number = {word: i for i, word in enumerate(model.words)}
    following = np.array([i for word, i in number.items() if word != "<s>"])
    for history in ("<s>", "the", "i am", "<s> it"):
        h = np.array([[number[w] for w in history.split()]] * len(following))
        total = np.exp(model.log_prob(np.column_stack([h, following]))).sum()
        assert total == pytest.approx(1.0, abs=2e-3), history
    # as printed by pocketsphinx's own NGramModel.prob (log base 1.0001), the predicted word first
    gram = np.array([[number["i"], number["am"], number["not"]]])
    assert model.log_prob(gram)[0] == pytest.approx(-24075 * math.log(1.0001), abs=1e-3)


def test_damaged_trie(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"Trie Language Model\x02" + bytes(100))
    with pytest.raises(UserError, match="not a trigram"):
        general.read_trie(path)
    path.write_bytes(b"Trie Language Model\x03" + bytes([255] * 100))
    with pytest.raises(UserError, match="reinstall"):
        general.read_trie(path)


def test_arrays_round_trip(tmp_path):
    fst = kaldifst.compile("0 1 1 2 0.5\n0 1 0 0 0.25\n1 2 3 3 1\n2 0.75\n")
    arrays = FstArrays.from_fst(fst)
    assert arrays.arcs.tolist() == [(1, 2, 0.5, 1), (0, 0, 0.25, 1), (3, 3, 1.0, 2)]
    assert arrays.finals.tolist() == [math.inf, math.inf, 0.75]
    assert arrays.sources().tolist() == [0, 0, 1]
    assert arrays.to_fst().to_str() == fst.to_str()
    arrays.write(tmp_path / "a.fst")
    data = (tmp_path / "a.fst").read_bytes()
    kaldifst.StdConstFst(fst).write(str(tmp_path / "b.fst"))
    assert data[-100:] == (tmp_path / "b.fst").read_bytes()[-100:]
    (tmp_path / "a.fst").write_bytes(data[:-1])
    with pytest.raises(UserError, match="bytes"):
        FstArrays.read(tmp_path / "a.fst")
    fst.write(str(tmp_path / "v.fst"))
    with pytest.raises(UserError, match="const"):
        FstArrays.read(tmp_path / "v.fst")


def test_arrays_build_sorts_by_source():
    arcs = np.zeros(3, ARC)
    arcs["ilabel"] = [1, 2, 3]
    arrays = FstArrays.build(0, np.array([np.inf, 0.0]), np.array([1, 0, 1]), arcs)
    assert arrays.arcs["ilabel"].tolist() == [2, 1, 3]
    assert arrays.offsets.tolist() == [0, 1, 3]


def test_minimized_is_what_openfst_finds():
    """On acyclic deterministic graphs merging equal states is minimisation."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        words = {tuple(rng.integers(1, 4, rng.integers(1, 6))) for _ in range(25)}
        trie: dict = {(): 0}
        for word in sorted(words):
            for n in range(1, len(word) + 1):
                trie.setdefault(word[:n], len(trie))
        finals = np.full(len(trie), np.inf)
        finals[[trie[w] for w in words]] = 0.5
        source = np.array([trie[p[:-1]] for p in trie if p])
        arcs = np.zeros(len(source), ARC)
        arcs["ilabel"] = arcs["olabel"] = [p[-1] for p in trie if p]
        arcs["next"] = [trie[p] for p in trie if p]
        graph = FstArrays.build(0, finals, source, arcs)
        got, expected = graph.minimized().to_fst(), graph.to_fst()
        kaldifst.minimize_encoded(expected)
        assert got.num_states == expected.num_states < len(trie)
        for word in words:
            found = kaldifst.compose(kaldifst.make_linear_acceptor([int(x) for x in word]), got)
            assert kaldifst.shortest_path(found).num_states == len(word) + 1
