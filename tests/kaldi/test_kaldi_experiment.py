"""A Kaldi experiment of real speech, taken in, trained on, decoded with its own graph and scored, by our verbs alone.

What Kaldi would have left is written by others' tools: features by kaldiio (compressed), alignments by kaldi_native_io
and gzip, ``final.mdl`` by kaldi-hmm-gmm, ``HCLG.fst`` by OpenFst.  Words, phones and the times of states behind it come
from our monophones.
"""

from __future__ import annotations

import gzip
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import kaldifst
import numpy as np
import pytest
import soundfile
from hmm_gmm import ask

from asr_parallel.align import run as align_run
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.config import AlignConfig, FeaturesConfig, LangConfig, MonoConfig
from asr_parallel.data import features as features_run
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.manifests import Utt, write
from asr_parallel.files import read_json
from asr_parallel.lang import run as lang_run
from asr_parallel.lang.arrays import FstArrays

EXCERPT = Path(__file__).parents[3] / "shared/data/librispeech_excerpt/LibriSpeech"
NEEDED = [m for m in ("kaldiio", "kaldi_native_io", "kaldi_hmm_gmm") if importlib.util.find_spec(m) is None]
pytestmark = [
    pytest.mark.skipif(not EXCERPT.exists(), reason="needs ../shared/data/librispeech_excerpt"),
    pytest.mark.skipif(bool(NEEDED), reason=f"needs {NEEDED}"),
    pytest.mark.filterwarnings("ignore"),
]
UTTS, DEV = (
    48,
    16,
)  # shortest utterances, every third of which is in `dev` and `test` too: the chain is tested, not speech


def shortest() -> list[Utt]:
    utts = []
    for path in EXCERPT.rglob("*.trans.txt"):
        for line in path.read_text().splitlines():
            utt, _, text = line.partition(" ")
            audio = path.parent / f"{utt}.flac"
            info = soundfile.info(str(audio))
            utts.append(Utt(utt, utt.split("-")[0], text, str(audio), info.samplerate, info.frames))
    return sorted(utts, key=lambda u: (u.num_samples, u.id))[:UTTS]


def topo_text(hmm: HmmModel) -> str:
    """Kaldi's form has one more state, which emits nothing."""
    lines = ["<Topology>"]
    for phone in range(1, len(hmm.phones)):
        states = hmm.topology.states[phone]
        lines += ["<TopologyEntry>", "<ForPhones>", str(phone), "</ForPhones>"]
        for number, arcs in enumerate(states):
            ways = " ".join(f"<Transition> {to} {p}" for to, p in arcs)
            lines.append(f"<State> {number} <PdfClass> {number} {ways} </State>")
        lines += [f"<State> {len(states)} </State>", "</TopologyEntry>"]
    return "\n".join([*lines, "</Topology>", ""])


def write_data(ours: Path, egs: Path) -> None:
    """``data/train`` with compressed features; ``dev`` and ``test`` have fewer utterances."""
    import kaldiio

    feats = FeatureSet.open(ours / "data", "train", "fbank")
    utts = {u.id: u for u in shortest()}
    for name, chosen in (("train", feats.utts), ("dev", feats.utts[::3]), ("test", feats.utts[1::3])):
        folder = egs / "data" / name
        folder.mkdir(parents=True)
        raw = {
            u: np.array(feats.frames[feats.offsets[feats.row_of[u]] : feats.offsets[feats.row_of[u] + 1]])
            for u in chosen
        }
        kaldiio.save_ark(f"{folder}/feats.ark", raw, scp=f"{folder}/feats.scp", compression_method=2)
        (folder / "utt2spk").write_text("".join(f"{u} {utts[u].speaker}\n" for u in chosen))
        (folder / "text").write_text("".join(f"{u} {utts[u].text}\n" for u in chosen))
        (folder / "wav.scp").write_text("".join(f"{u} flac -c -d -s {utts[u].audio} |\n" for u in chosen))


