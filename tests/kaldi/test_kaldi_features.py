"""Features, statistics and scores in and out, against kaldiio and kaldi_native_io."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_kaldi_models import BY_HAND, ali_dir, binary_model, graph_dir

from asr_parallel.align.labels import Labels
from asr_parallel.config import ExportKaldiConfig, ImportKaldiConfig, ModelConfig, cuts_path
from asr_parallel.data.cmvn import EVERYBODY
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.manifests import load_cuts, read_jsonl, write_jsonl
from asr_parallel.files import read_json
from asr_parallel.kaldi import export_run, import_run
from asr_parallel.kaldi.import_set import import_set
from asr_parallel.kaldi.lines import read_table
from asr_parallel.kaldi.nnet1 import Transform
from asr_parallel.log import UserError
from asr_parallel.model import load_predictor, make_model, save_model

kaldiio = pytest.importorskip("kaldiio")
native = pytest.importorskip("kaldi_native_io")
pytestmark = pytest.mark.filterwarnings("ignore")  # Lhotse's
RNG = np.random.default_rng(2)
LENGTHS = {"a-1": 400, "a-2": 31, "b-1": 352, "é-1": 410}
FEATS = {u: (3 * RNG.standard_normal((t, 6)) + [0, 5, -9, 1, 2, 3]).astype(np.float32) for u, t in LENGTHS.items()}
SPEAKER = {u: u[0] for u in FEATS}


def stats_of(frames: list[np.ndarray]) -> np.ndarray:
    """As ``compute-cmvn-stats`` adds them up."""
    x = np.concatenate(frames).astype(np.float64)
    return np.stack([np.append(x.sum(0), len(x)), np.append((x**2).sum(0), 0)])


@pytest.fixture
def kaldi(tmp_path):
    """``egs`` with ``data/train``: features alone, in a compressed archive; statistics of each speaker."""
    folder = tmp_path / "egs" / "data" / "train"
    folder.mkdir(parents=True)
    kaldiio.save_ark(str(folder / "feats.ark"), FEATS, scp=str(folder / "feats.scp"), compression_method=2)
    for name in ("utt2spk", "text"):
        (folder / name).write_text("".join(f"{u} {s}\n" for u, s in SPEAKER.items()))
    stats = {s: stats_of([f for u, f in FEATS.items() if SPEAKER[u] == s]) for s in ("a", "b", "é")}
    kaldiio.save_ark(str(folder / "cmvn.ark"), stats, scp=str(folder / "cmvn.scp"))
    return tmp_path / "egs"


def imported(kaldi: Path, transform: Transform | None = None, **options) -> FeatureSet:
    config = ImportKaldiConfig(kaldi=kaldi, sets=["train"], data=kaldi.parent / "ours", **options)
    import_set(config, "train", transform)
    return FeatureSet.open(config.data, "train", config.kind)


def test_features_alone(kaldi):
    feats = imported(kaldi)
    assert feats.utts == sorted(FEATS)
    assert feats.texts == [SPEAKER[u] for u in sorted(FEATS)]
    for utt, theirs in kaldiio.load_scp(str(kaldi / "data/train/feats.scp")).items():
        i = feats.row_of[utt]
        raw = feats.frames[feats.offsets[i] : feats.offsets[i + 1]]
        np.testing.assert_allclose(raw, theirs, atol=1e-4)
        assert feats.durations[i] == pytest.approx(0.01 * LENGTHS[utt])
    cuts = {c.id: c for c in load_cuts(kaldi.parent / "ours", "train", "kaldi")}
    np.testing.assert_array_equal(cuts["b-1"].load_features(), feats.frames[431 : 431 + 352])
    assert not cuts["b-1"].has_recording


def test_our_own_normalisation(kaldi):
    """Mean and variance by speaker; those heard for less than 3 s borrow, which none here is."""
    feats = imported(kaldi)
    for speaker in ("a", "b", "é"):
        x = np.concatenate([feats[u] for u in feats.utts if SPEAKER[u] == speaker])
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)
        np.testing.assert_allclose(x.std(0), 1, atol=1e-3)


@pytest.mark.parametrize(("opts", "means", "variances"), [
    (None, True, False), ("--norm-means=true --norm-vars=true", True, True), ("--norm-means=false", False, False)
])  # fmt: skip
def test_the_normalisation_of_kaldi(kaldi, opts, means, variances):
    """``apply-cmvn`` by hand, with the options that the directory of alignments keeps."""
    options = {}
    if opts:
        (kaldi / "exp").mkdir()
        (kaldi / "exp" / "cmvn_opts").write_text(f"{opts}\n")
        options["ali"] = [Path("exp")]
    feats = imported(kaldi, cmvn="kaldi", **options)
    for utt in FEATS:
        x = feats.frames[feats.offsets[feats.row_of[utt]] : feats.offsets[feats.row_of[utt] + 1]]
        stats = kaldiio.load_scp(str(kaldi / "data/train/cmvn.scp"))[SPEAKER[utt]]
        mean = stats[0, :-1] / stats[0, -1]
        std = np.sqrt(stats[1, :-1] / stats[0, -1] - mean**2)
        np.testing.assert_allclose(feats[utt], (x - mean * means) / (std if variances else 1), atol=1e-4)


def test_global_statistics_and_none(kaldi):
    stats = stats_of(list(FEATS.values()))
    kaldiio.save_mat(str(kaldi / "global.stats"), stats)
    feats = imported(kaldi, cmvn="global.stats")
    assert feats.speakers == [EVERYBODY]
    np.testing.assert_allclose(feats.mean[0], stats[0, :-1] / stats[0, -1], rtol=1e-5)
    feats = imported(kaldi, cmvn="none")
    np.testing.assert_array_equal(feats["a-2"], feats.frames[400:431])


def test_a_transform_goes_into_the_normalisation(kaldi):
    before = imported(kaldi, cmvn="kaldi")["b-1"]
    transform = Transform(5, RNG.standard_normal(6), RNG.uniform(0.5, 2, 6))
    after = imported(kaldi, transform, cmvn="kaldi")["b-1"]
    np.testing.assert_allclose(after, (before + transform.shift) * transform.scale, atol=1e-4)


def broken(kaldi, utt, entry):
    path = kaldi / "data/train/feats.scp"
    lines = {u: e for u, (_, e) in read_table(path).items()} | {utt: entry}
    path.write_text("".join(f"{u} {e}\n" for u, e in lines.items() if e))


@pytest.mark.parametrize(("entry", "why"), [
    ("/no/such.ark:7", "feats.scp:2: /no/such.ark cannot be read"),
    ("", "it has no audio and no features, only a speaker or a text"),
    ("WIDE", "feats.scp:2: its frames have 7 values, those before 6"),
    ("NAN", "feats.scp:2: it has values that are not numbers"),
    ("EMPTY", "feats.scp:2: it has no frames"),
    ("FIRST[0:99]", ""),
    ("FIRST[0:400]", "feats.scp:2: range [0:400] of what has 400 x 6 values"),
    ("FIRST[0:9]", "feats.scp:2: it has 10 frames, utt2num_frames says 100"),
])  # fmt: skip
def test_features_that_cannot_be_used(kaldi, entry, why):
    """K7, K11, D5, D27: the utterance is left out, with file and line; the others are there."""
    odd = {"WIDE": np.ones((9, 7)), "NAN": np.full((9, 6), np.nan), "EMPTY": np.zeros((0, 6))}
    if entry in odd:
        kaldiio.save_ark(str(kaldi / "odd.ark"), {"a-2": odd[entry].astype(np.float32)})
        entry = f"{kaldi}/odd.ark:4"
    first = read_table(kaldi / "data/train/feats.scp")["a-1"][1]
    broken(kaldi, "a-2", entry.replace("FIRST", first))
    if entry.startswith("FIRST"):
        (kaldi / "data/train/utt2num_frames").write_text("a-2 100\n")
    if not why:
        assert imported(kaldi).num_frames("a-2") == 100
        return
    with pytest.raises(UserError, match=r"1 of 4 utterances of .* cannot be used"):
        imported(kaldi)
    feats = imported(kaldi, max_bad=0.25)
    assert feats.utts == ["a-1", "b-1", "é-1"]
    assert why in (kaldi.parent / "ours/train/import_bad.tsv").read_text()


def test_a_command_in_feats_scp(kaldi):
    broken(kaldi, "a-2", f"tail -c +5 {kaldi}/one.ark |")
    kaldiio.save_ark(str(kaldi / "one.ark"), {"a-2": FEATS["a-2"]})
    with pytest.raises(UserError, match=r"feats.scp:2: .* is a command: give --allow_commands"):
        imported(kaldi)
    feats = imported(kaldi, allow_commands=True)
    np.testing.assert_array_equal(feats.frames[400:431], FEATS["a-2"])


def test_frame_shift(kaldi):
    (kaldi / "data/train/frame_shift").write_text("0.0125\n")
    feats = imported(kaldi)
    assert feats.durations[0] == pytest.approx(5.0)
    (cut,) = [c for c in load_cuts(kaldi.parent / "ours", "train", "kaldi") if c.id == "a-1"]
    assert cut.features.frame_shift == 0.0125


@pytest.fixture
def model(kaldi):
    imported(kaldi)
    config = ModelConfig(layers=1, width=8, context=1)
    folder = kaldi.parent / "dnn"
    save_model(folder / "final.pt", make_model(config, 18, 4, 0), "kaldi", np.array([5, 1, 0, 3]))
    (folder / "decode_train").mkdir()
    (folder / "decode_train" / "ctm").write_text("b-1 1 0.50 0.25 HELLO 0.9000\na-2 1 0.10 0.20 A 0.5000\n")
    return folder


def exported(kaldi, **options):
    config = ExportKaldiConfig(data=kaldi.parent / "ours", sets=["train"], out=kaldi.parent / "back", **options)
    export_run.run(config)
    return config.out


def test_features_out(kaldi, capsys):
    """Kaldi's reader finds the frames; ``apply-cmvn --norm-vars=true`` gives our normalisation."""
    feats = imported(kaldi)
    out = exported(kaldi, kind="kaldi") / "data/train"
    with native.SequentialFloatMatrixReader(f"scp:{out}/feats.scp") as reader:
        found = {key: np.array(m) for key, m in reader}
    with native.SequentialDoubleMatrixReader(f"scp:{out}/cmvn.scp") as reader:
        stats = {key: np.array(m) for key, m in reader}
    assert list(found) == sorted(FEATS, key=str.encode)
    for utt, x in found.items():
        s = stats[SPEAKER[utt]]
        mean = s[0, :-1] / s[0, -1]
        variance = s[1, :-1] / s[0, -1] - mean**2
        np.testing.assert_allclose((x - mean) / np.sqrt(variance), feats[utt], atol=1e-4)
    assert (out / "utt2num_frames").read_text() == "".join(f"{u} {t}\n" for u, t in LENGTHS.items())
    assert (out / "spk2utt").read_text() == "a a-1 a-2\nb b-1\né é-1\n"
    assert "4 utts, 4 texts, 0 recordings, 1,193 frames" in capsys.readouterr().out


