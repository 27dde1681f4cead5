"""The same speech in every form gives the same corpus: ids, speakers, words, and each sample, as Lhotse reads it."""

from __future__ import annotations

import json
from pathlib import Path

import lhotse
import numpy as np
import pytest
from real_speech import RATE, Said, write

from asr_parallel import cli
from asr_parallel.config import PrepareConfig
from asr_parallel.log import UserError
from asr_parallel.prepare.run import run

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # in Lhotse

SET_OF = ["train", "train", "dev", "test"]  # by place among a speaker's utterances, where a form tells of sets


def by_set(speech: list[Said]) -> dict[str, list[Said]]:
    return {name: [s for i, s in enumerate(speech) if SET_OF[i % 4] == name] for name in ("train", "dev", "test")}


def long_recordings(speech: list[Said], folder: Path, suffix: str = ".wav") -> dict[str, tuple[str, int, float]]:
    """Two-channel files: the first speaker's utterances one after the other against the second's, the third's alone.

    Gives ``{utt: (file, channel, start)}``.
    """
    speakers = sorted({s.speaker for s in speech})
    sides: dict[str, list[np.ndarray]] = {speaker: [np.zeros(1600, np.int16)] for speaker in speakers}
    places = {}
    for said in speech:
        side = speakers.index(said.speaker)
        file, channel = ("talk", side) if side < 2 else ("solo", 0)
        places[said.utt] = (file, channel, sum(map(len, sides[said.speaker])) / RATE)
        sides[said.speaker] += [said.samples, np.zeros(800, np.int16)]
    whole = [np.concatenate(sides[speaker]) for speaker in speakers]
    length = max(map(len, whole[:2]))
    write(folder / f"talk{suffix}", np.stack([np.pad(w, (0, length - len(w))) for w in whole[:2]], 1), RATE)
    write(folder / f"solo{suffix}", whole[2], RATE)
    return places


def make_table(speech, root):
    (root / "Aufnahmen (é) 1").mkdir(parents=True)
    rows = ["file,speaker,split,sentence"]
    for name, members in by_set(speech).items():
        for said in members:
            write(root / "Aufnahmen (é) 1" / f"{said.utt} x.wav", said.samples)
            rows.append(f'Aufnahmen (é) 1/{said.utt} x.wav,{said.speaker},{name},"{said.text.lower()}, yes?"')
    (root / "list.csv").write_text("\n".join(rows))
    return {s.utt: f"{s.speaker}-Aufnahmen_(é)_1-{s.utt}_x" for s in speech}, lambda s: f"{s.text} YES"


def make_timed_table(speech, root):
    places = long_recordings(speech, root / "long")
    rows = ["id\tpath\tchannel\tstart\tend\ttext\tspeaker\tset"]
    for name, members in by_set(speech).items():
        for said in members:
            file, channel, start = places[said.utt]
            end = start + said.seconds
            rows.append(f"{said.utt}\t{file}\t{channel}\t{start}\t{end}\t{said.text}\t{said.speaker}\t{name}")
    (root / "list.tsv").write_text("\ufeff" + "\r\n".join(rows) + "\r\n\r\n")  # as spreadsheets save it


def make_files(speech, root):
    for name, members in by_set(speech).items():
        for said in members:
            write(root / name / said.speaker / f"{said.utt}.flac", said.samples)
            (root / name / said.speaker / f"{said.utt}.txt").write_text(said.text + "\n")
    (root / "README.txt").write_text("about this corpus")
    return {s.utt: f"{s.speaker}-{name}-{s.speaker}-{s.utt}" for name, m in by_set(speech).items() for s in m}


def make_librispeech(speech, root):
    for name, members in zip(("train-clean-100", "dev-other", "test-other"), by_set(speech).values()):
        for said in members:
            folder = root / "LibriSpeech" / name / said.speaker / said.utt.split("-")[1]
            write(folder / f"{said.utt}.flac", said.samples)
            with open(folder / f"{said.speaker}-{said.utt.split('-')[1]}.trans.txt", "a") as f:
                f.write(f"{said.utt} {said.text}\n")


