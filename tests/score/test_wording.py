"""Words of texts, and choices in braces."""

import unicodedata

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.align import align
from asr_parallel.score.filters import Filter, Rule
from asr_parallel.score.network import Network, letters, linear, parse
from asr_parallel.score.wording import PLAIN, Wording


def paths(net):
    """All that a network may say, in order."""
    found = {0: [()]}
    for arc in range(1, len(net.words)):
        word = (net.words[arc],) if net.words[arc] else ()
        found[arc] = [path + word for p in net.before[arc] for path in found[p]]
    return [" ".join(path) for arc in net.last for path in found[arc]]


def test_any_blank_parts_words():
    text = "  A\tB\u00a0C\u3000D\u2003E \r\n"
    assert PLAIN.words(text, "ref", "") == ["A", "B", "C", "D", "E"]
    assert PLAIN.words("", "ref", "") == []


def test_both_forms_of_a_letter_are_one_unless_told_otherwise():
    composed, parted = "Été", unicodedata.normalize("NFD", "Été")
    assert PLAIN.words(parted, "hyp", "") == [composed]
    assert Wording("none").words(parted, "hyp", "") == [parted]
    assert PLAIN.words("ﬁn Ａ", "ref", "") == ["ﬁn", "Ａ"]
    assert Wording("NFKC").words("ﬁn Ａ", "ref", "") == ["fin", "A"]


def test_case_makes_a_difference_unless_folded():
    assert Wording(fold=True).words("Straße ÉTÉ İ", "ref", "") == Wording(fold=True).words("STRASSE été i̇", "hyp", "")
    assert PLAIN.words("Été", "ref", "") != PLAIN.words("été", "ref", "")


def test_filters_come_one_after_another_and_before_folding():
    filters = [Filter([Rule(*pair, "", "", ("hyp",))], []) for pair in (("A", "B"), ("B", "C"))]
    wording = Wording(filters=filters, fold=True)
    assert (wording.text("A b", "hyp"), wording.text("A b", "ref")) == ("c b", "a b")


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("{ A / B C } D", ["A D", "B C D"]),
        ("A {B/C}", ["A B", "A C"]),
        ("{ ABC / @ } DE", ["ABC DE", "DE"]),
        ("{ A / @ } B { C / D }", ["A B C", "B C", "A B D", "B D"]),
        ("{ A / { B / @ } C }", ["A", "B C", "C"]),
        ("{ / A }", ["", "A"]),
        ("@", [""]),
        ("A @ B", ["A B"]),
        ("{ A { B / C } / D }", ["A B", "A C", "D"]),
    ],
)
def test_ways_through_braces(text, ways):
    net = parse(text)
    assert sorted(paths(net)) == sorted(ways)
    assert sorted(paths(letters(net))) == sorted(" ".join(way.replace(" ", "")) for way in ways)


def test_plain_words_stay_plain():
    assert parse("A / B/C") == ["A", "/", "B/C"]
    assert paths(linear(["A", "B"])) == ["A B"]
    assert not isinstance(parse("A"), Network)


@pytest.mark.parametrize(("text", "message"), [("{ A / B", "without its closing"), ("A }", "without its opening")])
def test_braces_without_partner_are_named(text, message):
    with pytest.raises(UserError, match=rf"^f:3: .*{message}.*--alternates no"):
        Wording(alternates=True).words(text, "ref", "f:3")
    assert Wording().words(text, "ref", "f:3") == text.split()


def test_the_best_way_is_taken_as_if_each_had_been_tried():
    text = "A { B / C D / { E / @ } F } { G / @ }"
    for heard in ("A B G", "A C D", "F", "", "A E F G", "A C G", "X X X X"):
        costs = [sum(r != h for r, h in align(way.split(), heard.split())) for way in paths(parse(text))]
        assert sum(r != h for r, h in align(parse(text), heard.split())) == min(costs)
        assert sum(r != h for r, h in align(heard.split(), parse(text))) == min(costs)
