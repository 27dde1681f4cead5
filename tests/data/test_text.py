"""Normalisation: words as they are said, the same whatever the spelling."""

import random
import re
import string

import pytest

from asr_parallel.data.text import normalise

CASES = {
    # words and apostrophes
    "Don't, isn't; o'clock": "DON'T ISN'T O'CLOCK",
    "You crash 'em, we cash 'em!": "YOU CRASH 'EM WE CASH 'EM",
    "'Hello' is what the Amazons' chief said": "HELLO IS WHAT THE AMAZONS CHIEF SAID",
    "“It’s mine” — ‘yours’": "IT'S MINE YOURS",
    '...AND "out"--now (please) [sic] *yes*': "AND OUT NOW PLEASE SIC YES",
    "Mary-Lou\tand\n Sparky ": "MARY LOU AND SPARKY",
    "café, naïve, ﬁne, Ångström": "CAFE NAIVE FINE ANGSTROM",
    "": "",
    "...?!": "",
    # abbreviations
    "Mr. King and Mrs King saw Dr. No vs. the Mob": "MISTER KING AND MISSUS KING SAW DOCTOR NO VERSUS THE MOB",
    "the C.I.A. knows D.N.A.?": "THE C I A KNOWS D N A",
    "Salt & Pepper, but &#!": "SALT AND PEPPER BUT",
    # numbers
    "24 hours, 100 miles, 1,000 men": "TWENTY FOUR HOURS ONE HUNDRED MILES ONE THOUSAND MEN",
    "July 13th, 1922": "JULY THIRTEENTH NINETEEN TWENTY TWO",
    "the 1940's and the 90s": "THE NINETEEN FORTIES AND THE NINETIES",
    "1984's best": "NINETEEN EIGHTY FOUR'S BEST",
    "in 1900, 2005 and 2010": "IN NINETEEN HUNDRED TWO THOUSAND AND FIVE AND TWENTY TEN",
    "2B or X7": "TWO B OR X SEVEN",
    "3.14 is 50% of $6.28; $1": "THREE POINT ONE FOUR IS FIFTY PERCENT OF SIX POINT TWO EIGHT DOLLARS ONE DOLLAR",
    "7:05, 19:00, 12:30, 6:00": "SEVEN OH FIVE NINETEEN HUNDRED TWELVE THIRTY SIX O'CLOCK",
    "007 1-800-5551234567": "ZERO ZERO SEVEN ONE EIGHT HUNDRED FIVE FIVE FIVE ONE TWO THREE FOUR FIVE SIX SEVEN",
    "at 5.": "AT FIVE",
    # drawn out
    "Hmmmm, ummm, errrr... mmmm!": "HMM UM ER MM",
    "I'm soooo BEEEEAUTIFUL, all THIIINGS": "I'M SO BEAUTIFUL ALL THINGS",
    "World War III, Henry VIII": "WORLD WAR III HENRY VIII",
    "see three committees, Aaron": "SEE THREE COMMITTEES AARON",
}


@pytest.mark.parametrize("text", CASES)
def test_cases(text):
    assert normalise(text) == CASES[text]


def test_replacements_come_first_and_see_the_text_as_written():
    assert normalise("(sigh) Hello 2U", [(r"\(\w+\)", " "), (r"\b2U\b", "to you")]) == "HELLO TO YOU"


def test_any_text_gives_clean_words_and_words_stay_as_they_are():
    rng = random.Random(0)
    alphabet = string.printable + "é’“”…—ß½²Ⅷ中\u00a0\u3000\ufeff\u0301"
    for _ in range(1500):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 40)))
        words = normalise(text)
        assert re.fullmatch(r"(?:'?[A-Z]+(?:'+[A-Z]+)*(?: (?!$)|$))*", words), (text, words)
        assert normalise(words) == words, text


def test_numbers_against_the_words_themselves():
    # an independent route: build the text from units, and from digits
    units = ["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"]
    tens = {20: "TWENTY", 40: "FORTY", 90: "NINETY"}
    for ten, word in tens.items():
        for unit in range(1, 10):
            assert normalise(f"x {ten + unit} y") == f"X {word} {units[unit]} Y"
            assert normalise(f"{3000 + ten + unit}") == f"THREE THOUSAND AND {word} {units[unit]}"