def make_common_voice(speech, root):
    for name, members in by_set(speech).items():
        rows = ["client_id\tpath\tsentence\tup_votes"]
        for said in members:
            write(root / "clips" / f"{said.utt}.flac", said.samples)
            rows.append(f'{said.speaker}\t{said.utt}.flac\t"{said.text.capitalize()}.\t2')  # quotes need not match
        (root / f"{name}.tsv").write_text("\n".join(rows))
    (root / "validated.tsv").write_text("client_id\tpath\tsentence\nx\tnot-there.flac\tTwice.\n")


def make_common_voice_archive(speech, root):
    make_common_voice(speech, root / "cv-corpus-17.0" / "en")


def make_kaldi(speech, root):
    places = long_recordings(speech, root / "audio")
    for name, members in by_set(speech).items():
        folder = root / name
        folder.mkdir()
        used = sorted({places[s.utt][0] for s in members})
        lines = {"text": [], "utt2spk": [], "segments": []}
        for said in members:
            file, channel, start = places[said.utt]
            lines["text"].append(f"{said.utt} {said.text}")
            lines["utt2spk"].append(f"{said.utt} {said.speaker}")
            lines["segments"].append(f"{said.utt} {file} {start:.5f} {start + said.seconds:.5f} {channel}")
        lines["wav.scp"] = [f"{file} {root}/audio/{file}.wav" for file in used]
        for file, rows in lines.items():
            (folder / file).write_text("\n".join(rows) + "\n")


def make_lhotse(speech, root):
    places = long_recordings(speech, root)
    recordings = [lhotse.Recording.from_file(root / f"{file}.wav", recording_id=file) for file in ("talk", "solo")]
    lhotse.RecordingSet.from_recordings(recordings).to_file(root / "mine_recordings_all.jsonl.gz")
    for name, members in by_set(speech).items():
        supervisions = [
            lhotse.SupervisionSegment(
                s.utt, places[s.utt][0], places[s.utt][2], s.seconds, places[s.utt][1], s.text, "English", s.speaker
            )
            for s in members
        ]
        lhotse.SupervisionSet.from_segments(supervisions).to_file(root / f"mine_supervisions_{name}.jsonl.gz")


def make_lhotse_cuts(speech, root):
    make_lhotse(speech, root)
    recordings = lhotse.load_manifest(root / "mine_recordings_all.jsonl.gz")
    for name in by_set(speech):
        path = root / f"mine_supervisions_{name}.jsonl.gz"
        (root / name).mkdir()
        cuts = lhotse.CutSet.from_manifests(recordings, lhotse.load_manifest(path))
        cuts.trim_to_supervisions(keep_overlapping=False).to_file(root / name / "cuts.jsonl.gz")
        path.unlink()
    (root / "mine_recordings_all.jsonl.gz").unlink()


def make_stm(speech, root):
    places = long_recordings(speech, root / "sph", ".sph")
    for name, members in by_set(speech).items():
        rows = [";; comment", "talk 1 x 0 0.05 <o,f0,male> IGNORE_TIME_SEGMENT_IN_SCORING"]
        for said in members:
            file, channel, start = places[said.utt]
            side = "AB"[channel]
            rows.append(f"{file} {side} {said.speaker} {start:.5f} {start + said.seconds:.5f} <o,f0,male> {said.text}")
        (root / f"{name}.stm").write_text("\n".join(rows) + "\n")


