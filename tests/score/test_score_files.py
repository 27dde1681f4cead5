"""``score --ref R --hyp H`` and ``compare``, as a user calls them."""

import json
import shutil

import pytest

from asr_parallel import cli


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(name, *lines):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    return make


@pytest.fixture
def call(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run


@pytest.fixture
def text(file):
    file("ref/text", "a-1 A B C D", "a-2", "b-1 E F", "b-2 G")
    file("ref/utt2spk", "a-1 a", "a-2 a", "b-1 b", "b-2 b")
    file("hyp.txt", "b-1 E F", "a-1 A X C", "a-2 Q", "b-2 G")
    return "--ref", "ref/text", "--hyp", "hyp.txt"


def test_rates_as_kaldi_prints_them_and_a_row_a_speaker(text, call):
    code, out, err = call("score", *text)
    lines = out.splitlines()
    assert code == 0
    assert lines[:4] == [
        "%WER 42.86 [ 3 / 7, 1 ins, 1 del, 1 sub ]",
        "%SER 50.00 [ 2 / 4 ]",
        "Scored 4 sentences, 0 not present in hyp.",
        "%CER 42.86 [ 3 / 7, 1 ins, 1 del, 1 sub ]",
    ]
    assert [line.split()[:3] for line in lines[-4:]] == [
        ["spk", "sents", "words"], ["a", "2", "4"], ["b", "2", "3"], ["SUM", "4", "7"],
    ]  # fmt: skip
    assert "1 references are empty; 1 insertions there count" in err


def test_json_has_the_same_figures(text, call):
    code, out, _ = call("score", *text, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["wer"], found["cer"], found["ser"], found["ins"], found["del"], found["sub"]) == (
        42.8571, 42.8571, 50.0, 1, 1, 1,
    )  # fmt: skip
    assert (found["mode"], found["missing"], found["empty_references"]) == ("strict", [], 1)
    assert found["spk_wer"] == {"a": 75.0, "b": 0.0}
    assert found["ci95"][0] <= found["wer"] <= found["ci95"][1]


def test_a_missing_hypothesis_in_the_three_modes(text, file, call):
    file("hyp.txt", "a-1 A B C D", "a-2", "b-2 X")
    code, out, err = call("score", *text)
    assert (code, out) == (1, "")
    assert "hyp.txt: 1 of 4 utterances have no hypothesis, e.g. b-1. --mode all" in err
    _, out, err = call("score", *text, "--mode", "all")
    assert out.startswith("%WER 42.86 [ 3 / 7, 0 ins, 2 del, 1 sub ] [PARTIAL]")
    assert "1 utterances have no hypothesis and count as deleted: b-1" in err
    _, out, err = call("score", *text, "--mode", "present", "--json")
    found = json.loads(out)
    assert (found["wer"], found["words"], found["missing"], found["utts"]) == (20.0, 5, ["b-1"], 3)
    assert "1 utterances have no hypothesis and are left out: b-1" in err


def test_silence_is_never_a_hidden_zero(file, call):
    file("r.txt", "u1", "u2")
    file("h.txt", "u1 A B", "u2")
    code, out, _ = call("score", "--ref", "r.txt", "--hyp", "h.txt")
    assert code == 0
    assert out.startswith("%WER inf [ 2 / 0, 2 ins, 0 del, 0 sub ]")
    assert "no reference words" in out
    _, out, _ = call("score", "--ref", "r.txt", "--hyp", "h.txt", "--json")
    assert (json.loads(out)["wer"], json.loads(out)["errors"]) == (None, 2)


def test_one_option_without_the_other_and_formats_by_option(text, file, call):
    code, _, err = call("score", "--ref", "ref/text")
    assert code == 1
    assert "--hyp is not given" in err
    file("h.out", "E F (b-1)", "A X C (a-1)", "Q (a-2)", "G (b-2)")
    _, out, _ = call("score", "--ref", "ref/text", "--hyp", "h.out", "--hyp-format", "trn")
    assert out.startswith("%WER 42.86")
    code, _, err = call("score", *text, "--format", "trn")
    assert code == 1
    assert "ref/text:1: want the id in parentheses" in err


def test_options_that_would_not_be_read_are_refused(text, two, call):
    for arguments, message in (
        (("score", *text, "--lmwt", "7"), "--lmwt is for lattices"),
        (("compare", "exp/old", "exp/new", "--fold-case"), "--fold_case is for files"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (1, "")
        assert message in err


def test_filters_hesitations_tags_and_contractions(file, call):
    file("r.trn", "I AM <noise> UH HERE (s-1)", "WE'RE LATE { UM / @ } (s-2)")
    file("h.trn", "I'M HERE (s-1)", "WE ARE [laughs] LATE (s-2)")
    file("en.glm", '* DROP = "<*> [*]"', "[UH] => [ ] / [ ] __ [ ]", "[I'M] => [{I'M / I AM}] / [ ] __ [ ]",
         "[WE'RE] => [{WE'RE / WE ARE}] / [ ] __ [ ]")  # fmt: skip
    files = "--ref", "r.trn", "--hyp", "h.trn"
    assert call("score", *files)[1].startswith("%WER 100.00 [ 7 / 7")
    assert call("score", *files, "--filter", "en.glm")[1].startswith("%WER 0.00 [ 0 / 6")
    code, _, err = call("score", *files, "--filter", "none.glm")
    assert code == 1
    assert "none.glm: No such file" in err


def test_segments_with_labels_against_words_with_times(file, call):
    file("r.stm", ';; LABEL "f" "Female" "x"', "w 1 ann 0 1 <f> A B", "w 1 bob 1 2 C")
    file("h.ctm", "w 1 0.2 0.1 A", "w 1 0.5 0.1 X", "w 1 1.5 0.1 C")
    _, out, _ = call("score", "--ref", "r.stm", "--hyp", "h.ctm", "--out", "o", "--json")
    found = json.loads(out)
    assert (found["wer"], found["spk_wer"], found["subset_wer"]) == (33.3333, {"ann": 50.0, "bob": 0.0}, {"f": 50.0})
    _, out, _ = call("score", "--ref", "r.stm", "--hyp", "h.ctm")
    assert out.count("SUM") == 2


def test_details_are_written_and_rates_printed_again(text, call, tmp_path):
    for _ in range(2):
        code, out, _ = call("score", *text, "--out", "o")
        assert code == 0
        assert out.startswith("%WER")
    assert {p.name for p in (tmp_path / "o").iterdir()} == {
        "wer", "score.json", "per_spk.tsv", "per_utt.tsv", "per_utt.txt", "confusions.txt", "ref.trn", "hyp.trn",
    }  # fmt: skip
    assert (tmp_path / "o" / "wer").read_text().startswith("%WER 42.86")
    assert (tmp_path / "o" / "hyp.trn").read_text() == "A X C (a-1)\nQ (a-2)\nE F (b-1)\nG (b-2)\n"


@pytest.fixture
def two(file, call):
    """Two systems: the second is right once more in every fourth utterance."""
    words = "A B C D E F"
    file("r.txt", *(f"s{i % 12}-{i:03d} {words}" for i in range(240)))
    file("old.txt", *(f"s{i % 12}-{i:03d} {'X B C D E F' if i % 2 else words}" for i in range(240)))
    file("new.txt", *(f"s{i % 12}-{i:03d} {'X B C D E F' if i % 4 == 1 else words}" for i in range(240)))
    file("utt2spk", *(f"s{i % 12}-{i:03d} s{i % 12}" for i in range(240)))
    for name in ("old", "new"):
        call("score", "--ref", "r.txt", "--hyp", f"{name}.txt", "--out", f"exp/{name}")


def test_two_files_and_two_directories_compare_alike(two, call):
    code, out, _ = call("compare", "old.txt", "new.txt", "--ref", "r.txt", "--json")
    (of_files,) = json.loads(out)
    (of_folders,) = json.loads(call("compare", "exp/old", "exp/new", "--json")[1])
    assert code == 0
    same = of_files.keys() - {"set", "old", "new"}
    assert {k: of_files[k] for k in same} == {k: of_folders[k] for k in same}
    assert of_files["wer_old"] == pytest.approx(100 * 120 / 1440)
    assert of_files["difference"] == pytest.approx(100 * 60 / 1440)
    assert of_files["segments"] == 120
    assert of_files["ci95_unit"] == "speakers"
    # 60 differences of 1 and 60 of 0
    assert of_files["z_mapsswe"] == pytest.approx(0.5 / (0.25 / 119) ** 0.5)
    assert of_files["p_mapsswe"] < 1e-9
    # three of the twelve speakers gain: draws without any of them make no difference
    assert of_files["p_bootstrap"] == pytest.approx((9 / 12) ** 12, abs=0.006)


def test_compare_in_words(two, call):
    _, out, _ = call("compare", "exp/old", "exp/new")
    lines = out.splitlines()
    assert lines[:2] == ["old: exp/old", "new: exp/new"]
    assert lines[-1].split()[:4] == ["new", "8.33", "4.17", "+4.17"]
    _, out, _ = call("compare", "exp/old", "exp/old")
    assert out.splitlines()[-1].split()[-3:] == ["120", "0.00", "1.000"]


def test_test_sets_of_two_models(two, call, tmp_path):
    for name in ("old", "new"):
        for where, tuned_on in (("test", "dev"), ("dev", "dev"), (f"only_{name}", "dev")):
            folder = tmp_path / "m" / name / f"decode_{where}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(tmp_path / "exp" / name, folder)
            (folder / "score.json").write_text(json.dumps({"tuned_on": tuned_on}))
    found = json.loads(call("compare", "m/old", "m/new", "--json")[1])
    assert [(row["set"], round(row["wer_new"], 2)) for row in found] == [("test", 4.17)]
    assert "no scored test set" in call("compare", "m/old", "m")[2]
    (tmp_path / "m" / "new" / "decode_test" / "score.json").write_text("{")
    assert "decode_test/score.json: damaged" in call("compare", "m/old", "m/new")[2]


def test_what_cannot_be_compared(two, file, call):
    for arguments, message in (
        (("old.txt", "new.txt"), "old.txt is a file: say what it is to be scored against, --ref"),
        (("exp", "exp/new"), "exp: no scored test set in it"),
        (("exp/old",), "PATH"),
    ):
        code, out, err = call("compare", *arguments)
        assert code
        assert message in out + err
    file("r.txt", *(f"s{i % 12}-{i:03d} A B C D E{'' if i else ' G'}" for i in range(240)))
    call("score", "--ref", "r.txt", "--hyp", "new.txt", "--out", "exp/new")
    assert "240 references differ between the two, e.g. that of s0-000" in call("compare", "exp/old", "exp/new")[2]
    file("r.txt", *(f"s{i % 12}-{i:03d} A B C D E F" for i in range(239)))
    call("score", "--ref", "r.txt", "--hyp", "new.txt", "--out", "exp/new", "--mode", "present")
    code, out, err = call("compare", "exp/old", "exp/new")
    assert "1 utterances were scored in one system only, e.g. s11-239" in err
    _, out, _ = call("compare", "exp/old", "exp/new", "--mode", "present", "--json")
    assert json.loads(out)[0]["utts"] == 239