def write_exp(ours: Path, egs: Path) -> None:
    """``exp/mono_ali`` in two archives, and ``exp/mono/graph``."""
    import kaldi_native_io as native

    hmm, labels = HmmModel.load(ours / "exp/mono/hmm.json"), Labels.load(ours / "exp/mono/ali_train.npz")
    tree = hmm.tree
    states = {u: np.stack([tree.pdf_phone[labels[u]], tree.pdf_state[labels[u]]], 1).tolist() for u in labels.utts}
    ali = egs / "exp/mono_ali"
    ali.mkdir(parents=True)
    meaning = ask(ali, topo_text(hmm), [[p] for p in range(1, len(hmm.phones))], states)
    for job in (1, 2):
        with native.Int32VectorWriter(f"ark:{ali}/ali.{job}") as writer:
            for utt in labels.utts[job - 1 :: 2]:
                writer.write(utt, meaning["utts"][utt])
        (ali / f"ali.{job}.gz").write_bytes(gzip.compress((ali / f"ali.{job}").read_bytes()))
        (ali / f"ali.{job}").unlink()
    (ali / "num_jobs").write_text("2\n")
    write_graph(ours / "exp/mono/graph", hmm, meaning, egs / "exp/mono/graph")


def write_graph(source: Path, hmm: HmmModel, meaning: dict, out: Path) -> None:
    """Our graph with transition ids for pdfs, as OpenFst's ``vector``."""
    ids = {}
    for i, key in enumerate(zip(meaning["phones"], meaning["states"], meaning["loops"]), 1):
        ids.setdefault(key, i)
    graph = FstArrays.read(source / "HCLG.fst")
    lines = []
    for state, arc in zip(graph.sources().tolist(), graph.arcs.tolist()):
        ilabel, olabel, weight, to = arc
        pdf = ilabel - 1
        place = int(hmm.tree.pdf_phone[pdf]), int(hmm.tree.pdf_state[pdf]), to == state
        lines.append((state, f"{state} {to} {ids[place] if ilabel else 0} {olabel} {weight:.9g}"))
    lines += [(s, f"{s} {w:.9g}") for s, w in enumerate(graph.finals.tolist()) if np.isfinite(w)]
    lines.sort(key=lambda line: line[0] != graph.start)  # OpenFst starts with the first line
    out.mkdir(parents=True)
    kaldifst.compile("\n".join(line for _, line in lines) + "\n").write(str(out / "HCLG.fst"))
    shutil.copy(source / "words.txt", out)
    (out / "num_pdfs").write_text(f"{hmm.tree.num_pdfs}\n")


@pytest.fixture(scope="module")
def egs(tmp_path_factory) -> Path:
    """A directory as Kaldi's recipes leave it; what it was made with is gone."""
    ours, egs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("egs")
    write(ours / "data/train", shortest())
    features_run.run(FeaturesConfig(data=ours / "data", sets=["train"], jobs=2))
    lang_run.run(LangConfig(data=ours / "data", out=ours / "lang", dev=[], test=[], order=2, general="none"))
    mono = MonoConfig(iterations=16, gaussians=400, utterances=0)
    align_run.run(AlignConfig(
        data=ours / "data", lang=ours / "lang", out=ours / "exp", dev=[], last="mono", mono=mono, max_bad=0.1, jobs=2
    ))  # fmt: skip
    write_data(ours, egs)
    write_exp(ours, egs)
    shutil.rmtree(ours)
    return egs


