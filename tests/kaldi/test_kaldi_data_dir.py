"""Data directories in and out: times, channels, ids and texts; and what goes wrong with them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import lhotse
import numpy as np
import pytest
import soundfile
from lhotse.kaldi import load_kaldi_data_dir

from asr_parallel.config import ImportKaldiConfig, cuts_path
from asr_parallel.data.manifests import load_cuts, read_jsonl
from asr_parallel.kaldi.audio import decoded_file
from asr_parallel.kaldi.data_dir import read_data_dir
from asr_parallel.kaldi.export_data import export_data
from asr_parallel.kaldi.import_set import import_set
from asr_parallel.log import UserError

pytestmark = pytest.mark.filterwarnings("ignore")  # Lhotse's
RATE = 8000
AN4 = Path(__file__).parents[3] / "shared/data/mini_an4/wav"


def noise(seconds: float, channels: int = 1, seed: int = 0) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal((round(seconds * RATE), channels)).astype(np.float32)


def directory(folder: Path, **files: str) -> Path:
    """A data directory; ``wav_scp="..."`` becomes ``wav.scp``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_scp", ".scp")).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def calls(tmp_path):
    """Two calls of two channels, one mono recording, in a path with a blank and brackets (D25)."""
    audio = tmp_path / "audio (é) b"
    audio.mkdir()
    for i, channels in enumerate((2, 2, 1)):
        soundfile.write(audio / f"r{i}.wav", noise(5, channels, i), RATE, "PCM_16")
    return directory(
        tmp_path / "data",
        wav_scp="".join(f"r{i} {audio}/r{i}.wav\n" for i in range(3)),
        segments="b-1 r0 0.5 2.25 0\na-1 r0 1 4.125 1\nb-2 r1 0 -1 0\nc-1 r2 2.0 5.004\n",
        utt2spk="a-1 a\nb-1 b\nb-2 b\nc-1 c\n",
        text="a-1 HELLO  YOU\nb-1 ÉTÉ\nb-2\nc-1 \n",
        reco2file_and_channel="r0 sw02001 A\n",
    )


def test_times_channels_and_texts(calls, tmp_path):
    """D3 (order of lines), D7 (end -1), D9 (4 ms too long), D17 (empty texts)."""
    data = read_data_dir(calls, tmp_path / "made")
    assert not data.bad
    found = {u.id: (u.speaker, u.text, u.recording, u.start, u.end, u.channel) for u in data.utts}
    assert found == {
        "a-1": ("a", "HELLO YOU", "r0", 1.0, 4.125, 1),
        "b-1": ("b", "ÉTÉ", "r0", 0.5, 2.25, 0),
        "b-2": ("b", "", "r1", 0.0, 5.0, 0),
        "c-1": ("c", "", "r2", 2.0, 5.0, 0),
    }
    assert [u.id for u in data.utts] == sorted(found)
    assert data.recordings["r0"].side == ("sw02001", "A")


def imported(source: Path, out: Path, **options):
    config = ImportKaldiConfig(kaldi=source.parent, sets=[f"train={source.name}"], data=out, **options)
    return import_set(config, "train", None)


