"""Files of texts in the formats of others."""

import gzip
import json

import pytest

from asr_parallel.log import UserError
from asr_parallel.score.references import UNKNOWN, load_cuts, references
from asr_parallel.score.transcripts import format_of, read, read_utt2spk
from asr_parallel.score.wording import PLAIN


@pytest.fixture
def file(tmp_path):
    def make(content, name="x"):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make


def said(utterances):
    return {utt: (u.spk, u.text.split()) for utt, u in utterances.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.trn", "trn"), ("a.stm", "stm"), ("ctm", "ctm"), ("a.b.ctm", "ctm"), ("cuts.jsonl.gz", "jsonl"),
     ("text", "text"), ("text.gz", "text"), ("hyp.txt", "text"), ("trn.old", "text")],
)  # fmt: skip
def test_format_by_name(tmp_path, name, kind):
    assert format_of(tmp_path / name) == kind


def test_kaldi_text(file):
    path = file("\ufeffu1 A B\r\n\nu2\nu3\tC\u00a0D  \n")
    assert said(read(path, "text")) == {"u1": ("", ["A", "B"]), "u2": ("", []), "u3": ("", ["C", "D"])}
    assert read(path, "text")["u3"].where == f"{path}:4"


def test_trn(file):
    path = file(";; a comment\nA (uh) B (s1-u1)\n(s2_x-y)\n C( s3 )\n{ A / @ } (u_v)\n")
    assert said(read(path, "trn")) == {
        "s1-u1": ("s1", ["A", "(uh)", "B"]),
        "s2_x-y": ("s2_x", []),
        "s3": ("", ["C"]),
        "u_v": ("u", ["{", "A", "/", "@", "}"]),
    }


def test_json_lines(file):
    rows = [
        {"id": "u1", "text": "A B", "speaker": "s"},
        {"id": "u2", "text": ""},
        {"id": "u3", "duration": 1.5, "supervisions": [{"id": "x", "text": "C", "speaker": "t"}]},
    ]
    path = file("".join(json.dumps(r) + "\n" for r in rows), "x.jsonl.gz")
    assert said(read(path, "jsonl")) == {"u1": ("s", ["A", "B"]), "u2": ("", []), "u3": ("t", ["C"])}
    assert read(path, "jsonl")["u3"].seconds == 1.5


@pytest.mark.parametrize(
    ("kind", "second", "message"),
    [
        ("text", "u1 B", r":2: u1 is there twice \(line 1 too\)"),
        ("trn", "A B", ":2: want the id in parentheses"),
        ("trn", "A ()", ":2: want the id in parentheses"),
        ("trn", "A (b) c", ":2: want the id in parentheses"),
        ("trn", "A u1)", ":2: want the id in parentheses"),
        ("trn", "(u1)", ":2: u1 is there twice"),
        ("jsonl", "{no", ":2: want an object"),
        ("jsonl", "[1]", ":2: want an object"),
        ("jsonl", '{"id": "u2"}', ":2: want an object"),
        ("jsonl", '{"id": "u2", "text": null}', ":2: want an object"),
        ("jsonl", '{"id": 2, "text": "A"}', ":2: want an object"),
        ("jsonl", '{"id": "u2", "supervisions": []}', ":2: want an object"),
        ("jsonl", '{"id": "u2", "supervisions": [{"text": null}]}', ":2: want an object"),
    ],
)
def test_file_and_line_of_what_is_wrong(file, kind, second, message):
    first = {"text": "u1 A", "trn": "A (u1)", "jsonl": '{"id": "u1", "text": "A"}'}[kind]
    with pytest.raises(UserError, match=f"x{message}"):
        read(file(f"{first}\n{second}\n"), kind)


def test_bytes_that_are_no_text(file):
    with pytest.raises(UserError, match="x:2: not UTF-8"):
        read(file(b"u1 A\nu2 \xe9t\xe9\n"), "text")


def test_absent_empty_and_damaged_files(file, tmp_path):
    with pytest.raises(UserError, match="none: No such file"):
        read(tmp_path / "none", "text")
    with pytest.raises(UserError, match="no utterances in it"):
        read(file("\n\n"), "text")
    path = file("".join(f"u{i} A B {i * i}\n" for i in range(500)), "x.gz")
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(UserError, match=r"x\.gz: damaged after line \d+"):
        read(path, "text")
    path.write_text("u1 A\n")
    with pytest.raises(UserError, match=r"x\.gz: damaged"):
        read(path, "text")


def test_speakers(file):
    texts = read(file("u1 A\nu2 B\n"), "text")
    speakers = read_utt2spk(file("u1 s\nu2 t\n", "utt2spk"))
    assert {u: r.spk for u, r in references(texts, PLAIN, speakers).items()} == {"u1": "s", "u2": "t"}
    assert {r.spk for r in references(texts, PLAIN).values()} == {UNKNOWN}
    with pytest.raises(UserError, match="x:2: u2 has no speaker in utt2spk"):
        references(texts, PLAIN, {"u1": "s"})
    with pytest.raises(UserError, match="utt2spk:2: want `UTT SPK`"):
        read_utt2spk(file("u1 s\nu2\n", "utt2spk"))


def test_absent_cuts_say_which_stage_makes_them(tmp_path):
    with pytest.raises(UserError, match=r"no such file.*Run stage `prepare`"):
        load_cuts(tmp_path / "cuts.jsonl.gz")
