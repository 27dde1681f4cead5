"""Words that training never had: counted by hand."""

import json

import pytest

from asr_parallel.cli import main
from asr_parallel.score.oov import load_vocabulary, oov_figures, oov_table
from asr_parallel.score.references import Reference
from asr_parallel.score.wer import score_set
from asr_parallel.score.wording import Wording

REFS = {
    "u1": "THE ZORGON SAT ON A FLORBLE",
    "u2": "ZORGON ZORGON",
    "u3": "A CAT",
}
HYPS = {
    "u1": "THE ZORGON SAT ON A FLOR BULL",  # ZORGON right; FLORBLE wrong, of two words heard one is unknown
    "u2": "ZORGON",  # one right, one deleted
    "u3": "A KAT",  # a known word taken for an unknown one
}
KNOWN = {"THE", "SAT", "ON", "A", "CAT", "BULL"}


@pytest.fixture
def score():
    refs = {utt: Reference("s", tuple(text.split())) for utt, text in REFS.items()}
    return score_set(refs, {utt: tuple(text.split()) for utt, text in HYPS.items()})


def test_counts_by_hand(score):
    assert oov_figures(score, KNOWN) == {"oov_words": 4, "oov_right": 2, "oov_recall": 50.0, "oov_heard": 4}
    assert oov_table(score, KNOWN) == "word\tsaid\tright\nZORGON\t3\t2\nFLORBLE\t1\t0\n"


def test_no_unknown_word_has_no_recall(score):
    figures = oov_figures(score, KNOWN | {"ZORGON", "FLORBLE"})
    assert (figures["oov_words"], figures["oov_recall"]) == (0, None)


def test_vocabulary_is_the_first_word_of_each_line(tmp_path):
    (tmp_path / "v").write_text("CAT K AE T\nDOG 3\n\nE\u0301T\u00c9\n")
    assert load_vocabulary(tmp_path / "v", Wording()) == {"CAT", "DOG", "ÉTÉ"}
    assert load_vocabulary(tmp_path / "v", Wording(fold=True)) == {"cat", "dog", "été"}


@pytest.fixture
def files(tmp_path):
    for name, texts in (("ref", REFS), ("hyp", HYPS)):
        (tmp_path / name).write_text("".join(f"{utt} {text}\n" for utt, text in texts.items()))
    (tmp_path / "known").write_text("\n".join(sorted(KNOWN)))
    return tmp_path


def run_verb(files, *options):
    arguments = ["score", "--ref", files / "ref", "--hyp", files / "hyp", "--vocabulary", files / "known", *options]
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    assert stop.value.code == 0


def test_verb_on_files(files, capsys):
    run_verb(files, "--out", files / "out")
    assert (
        "2 of 4 words that training never had are right (50.0 %); 4 such words were heard." in capsys.readouterr().out
    )
    assert json.loads((files / "out" / "score.json").read_text())["oov_right"] == 2
    assert (files / "out" / "oov.tsv").read_text().startswith("word\tsaid\tright\nZORGON\t3\t2\n")


def test_verb_folds_case_of_the_list_too(files, capsys):
    (files / "known").write_text("\n".join(sorted(KNOWN)).lower())
    run_verb(files, "--fold_case", "--json")
    assert json.loads(capsys.readouterr().out)["oov_words"] == 4