def test_scores_out(kaldi, model):
    predictor = load_predictor(model)
    feats = FeatureSet.open(kaldi.parent / "ours", "train", "kaldi")
    for kind in ("loglikes", "posteriors"):
        out = exported(kaldi, model=model, scores=kind)
        with native.SequentialFloatMatrixReader(f"ark:{out}/{kind}_train.ark") as reader:
            found = {key: np.array(m) for key, m in reader}
        assert len(found) == 4
        for utt, scores in found.items():
            log_posteriors = predictor.log_posteriors(feats[utt])
            if kind == "posteriors":
                np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
                np.testing.assert_allclose(np.log(scores), log_posteriors, atol=1e-4)
            else:
                share = np.log(np.array([5, 1, 1, 3]) / 10)
                np.testing.assert_allclose(scores, log_posteriors - share, atol=1e-5)


def test_word_times_out(kaldi, model):
    """From the start of the file, by the names of NIST's formats."""
    path = cuts_path(kaldi.parent / "ours", "train")
    rows = read_jsonl(path)
    for row in rows:
        row["start"] = 100.0
        row["supervisions"][0]["custom"] = {"file": f"f{row['id'][0]}", "side": "B"}
    write_jsonl(path, rows)
    out = exported(kaldi, model=model)
    assert (out / "train.ctm").read_text() == "fa B 100.10 0.20 A 0.5000\nfb B 100.50 0.25 HELLO 0.9000\n"


