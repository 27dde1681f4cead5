"""GLM files: against NIST's rfilter1, and what that does not have."""

import random
from pathlib import Path

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.filters import load_filter

ROOT = Path(__file__).parents[2]


@pytest.fixture
def glm(tmp_path):
    def load(text):
        (tmp_path / "x.glm").write_text(text, encoding="utf-8")
        return load_filter(tmp_path / "x.glm")

    return load


def test_hesitations_go_and_words_that_hold_them_stay(glm):
    rules = glm(";; fillers\n[UH] => [ ] / [ ] __ [ ]\n[UH HUH] => [ ] / [ ] __ [ ] ;; never reached: UH is first\n")
    assert rules("UH UH DUH UH HUH UHS UH", "ref") == "DUH HUH UHS"


def test_first_rule_that_fits_and_context_of_the_text_before(glm):
    rules = glm(";;\n[AB] => [X]\n[A] => [Y] / [B] __\n[B] => [Z] / __ [A]\n")
    assert rules("ABA BA AAB bab", "ref") == "XY ZY AX bab"  # as rfilter1 printed it


def test_bare_and_quoted_strings_settings_and_alternates(glm):
    rules = glm(
        '* NAME = "mine"\n* CASE_SENSITIVE = "F"\nGONNA => GOING TO / [ ] __ [ ]\n'
        "'[noise]' => / [ ] __ [ ]\n[HE'S] => [{HE IS / HE HAS}] / [ ] __ [ ]\n"
    )
    assert rules("he's gonna [NOISE] see", "hyp") == "{HE IS / HE HAS} GOING TO see"


def test_rules_for_one_side(glm):
    rules = glm(
        '[A] => [B]\n;; INPUT_DEPENDENT_APPLICATION = "ctm"\n[C] => [D]\n;;  input_dependent_application = "ref"\n'
        '[E] => [F]\n;; INPUT_DEPENDENT_APPLICATION = "ctm|stm"\n[G] => [H]\n'
    )
    assert (rules("A C E G", "ref"), rules("A C E G", "hyp")) == ("B C F H", "B D E H")


def test_words_of_a_shape_are_dropped(glm):
    rules = glm('* DROP = "<*> [*] %* -"\n')
    assert rules("<unk> A [door slam] <> B% %C -", "ref") == "A [door slam] B%"
    assert rules("a.b", "ref") == "a.b"
    assert glm('* DROP = "a.b"\n')("a.b axb", "ref") == "axb"


def test_rules_come_before_drops(glm):
    assert glm('* DROP = "<*>"\n[UM] => [<HES>] / [ ] __ [ ]\n')("A UM B", "ref") == "A B"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[A] [B]", "x.glm:2: want `=>` before"),
        ("[] => [B]", "x.glm:2: want `A => B`"),
        ("[A => [B]", "x.glm:2: want `=>` before"),
        ("[A => B", r"x.glm:2: `\[` without `\]`"),
        ("[A] => [B] / [C]", "x.glm:2: want `__` before"),
        ("[A] => [B] / [C] __ [D] E", "x.glm:2: want `A => B`"),
        ("[[A]] => [B]", "x.glm:2: want `=>` before"),
        ("* DROP", "x.glm:2: want a setting"),
        (';; INPUT_DEPENDENT_APPLICATION = "("', "x.glm:2: .* is no regular expression"),
        ('* COPY_NO_HIT = "F"', "would drop what no rule names"),
    ],
)
def test_what_is_no_rule_is_named(glm, line, message):
    with pytest.raises(UserError, match=message):
        glm(f"[Q] => [R]\n{line}\n")


@pytest.mark.parametrize("sensitive", ["T", "F"])
def test_equals_rfilter1(sctk, glm, sensitive):
    rng = random.Random(6)

    def string(least, most):
        return "".join(rng.choices("ABab ", k=rng.randint(least, most)))

    lines = [";; rules", f'* CASE_SENSITIVE = "{sensitive}"']
    for _ in range(25):
        rule = f"[{rng.choice('ABab')}{string(0, 3)}] => [{string(0, 4)}]"
        lines.append(rule + rng.choice(["", f" / [{string(0, 1)}] __ [{string(0, 1)}]"]))
    rules = glm("\n".join(lines) + "\n")
    texts = [" ".join(string(0, 30).split()) for _ in range(300)]
    theirs = sctk.run("rfilter1", sctk.folder / "x.glm", stdin="".join(f" {t} \n" for t in texts))
    assert [rules(t, "ref") for t in texts] == [" ".join(line.split()) for line in theirs.split("\n")[:-1]]


def test_the_file_for_english(tmp_path):
    rules = load_filter(ROOT / "local" / "filters" / "english.glm")
    assert rules("Um it's okay <noise> [laughs] uh Mr. Hummel", "ref") == "{ IT'S / IT IS / IT HAS } OK MR Hummel"