def verb(folder: Path, *arguments: str) -> str:
    """Run a verb in ``folder``."""
    command = [sys.executable, "-m", "asr_parallel", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


IMPORT = ("import-kaldi", "--ali", "exp/mono_ali", "--graph", "exp/mono/graph", "--max_bad", "0.1")
TRAIN = (
    "--data", "data/kaldi", "--ali", "exp/kaldi/gmm", "--out", "exp/kaldi/dnn", "--dev", "dev", "--features", "kaldi",
    "--batch", "64", "--schedule.epochs", "6", "--model.layers", "2", "--model.width", "192", "--device", "cpu",
)  # fmt: skip


def wer(folder: Path, model: str, graph: str) -> float:
    """Of ``test``; the language model of so few sentences counts little, for it would make up for bad scores."""
    sets = ("--model", f"exp/kaldi/{model}", "--data", "data/kaldi")
    decode = ("--graph", f"exp/kaldi/{graph}", "--sets", "dev", "test", "--acwt", "0.5", "--beam", "30", "--jobs", "2")
    verb(folder, "decode", *sets, *decode)
    verb(folder, "score", *sets, "--pairs", "dev:test", "--lmwt", "2", "--wip", "0")
    return read_json(folder / "exp/kaldi" / model / "decode_test/score.json")["wer"]


@pytest.fixture(scope="module")
def trained(egs, tmp_path_factory) -> tuple[Path, str]:
    """Where our verbs have run, and what the import has said."""
    folder = tmp_path_factory.mktemp("here")
    said = verb(folder, *IMPORT, "--kaldi", str(egs))
    shutil.move(egs / "data", egs / "moved")  # nothing of it is needed any more
    verb(folder, "train", *TRAIN)
    return folder, said


def test_counts_in_and_out(trained):
    folder, said = trained
    sets = read_json(folder / "data/kaldi/import.json")["sets"]
    assert {name: (f["in"], f["out"]) for name, f in sets.items()} == {
        "train": (UTTS, UTTS), "dev": (DEV, DEV), "test": (DEV, DEV)
    }  # fmt: skip
    assert sets["train"]["labelled"] >= 0.9 * UTTS
    assert sets["train"]["other_lengths"] == 0
    assert f"{'train':<14}{UTTS:>9}{UTTS:>9}" in said


def test_wer(trained):
    """Sentences that were trained on are recognised; seen: 0.0 %, and 35 % if the pdfs of the graph are off by one."""
    folder = trained[0]
    assert wer(folder, "dnn", "gmm/graph") < 5
    graph, pdfs = folder / "exp/kaldi/gmm/graph", read_json(folder / "exp/kaldi/gmm/hmm.json")["kaldi"]["pdfs"]
    broken = shutil.copytree(graph, folder / "exp/kaldi/broken")
    fst = FstArrays.read(graph / "HCLG.fst")
    ids = fst.arcs["ilabel"]
    fst.arcs["ilabel"] = np.where(ids > 0, ids % pdfs + 1, 0)
    fst.write(broken / "HCLG.fst")
    shutil.copytree(
        folder / "exp/kaldi/dnn", folder / "exp/kaldi/dnn_broken", ignore=shutil.ignore_patterns("decode_*")
    )
    assert wer(folder, "dnn_broken", "broken") > 20


def test_a_second_import_does_nothing(trained, egs):
    shutil.move(egs / "moved", egs / "data")
    assert "import-kaldi: fresh, nothing to do" in verb(trained[0], *IMPORT, "--kaldi", str(egs))


def test_what_needs_a_model_of_our_own_says_so(trained):
    arguments = (
        "hypotheses",
        "--model",
        "exp/kaldi/dnn",
        "--data",
        "data/kaldi",
        "--sets",
        "test",
        "--lang",
        "nowhere",
    )
    command = [sys.executable, "-m", "asr_parallel", *arguments]
    done = subprocess.run(command, cwd=trained[0], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "hmm.json stands for a model of Kaldi" in done.stderr
    verb(trained[0], *arguments, "--no_ctm")


def test_back_to_kaldi(trained):
    """Log-likelihoods for ``latgen-faster-mapped``: with the imported graph they are what decoded here."""
    import kaldi_native_io as native

    folder = trained[0]
    arguments = (
        "--data",
        "data/kaldi",
        "--sets",
        "test",
        "--model",
        "exp/kaldi/dnn",
        "--out",
        "back",
        "--kind",
        "kaldi",
    )
    verb(folder, "export-kaldi", *arguments, "--scores", "loglikes", "--nnet", "nnet1", "nnet3")
    with native.SequentialFloatMatrixReader(f"scp:{folder}/back/loglikes_test.scp") as reader:
        frames = {key: np.array(m).shape for key, m in reader}
    pdfs = read_json(folder / "exp/kaldi/gmm/hmm.json")["kaldi"]["pdfs"]
    feats = FeatureSet.open(folder / "data/kaldi", "test", "kaldi")
    assert frames == {utt: (feats.num_frames(utt), pdfs) for utt in feats.utts}
    assert (folder / "back/nnet3/final.raw").exists()