FORMS = {
    "table": make_table, "timed table": make_timed_table, "files": make_files, "librispeech": make_librispeech,
    "common_voice": make_common_voice, "common_voice archive": make_common_voice_archive, "kaldi": make_kaldi,
    "lhotse": make_lhotse, "lhotse cuts": make_lhotse_cuts, "stm": make_stm,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_corpus(form, speech, tmp_path, monkeypatch):
    root = tmp_path / "mine"
    root.mkdir()
    made = FORMS[form](speech, root)
    ids, text_of = made if isinstance(made, tuple) else (made, lambda s: s.text)
    monkeypatch.chdir(tmp_path)
    run(PrepareConfig(source=Path("mine"), out=Path("data"), jobs=1))
    report = json.loads((tmp_path / "data" / "prepare.json").read_text())
    assert report["form"] == form.split()[-1 if "table" in form else 0]
    assert report["rate"] == RATE
    assert report["kept"] == len(speech)
    assert report["split"] == "sets as the corpus has them"
    assert report["dropped"] == ({"not to be used": 3} if form == "stm" else {})
    for name, members in by_set(speech).items():
        cuts = {c.supervisions[0].text: c for c in lhotse.load_manifest(tmp_path / "data" / name / "cuts.jsonl.gz")}
        assert sorted(cuts) == sorted(text_of(s) for s in members)
        for said in members:
            cut = cuts[text_of(said)]
            assert cut.supervisions[0].speaker == said.speaker
            np.testing.assert_array_equal(np.round(cut.load_audio()[0] * 32768), said.samples)
            if form != "stm":  # which has no ids
                assert cut.id == (ids or {}).get(said.utt, said.utt)
            assert cut.id.startswith(said.speaker)
    cli.run("validate", cli.parse("validate", ["--data", "data", "--jobs", "1"]))
    assert json.loads(Path("data/validated.json").read_text())["problems"] == []


def test_several_languages_of_common_voice_are_not_mixed(speech, tmp_path):
    for language in ("en", "de"):
        make_common_voice(speech, tmp_path / "mine" / language)
    with pytest.raises(UserError, match=r"several languages: give the folder of one .*mine/de, .*mine/en"):
        run(PrepareConfig(source=tmp_path / "mine", out=tmp_path / "data", jobs=1))


def test_one_table_is_enough(speech, tmp_path):
    rows = ["path;text"]
    for said in speech:
        write(tmp_path / f"{said.utt}.wav", said.samples)
        rows.append(f"{said.utt}.wav;{said.text}")
    (tmp_path / "all.csv").write_text("\n".join(rows))
    (tmp_path / "other.csv").write_text("path;text\nnot-there.wav;x\n")
    run(PrepareConfig(source=tmp_path / "all.csv", out=tmp_path / "data", jobs=1))
    assert json.loads((tmp_path / "data/prepare.json").read_text())["kept"] == len(speech)


def test_folder_without_a_known_form_is_told_which_there_are(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "numbers.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"none of the forms(.|\n)*common_voice(.|\n)*files +a\.wav and a\.txt"):
        run(PrepareConfig(source=tmp_path / "mine", out=tmp_path / "data"))
    with pytest.raises(UserError, match=r"a table begins with names of columns, path and text"):
        run(PrepareConfig(source=tmp_path / "mine" / "numbers.csv", form="table", out=tmp_path / "data"))
    with pytest.raises(UserError, match=r"--from .*gone is not there"):
        run(PrepareConfig(source=tmp_path / "gone", out=tmp_path / "data"))


def test_mixed_rates_and_codecs_become_one(speech, tmp_path):
    root, texts = tmp_path / "mine", {s.utt: s.text for s in speech}
    for i, said in enumerate(speech):
        rate, suffix = [(RATE, ".wav"), (RATE, ".wav"), (RATE, ".mp3"), (RATE // 2, ".flac")][i % 4]
        samples = said.samples if rate == RATE else said.samples[::2]
        write(root / said.speaker / f"{said.utt}{suffix}", samples, rate)
        (root / said.speaker / f"{said.utt}.txt").write_text(said.text)
    run(PrepareConfig(source=root, out=tmp_path / "data", jobs=1))
    cuts = {}
    for name in ("train", "dev", "test"):
        for cut in lhotse.load_manifest(tmp_path / f"data/{name}/cuts.jsonl.gz"):
            cuts[cut.id.split("-", 1)[1]] = cut
    for i, said in enumerate(speech):
        cut = cuts[f"{said.speaker}-{said.utt}"] if f"{said.speaker}-{said.utt}" in cuts else cuts[said.utt]
        assert cut.supervisions[0].text == texts[said.utt]
        assert cut.sampling_rate == RATE
        wave = cut.load_audio()[0]
        assert abs(len(wave) / RATE - said.seconds) < 0.11  # MP3 pads
        if i % 4 != 2:
            assert np.corrcoef(wave[: len(said.samples)], said.samples[: len(wave)])[0, 1] > 0.9