def test_networks_and_labels_out(kaldi, model):
    Labels.from_dict({u: np.zeros(t, np.int32) for u, t in LENGTHS.items()}).save(kaldi.parent / "ali_train.npz")
    out = exported(kaldi, model=model, nnet=["nnet1", "nnet3"], ali=kaldi.parent)
    files = read_json(out / "export.json")["files"]
    assert files == [f"nnet1/{f}" for f in ("final.nnet", "final.feature_transform", "ali_train_pdf.counts")] + [
        "nnet3/final.raw", "nnet3/priors.vec"
    ]  # fmt: skip
    assert all((out / f).exists() for f in [*files, "ali_train.ark", "ali_train.scp"])
    with pytest.raises(UserError, match="give its directory as --model"):
        exported(kaldi, nnet=["nnet1"])


@pytest.fixture
def experiment(kaldi):
    """``exp/ali`` of the utterances but the shortest, ``exp/tri/graph`` below its model, a transform."""
    (kaldi / "exp/tri").mkdir(parents=True)
    ids = {u: RNG.integers(1, 25, t).tolist() for u, t in LENGTHS.items() if u != "a-2"}
    ali_dir(kaldi / "exp/ali", jobs=1, utts=ids)
    (kaldi / "exp/tri/final.mdl").write_bytes(binary_model())
    graph_dir(kaldi / "exp/tri/graph")
    (kaldi / "exp/t").write_text("<Nnet>\n<Splice> 18 6\n[ -1 0 1 ]\n</Nnet>\n")
    return ids


