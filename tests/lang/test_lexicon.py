"""Lexicon files: what is refused, what is marked, what L accepts."""

import itertools
import math

import kaldifst
import pytest

from asr_parallel.lang.fst import lexicon_fst, pairs_of
from asr_parallel.lang.g2p import Pronouncer, dictionary, predict
from asr_parallel.lang.lexicon import Lexicon, disambiguate, phone_table, read_symbols, word_table
from asr_parallel.log import UserError

HEAD = "!SIL SIL\n<unk> SPN\n"


def read(tmp_path, text):
    path = tmp_path / "lexicon.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Lexicon.read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<s> a", r":3: '<s>' is reserved"),
        ("<eps> a", r":3: '<eps>' is reserved"),
        ("#0 a", r":3: '#0' is reserved"),
        ("A #1", r":3: '#1' is reserved"),
        ("A <eps>", r":3: '<eps>' is reserved"),
        ("A", r":3: word 'A' has an empty pronunciation"),
        ("A a SPN", r":3: 'A' has a silence phone"),
        ("A a\nA a", r":4: 'A a' stands twice"),
        ("A  a", r":3: .*single spaces"),
        ("A\ta", r":3: .*single spaces"),
        ("A a\r", r":3: .*single spaces"),
        ("A\u00a0 a", r":3: .*single spaces"),
        ("A\u3000B a", r":3: .*single spaces"),
        ("\u000b a", r":3: .*single spaces"),
        ("\ufeffA a", r":3: .*single spaces"),
        ("", r":3: .*empty"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, HEAD + line + "\n")


@pytest.mark.parametrize("text", ["", "\n", "A a\n", "!SIL SIL\n", HEAD + "<unk> a\n", "!SIL SIL\n<unk> SIL\n"])
def test_reserved_words_must_be_there(tmp_path, text):
    with pytest.raises(UserError):
        read(tmp_path, text)


def test_not_utf8(tmp_path):
    with pytest.raises(UserError, match="not UTF-8 at byte 20"):
        read(tmp_path, HEAD.encode() + b"A\xff a\n")


def test_write_and_read(tmp_path):
    lexicon = read(tmp_path, HEAD + "A a\nA b a\nÉTÉ e t e\n")
    lexicon.write(tmp_path / "again.txt")
    assert Lexicon.read(tmp_path / "again.txt") == lexicon
    assert lexicon.phones == ["SIL", "SPN", "a", "b", "e", "t"]


def test_symbol_tables_are_checked(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("<eps> 0\nA 1\nA 2\n")
    with pytest.raises(UserError, match="twice"):
        read_symbols(path)
    path.write_text("<eps> 0\nA 2\n")
    with pytest.raises(UserError, match=":2: expected number 1"):
        read_symbols(path)


PRONS = {
    "!SIL": (("SIL",),),
    "<unk>": (("SPN",),),
    "A": (("a",),),
    "AB": (("a", "b"),),
    "B": (("b",), ("a",)),
    "C": (("b",),),
}


def test_disambiguation_makes_a_prefix_code():
    """No marked pronunciation is another or begins another, as symbols of one silence-free stream."""
    marked, highest = disambiguate(Lexicon(PRONS))
    prons = [pron for _, pron in marked]
    assert len(set(prons)) == len(prons)
    for p, q in itertools.permutations(prons, 2):
        assert q[: len(p)] != p
    assert highest == 2
    assert [tuple(x for x in p if x[0] != "#") for p in prons] == [p for _, p in pairs_of(PRONS)]


@pytest.mark.parametrize("with_disambig", [False, True])
def test_lexicon_fst(with_disambig):
    marked, highest = disambiguate(Lexicon(PRONS))
    phones = {s: i for i, s in enumerate(phone_table(Lexicon(PRONS).phones, highest))}
    words = {s: i for i, s in enumerate(word_table(PRONS))}
    pairs = marked if with_disambig else pairs_of(PRONS)
    mark = f"#{highest + 1}" if with_disambig else None
    fst = lexicon_fst(pairs, phones, words, mark)
    sil = ("SIL", mark) if mark else ("SIL",)
    accepted = {}
    for (v, p), (w, q) in itertools.product(pairs, pairs):
        for s in itertools.product(((), sil), repeat=3):
            stream = (*s[0], *p, *s[1], *q, *s[2])
            accepted.setdefault(stream, set()).add((v, w))
    for stream, sentences in list(accepted.items())[::7]:
        linear = kaldifst.make_linear_acceptor([phones[x] for x in stream])
        kaldifst.arcsort(fst, "ilabel")
        found = kaldifst.compose(linear, fst)
        best = kaldifst.shortest_path(found)
        _, _, output, cost = kaldifst.get_linear_symbol_sequence(best)
        names = list(words)
        said = tuple(names[w] for w in output)
        if len(said) == 2:
            assert said in sentences
            assert cost.value == pytest.approx(3 * math.log(2), abs=1e-5)
    if with_disambig:  # after adding silence's mark every stream has one reading
        assert all(len(s) == 1 for s in accepted.values())


def test_dictionary_has_39_phones_and_variants():
    known = dictionary()
    assert known["HELLO"] == (("HH", "AH", "L", "OW"), ("HH", "EH", "L", "OW"))
    assert len({phone for prons in known.values() for pron in prons for phone in pron}) == 39


def test_derived_before_guessed():
    spoken = {"CAT": "K AE T", "DOG": "D AO G", "FISH": "F IH SH", "BAKE": "B EY K", "STOP": "S T AA P"}
    spoken["HUNTING"] = "HH AH N T IH NG"
    spoken["ORGANIZING"] = "AO R G"
    known = {word: (tuple(pron.split()),) for word, pron in spoken.items()}
    pronounce = Pronouncer(known, known)
    forms = {
        "CAT'S": "K AE T S",
        "DOGS": "D AO G Z",
        "FISHES": "F IH SH IH Z",
        "BAKED": "B EY K T",
        "STOPPED": "S T AA P T",
        "BAKING": "B EY K IH NG",
        "HUNTIN": "HH AH N T IH N",
        "CATLESS": "K AE T L AH S",
        "BAKESTOP": "B EY K S T AA P",
        "ORGANISING": "AO R G",
    }
    for word, pron in forms.items():
        assert pronounce(word) == ((tuple(pron.split()),), "derived"), word
    assert pronounce("CAT")[1] == "dictionary"
    prons, source = pronounce("QUUXLE")
    assert source == "g2p"
    assert pronounce("QUUXLE'S") == (((*prons[0], "Z"),), "g2p")


def test_network_and_spelling():
    assert predict("BLORFLE")[0] == "B"
    assert predict("B" * 70)[:2] == ("B", "IY")  # too long for the network: spelt
