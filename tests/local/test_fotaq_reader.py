"""The reader against a hand-built file, against damage, and against the list of the real one."""

import random
from pathlib import Path

import fotaq_reader as reader
import pytest
import queen_builder as build

from asr_parallel.log import UserError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "fotaq" / "expected.tsv"


def small(clips=None):
    """Entries of a file that uses every feature of the format, and the lines it holds."""
    names, objects = ["Sparky", "azura obj", "rock"], [(1, -4), (-2, -3), (3, 7)]
    jas, jas2 = build.jas(names, objects, ["A door*03", "*02Hm?*14Two", "gone.CUT"])
    scene = build.cut(
        [
            {"number": 1, "text": "*01Hi  there*02", "list": 5, "execute": 1, "animation": [[1, *range(9)]] * 2},
            {"number": 0, "text": "", "persons": [-1]},
            {"number": -1, "text": "Odd*XY00(128,1,2)even", "list": 4, "execute": 0},
            {"number": 2, "text": "Azura here", "list": 4, "execute": 1, "start": 3},
            {"number": 3, "text": "Rock here", "execute": 1, "animation": [[3, *range(9)]]},
            {"number": -2, "text": "Meanwhile"},
        ],
        entry="never heard",
    )
    talk = build.dog(
        7, [(6, "*FRHello"), (30, "A question?*15")], [(1, "Yes*02and no"), (0xAB, "*05")], ["Bye*00", "So long"]
    )
    lines = {
        "JOE00411": ("JOE", "A door"),
        "JOE00422": ("JOE", "Hm?"),
        "JOE00423": ("JOE", "Two"),
        "C1A__012": ("Sparky", "Hi there"),
        "C1A__031": ("JOE", "Odd"),
        "C1A__032": ("JOE", "even"),
        "C1A__041": ("Princess Azura", "Azura here"),
        "C1A__051": ("rock", "Rock here"),
        "C1A__061": ("narr:C1A", "Meanwhile"),
        "07SSSSJ2": ("JOE", "Hello"),
        "07001EJ1": ("JOE", "A question?"),
        "070001P1": ("Trader Bob", "Yes"),
        "070001P2": ("Trader Bob", "and no"),
        "07XXXXP1": ("Trader Bob", "Bye"),
        "07XXXXJ1": ("JOE", "So long"),
    }
    entries = [("BOB2.DOG", talk), ("C1A.CUT", scene), ("QUEEN.JAS", jas), ("QUEEN2.JAS", jas2)]
    return [*entries, *[(f"{c}.SB", b"sound") for c in (lines if clips is None else clips)]], lines


def read(folder, content):
    path = folder / "queen.1c"
    path.write_bytes(content)
    return reader.Package(path)


def test_every_kind_of_line(tmp_path):
    entries, want = small()
    package = read(tmp_path, build.container(entries))
    got = reader.lines(package)
    assert {line.clip: (line.character, line.text) for line in got} == want
    assert [line.clip for line in got] == sorted(want)
    assert package["C1A__012.SB"] == b"sound"


def test_line_without_clip_is_left_out(tmp_path):
    entries, _ = small(clips=["07XXXXJ1"])
    assert [line.clip for line in reader.lines(read(tmp_path, build.container(entries)))] == ["07XXXXJ1"]


def test_first_of_two_lines_with_one_clip_stays(tmp_path):
    entries, _ = small(clips=["070009J1"])
    twice = build.dog(7, [(1, ""), (9, "first"), (9, "second")], [], ["", ""])
    package = read(tmp_path, build.container([("ANY1.DOG", twice), *entries]))
    assert [line.text for line in reader.lines(package)] == ["first"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", [(1, "plain")]),
        ("*01*02x", [(3, "x")]),
        ("a*0", [(1, "a")]),
        ("a*XY12345678901b*", [(1, "a"), (2, "b")]),
        ("", []),
        ("*" * 30, []),
    ],
)
def test_pieces(text, want):
    assert list(reader.pieces(text)) == want


def test_sixteenth_piece_is_hexadecimal(tmp_path):
    entries, _ = small(clips=["JOE0041A"])
    entries[2:4] = zip(("QUEEN.JAS", "QUEEN2.JAS"), build.jas([], [], ["*00".join("abcdefghijkl")]))
    entries[1] = ("C1A.CUT", build.cut([]))
    assert [line.text for line in reader.lines(read(tmp_path, build.container(entries)))] == ["j"]


def test_cut_anywhere_is_an_error_that_names_the_file(tmp_path):
    content = build.container(small()[0])
    for size in [0, 3, 4, 14, 15, 40, 200, len(content) - 100, len(content) - 1]:
        with pytest.raises(UserError, match=r"queen\.1c"):
            reader.lines(read(tmp_path, content[:size]))


@pytest.mark.parametrize("name", ["BOB2.DOG", "C1A.CUT", "QUEEN.JAS", "QUEEN2.JAS"])
def test_entry_cut_short_is_named(tmp_path, name):
    entries, _ = small()
    whole = dict(entries)[name]
    messages = []
    for size in range(0, len(whole) - 40, 7):
        damaged = [(n, whole[:size] if n == name else c) for n, c in entries]
        try:
            reader.lines(read(tmp_path, build.container(damaged)))
        except UserError as error:
            messages.append(str(error))
    assert all(name in message for message in messages)
    # the text table needs its first six lines only
    assert len(messages) >= (2 if name == "QUEEN2.JAS" else (len(whole) - 40) // 7)


def test_random_damage_never_escapes(tmp_path):
    content, rng = build.container(small()[0]), random.Random(0)
    failed = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            reader.lines(read(tmp_path, bytes(damaged)))
        except UserError:
            failed += 1
    assert 0 < failed < 400


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"RIFF" * 20, "QTBL"), (build.container([], compression=0), "talkie"), (build.container([]), "QUEEN2.JAS")],
)
def test_other_files_are_told(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        reader.lines(read(tmp_path, content))


def test_missing_file():
    with pytest.raises(UserError, match=r"no/queen\.1c"):
        reader.Package("no/queen.1c")


def test_real_file_gives_the_expected_list():
    found = sorted((ROOT / "downloads").glob("*queen.1c"))
    if not SHARED.is_file() or not found:
        pytest.skip("needs ../shared/data/fotaq/expected.tsv and the game in downloads/ (make stage-0 fetches it)")
    got = "".join(f"{x.clip}\t{x.character}\t{x.text}\n" for x in reader.lines(reader.Package(found[-1])))
    assert got == SHARED.read_text(encoding="utf-8")