def ran(kaldi, **options):
    where = {"kaldi": kaldi, "data": kaldi.parent / "ours", "out": kaldi.parent / "gmm"}
    config = ImportKaldiConfig(**where | {"sets": ["train"], "ali": [Path("exp/ali")]} | options)
    import_run.run(config)
    return config


def test_the_whole_verb(kaldi, experiment, capsys):
    config = ran(kaldi, graph=Path("exp/tri/graph"), transform=Path("exp/t"), max_bad=0.25)
    assert all(p.exists() for p in config.outputs())
    labels = Labels.load(config.out / "ali_train.npz")
    assert labels.utts == ["a-1", "b-1", "é-1"]
    pdfs = {utt: [BY_HAND[i - 1][2] for i in ids] for utt, ids in experiment.items()}
    assert {utt: labels[utt].tolist() for utt in labels.utts} == pdfs
    counts = np.bincount(np.concatenate(list(pdfs.values())), minlength=8)
    np.testing.assert_array_equal(np.load(config.out / "priors.npz")["counts"], counts)
    assert read_json(config.data / "import.json")["context"] == 1
    assert "graph: 3 states, 5 arcs" in capsys.readouterr().out


def test_a_graph_alone(kaldi, experiment):
    """Its model is that in the directory above."""
    config = ran(kaldi, ali=[], graph=Path("exp/tri/graph"))
    assert read_json(config.out / "graph/graph.json")["tree"]


def test_labels_of_other_lengths_are_counted(kaldi, experiment):
    ali_dir(kaldi / "exp/short", jobs=1, utts={u: ids[5:] for u, ids in experiment.items()})
    config = ran(kaldi, ali=[Path("exp/short")], max_bad=0.25)
    assert read_json(config.data / "import.json")["sets"]["train"]["other_lengths"] == 3


def test_alignments_that_are_missing(kaldi, experiment):
    with pytest.raises(UserError, match=r"1 of 4 utterances of train have no alignment, a-2 first"):
        ran(kaldi)
    with pytest.raises(UserError, match=r"--train other is not among --sets"):
        ran(kaldi, train="other")


def test_import_of_what_was_exported(kaldi, tmp_path):
    """Round trip: the same frames, ids, speakers and texts."""
    first = imported(kaldi)
    out = exported(kaldi, kind="kaldi")
    config = ImportKaldiConfig(kaldi=out, sets=["train"], data=tmp_path / "again", out=tmp_path / "gmm")
    import_run.run(config)
    again = FeatureSet.open(config.data, "train", "kaldi")
    assert (again.utts, again.texts, again.speakers) == (first.utts, first.texts, first.speakers)
    np.testing.assert_array_equal(again.frames, first.frames)
    np.testing.assert_allclose(again.durations, first.durations)
    assert read_json(config.data / "import.json")["sets"]["train"] == {
        "in": 4, "out": 4, "speakers": 3, "hours": 0.003, "labelled": 0
    }  # fmt: skip
    assert json.dumps(sorted(p.name for p in config.data.iterdir())) == '["import.json", "train"]'