def test_there_and_back(calls, tmp_path):
    """D19: the same ids in all files, sorted; Lhotse reads what we wrote as it reads what we were given."""
    imported(calls, tmp_path / "ours")
    export_data(tmp_path / "ours", "train", "", tmp_path / "again")
    for name in ("utt2spk", "text", "wav.scp", "segments"):
        ours, theirs = (
            dict(
                line.split(maxsplit=1) if " " in line.strip() else (line.strip(), "")
                for line in (folder / name).read_text().splitlines()
            )
            for folder in (tmp_path / "again", calls)
        )
        assert list(ours) == sorted(theirs)
        if name in ("utt2spk", "wav.scp"):
            assert ours == theirs
    assert "r0 sw02001 A" in (tmp_path / "again" / "reco2file_and_channel").read_text().splitlines()
    first, again = (read_data_dir(folder, tmp_path / "made") for folder in (calls, tmp_path / "again"))
    times = [
        [(u.id, u.speaker, u.text, u.recording, u.start, u.end, u.channel) for u in d.utts] for d in (first, again)
    ]
    assert times[0] == times[1]
    segments = (tmp_path / "again" / "segments").read_text().splitlines()  # of which Lhotse knows four columns
    (tmp_path / "again" / "segments").write_text("".join(" ".join(s.split()[:4]) + "\n" for s in segments))
    recordings, supervisions, _ = load_kaldi_data_dir(tmp_path / "again", RATE)
    assert {r.id: r.num_samples for r in recordings} == {f"r{i}": 5 * RATE for i in range(3)}
    assert [(s.id, s.start, s.end, s.speaker) for s in sorted(supervisions, key=lambda s: s.id)] == [
        (u.id, u.start, u.end, u.speaker) for u in first.utts
    ]


def test_samples_are_those_of_the_channel(calls, tmp_path):
    imported(calls, tmp_path / "ours")
    audio = soundfile.read(tmp_path / "audio (é) b" / "r0.wav", dtype="float32")[0]
    cuts = {c.id: c for c in load_cuts(tmp_path / "ours", "train")}
    np.testing.assert_array_equal(cuts["a-1"].load_audio()[0], audio[RATE : round(4.125 * RATE), 1])
    np.testing.assert_array_equal(cuts["b-1"].load_audio()[0], audio[RATE // 2 : round(2.25 * RATE), 0])
    for kind in ("recordings", "supervisions"):
        assert read_jsonl(tmp_path / "ours" / "train" / f"{kind}.jsonl.gz")
    lhotse.CutSet.from_file(cuts_path(tmp_path / "ours", "train")).describe()


def test_a_directory_that_lhotse_has_written(calls, tmp_path):
    """The other way: Lhotse exports mono recordings, we read them."""
    imported(calls, tmp_path / "ours")
    cuts = lhotse.CutSet.from_cuts(c for c in load_cuts(tmp_path / "ours", "train") if c.id == "c-1")
    recordings, supervisions, _ = cuts.decompose(verbose=False)
    lhotse.kaldi.export_to_kaldi(recordings, supervisions, tmp_path / "theirs")
    (utt,) = read_data_dir(tmp_path / "theirs", tmp_path / "made").utts
    assert (utt.id, utt.speaker, utt.start, utt.end) == ("c-1", "c", 2.0, 5.0)


BAD = {
    "D6 zero length": ("u r2 1 1", "lasts from 1 to 1"),
    "D6 backwards": ("u r2 2 1", "lasts from 2 to 1"),
    "negative start": ("u r2 -0.5 1", "lasts from -0.5"),
    "past the end": ("u r2 4 5.6", "ends at 5.6 s, its recording at 5 s"),
    "behind the end": ("u r2 5 5.2", "ends at 5.2 s"),
    "D18 no channel": ("u r0 0 1", "has 2 channels and none is named"),
    "no such channel": ("u r0 0 1 2", "channel 2 of"),
    "channel A": ("u r0 0 1 A", "'A' is no number"),
    "unknown recording": ("u r9 0 1", "recording r9 is not in wav.scp"),
    "three fields": ("u r2 1", "want `UTT RECORDING START END"),
    "no number": ("u r2 0 one", "'one' is no time"),
}


@pytest.mark.parametrize("line", BAD)
def test_bad_segments_are_left_out_with_file_and_line(calls, tmp_path, line):
    entry, why = BAD[line]
    for name, text in (("segments", entry), ("utt2spk", "u u"), ("text", "u A")):
        with open(calls / name, "a") as file:
            file.write(f"{text}\n")
    data = read_data_dir(calls, tmp_path / "made")
    assert len(data.utts) == 4
    assert list(data.bad) == ["u"]
    assert f"{calls}/segments:5: " in data.bad["u"]
    assert why in data.bad["u"]


def test_utterances_that_some_file_lacks(calls, tmp_path):
    (calls / "utt2spk").write_text("a-1 a\nb-1 b\nb-2 b\nd-1 d\n")
    (calls / "text").write_text("a-1 A\nb-2 B\nc-1 C\ne-1 E\n")
    data = read_data_dir(calls, tmp_path / "made")
    assert [u.id for u in data.utts] == ["a-1", "b-2"]
    assert {u: why.rpartition(": ")[2] for u, why in data.bad.items()} == {
        "b-1": "it has no line in text",
        "c-1": "it has no speaker in utt2spk, or several",
        "d-1": "it has no audio and no features, only a speaker or a text",
        "e-1": "it has no audio and no features, only a speaker or a text",
    }


@pytest.mark.parametrize("mark", ["\u00a0", "\u3000", "\ufeff", "\u200b"])
def test_odd_characters_in_a_text(calls, tmp_path, mark):
    """D14: such a text is left out; its line is named."""
    (calls / "text").write_text(f"a-1 A{mark}B\nb-1 B\nb-2 C\nc-1 D\n")
    data = read_data_dir(calls, tmp_path / "made")
    assert list(data.bad) == ["a-1"]
    assert f"text:1: text has the character U+{ord(mark):04X}" in data.bad["a-1"]


def test_carriage_returns_are_blanks(calls, tmp_path):
    (calls / "text").write_bytes(b"a-1 A B\r\nb-1 B\r\nb-2\r\nc-1 D\r\n")
    assert [u.text for u in read_data_dir(calls, tmp_path / "made").utts] == ["A B", "B", "", "D"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("text", b"a-1 A\n\nb-1 B\n", "text:2: '' does not begin with an id"),
        ("text", "\ufeffa-1 A\n".encode(), "text:1: "),
        ("text", b"a-1 \xff\n", "text:1: not UTF-8 at byte 4"),
        ("utt2spk", b"a-1 a\na-1 b\n", "utt2spk:2: a-1 stands in line 1 too"),
        ("wav.scp", b"r0 x.wav\nr0 y.wav\n", "wav.scp:2: r0 stands in line 1 too"),
        ("reco2file_and_channel", b"r0 f\n", "reco2file_and_channel:1: want"),
    ],
)
def test_what_spoils_a_directory(calls, tmp_path, name, content, why):
    """D14, D17, D26."""
    (calls / name).write_bytes(content)
    with pytest.raises(UserError, match=".*" + why.replace(".", r"\.")):
        read_data_dir(calls, tmp_path / "made")


def test_no_text_is_told(calls, tmp_path, caplog):
    """D34: and then a score can't be made by mistake."""
    (calls / "text").unlink()
    data = read_data_dir(calls, tmp_path / "made")
    assert {u.text for u in data.utts} == {None}
    assert "has no text" in caplog.text
    (calls / "utt2spk").unlink()
    with pytest.raises(UserError, match="utt2spk cannot be read"):
        read_data_dir(calls, tmp_path / "made")


def test_bad_ones_among_good_ones(tmp_path):
    """D5, D13: of eight recordings one is empty, one damaged, one missing; five are left, or it is an error."""
    lines = []
    for i in range(8):
        soundfile.write(tmp_path / f"{i}.wav", noise(0 if i == 1 else 1, 1, i), RATE)
        lines.append(f"s-{i} {tmp_path}/{i}.wav\n")
    (tmp_path / "2.wav").write_bytes(b"RIFF nonsense")
    (tmp_path / "3.wav").unlink()
    ids = [f"s-{i}" for i in range(8)]
    speakers, texts = "".join(f"{u} s\n" for u in ids), "".join(f"{u} A\n" for u in ids)
    source = directory(tmp_path / "data", wav_scp="".join(lines), utt2spk=speakers, text=texts)
    with pytest.raises(UserError, match=r"3 of 8 utterances of .* cannot be used\n  s-1: .*wav.scp:2: .*no samples"):
        imported(source, tmp_path / "ours")
    data = imported(source, tmp_path / "ours", max_bad=0.4)
    assert [u.id for u in data.utts] == ["s-0", "s-4", "s-5", "s-6", "s-7"]
    listed = (tmp_path / "ours" / "train" / "import_bad.tsv").read_text()
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["s-1", "s-2", "s-3"]


def test_a_speaker_that_the_id_does_not_begin_with_is_told(calls, tmp_path, caplog):
    """D1: ids are kept."""
    (calls / "utt2spk").write_text("a-1 z\nb-1 b\nb-2 b\nc-1 c\n")
    imported(calls, tmp_path / "ours")
    assert "1 utterances do not begin with their speaker, a-1 (z) first" in caplog.text


def test_commands(calls, tmp_path):
    """D24, K13: refused; if allowed, run once however many segments there are, with exit status and own words told."""
    count = tmp_path / "count"
    command = f"echo x >> {count}; cat '{tmp_path}/audio (é) b/r0.wav' |"
    (calls / "wav.scp").write_text(f"r0 {command}\nr1 {command}\nr2 {tmp_path}/audio (é) b/r2.wav\n")
    with pytest.raises(UserError, match=r"wav.scp:1: .*--allow_commands"):
        read_data_dir(calls, tmp_path / "made")
    assert not count.exists()
    data = read_data_dir(calls, tmp_path / "made", allow_commands=True)
    assert (len(data.utts), count.read_text()) == (4, "x\nx\n")
    (calls / "wav.scp").write_text("r0 echo part; echo oh no >&2; exit 3 |\nr1 x |\n")
    with pytest.raises(UserError, match=r"wav.scp:1: .* ended with code 3: oh no"):
        read_data_dir(calls, tmp_path / "made", allow_commands=True)


DECODERS = {
    "flac -c -d -s /c/a b.flac": None,
    "flac -c -d -s '/c/a b.flac'": ("/c/a b.flac", None),
    "/usr/bin/flac -cds /c/a.flac": ("/c/a.flac", None),
    "sph2pipe -f wav -p -c 2 /c/sw2001.sph": ("/c/sw2001.sph", 1),
    "/opt/sph2pipe -f wav /c/x.wv1": ("/c/x.wv1", None),
    "cat a.wav": ("a.wav", None),
    "cat a.wav | sox - -t wav -": None,
    "cat $(rm -rf x)": None,
    "cat a.wav; rm b": None,
    "cat a.wav;rm b": None,
    "cat 'a (b)'": ("a (b)", None),
    "cat a(b)": None,
    "cat -": None,
    "flac -c -d -s": None,
    "sph2pipe -f wav -t 1:2 -c 1 x.sph": None,
    "sox a.wav -t wav - speed 0.9": None,
    "cat 'unfinished": None,
}


@pytest.mark.parametrize("command", DECODERS)
def test_commands_that_only_decode_a_file(command):
    assert decoded_file(command) == DECODERS[command]


def test_decoders_are_not_run(calls, tmp_path):
    """One channel of a file, taken by ``sph2pipe -c 2``, is a recording with that channel."""
    audio = tmp_path / "audio (é) b" / "r0.wav"
    (calls / "wav.scp").write_text(f"r0 sph2pipe -f wav -p -c 2 '{audio}' |\n")
    (calls / "segments").write_text("a-1 r0 1 4.125\n")
    for name in ("utt2spk", "text"):
        (calls / name).write_text("a-1 a\n")
    imported(calls, tmp_path / "ours")
    (cut,) = load_cuts(tmp_path / "ours", "train")
    samples = soundfile.read(audio, dtype="float32")[0][RATE : round(4.125 * RATE), 1]
    np.testing.assert_array_equal(cut.load_audio()[0], samples)


def test_an_archive_of_waves(calls, tmp_path):
    """``wav.ark:OFFSET``, as ``wav-copy`` leaves it."""
    kaldiio = pytest.importorskip("kaldiio")
    samples = (1000 * noise(1)[:, 0]).astype(np.int16)
    kaldiio.save_ark(str(tmp_path / "w.ark"), {"x": (RATE, samples), "r0": (RATE, samples[::-1].copy())},
                     scp=str(calls / "wav.scp"))  # fmt: skip
    (calls / "segments").unlink()
    for name in ("utt2spk", "text"):
        (calls / name).write_text("r0 a\nx a\n")
    imported(calls, tmp_path / "ours")
    cuts = {c.id: c for c in load_cuts(tmp_path / "ours", "train")}
    np.testing.assert_array_equal(cuts["r0"].load_audio()[0] * 32768, samples[::-1])


def test_sphere(tmp_path):
    """Real NIST SPHERE is read; what ``shorten`` made is refused, never noise (D21)."""
    sph = sorted(AN4.rglob("*.sph"))
    if not sph:
        pytest.skip("needs ../shared/data/mini_an4")
    broken = tmp_path / "x.sph"
    head = b"NIST_1A\n   1024\nsample_coding -s27 pcm,embedded-shorten-v2.00\nend_head\n"
    broken.write_bytes(head.ljust(1024) + np.random.default_rng(0).bytes(20000))
    source = directory(tmp_path / "data", wav_scp=f"a {sph[0]}\nb {broken}\n", utt2spk="a a\nb b\n", text="a A\nb B\n")
    data = read_data_dir(source, tmp_path / "made")
    assert [u.end for u in data.utts] == [soundfile.info(str(sph[0])).duration]
    assert "shorten" in data.bad["b"]
    assert "sph2pipe" in data.bad["b"]


def test_files_that_kaldi_reads_through_a_command(tmp_path):
    """D25: a FLAC file in a path with a blank and a quote; what we write, we read without running it."""
    path = tmp_path / "it's a" / "x.flac"
    path.parent.mkdir()
    soundfile.write(path, noise(1), RATE)
    source = directory(tmp_path / "data", wav_scp=f"x {path}\n", utt2spk="x x\n", text="x A\n")
    imported(source, tmp_path / "ours")
    export_data(tmp_path / "ours", "train", "", tmp_path / "again")
    entry = (tmp_path / "again" / "wav.scp").read_text().removeprefix("x ").strip()
    assert entry == f"flac -c -d -s {shlex.quote(str(path))} |"
    assert read_data_dir(tmp_path / "again", tmp_path / "made").recordings["x"].path == str(path)


def test_ids_that_kaldi_cannot_have(calls, tmp_path):
    imported(calls, tmp_path / "ours")
    path = cuts_path(tmp_path / "ours", "train")
    rows = read_jsonl(path)
    rows[0]["id"] = "a 1"
    lhotse.serialization.save_to_jsonl(rows, path)
    with pytest.raises(UserError, match=r"id 'a 1' has blanks"):
        export_data(tmp_path / "ours", "train", "", tmp_path / "again")


def test_changed_recordings_are_no_files(calls, tmp_path, caplog):
    """Copies at another speed have features, but no audio file that Kaldi could read."""
    imported(calls, tmp_path / "ours")
    cuts = load_cuts(tmp_path / "ours", "train").perturb_speed(0.9)
    cuts.to_file(cuts_path(tmp_path / "ours", "train"))
    counts = export_data(tmp_path / "ours", "train", "", tmp_path / "again")
    assert counts == {"utts": 4, "texts": 4, "recordings": 0}
    assert "no wav.scp is written" in caplog.text
    assert json.dumps(sorted(p.name for p in (tmp_path / "again").iterdir())) == json.dumps(
        ["spk2utt", "text", "utt2dur", "utt2spk"]
    )
