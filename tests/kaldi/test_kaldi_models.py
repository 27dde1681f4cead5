"""``final.mdl``, alignments and graphs, against kaldi-hmm-gmm (Kaldi's code, in a process of its own) and by hand."""

from __future__ import annotations

import gzip
import importlib.util
import json
import struct

import kaldifst
import numpy as np
import pytest
from hmm_gmm import ask

from asr_parallel.align.labels import Labels
from asr_parallel.decode.decode import check_tree
from asr_parallel.decode.search_graph import Graph
from asr_parallel.files import read_json
from asr_parallel.kaldi.alignments import read_alignments, write_alignments
from asr_parallel.kaldi.graph import import_graph
from asr_parallel.kaldi.lang import import_lang, topology
from asr_parallel.kaldi.transitions import TransitionModel
from asr_parallel.lang.lexicon import write_symbols
from asr_parallel.log import UserError

native = pytest.importorskip("kaldi_native_io")
needs_hmm_gmm = pytest.mark.skipif(importlib.util.find_spec("kaldi_hmm_gmm") is None, reason="needs kaldi-hmm-gmm")

TOPO = """<Topology>
<TopologyEntry>
<ForPhones>
2 3 5
</ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State>
<State> 1 <PdfClass> 1 <Transition> 1 0.75 <Transition> 2 0.25 </State>
<State> 2 <PdfClass> 2 <Transition> 2 0.75 <Transition> 3 0.25 </State>
<State> 3 </State>
</TopologyEntry>
<TopologyEntry>
<ForPhones>
1
</ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.25 <Transition> 2 0.25 </State>
<State> 1 <PdfClass> 1 <Transition> 0 0.25 <Transition> 1 0.5 <Transition> 2 0.25 </State>
<State> 2 </State>
</TopologyEntry>
</Topology>
"""
SETS = [[1], [2, 3], [5]]  # phones 2 and 3 share their pdfs, as those of other word positions do
# by hand: (phone, state, pdf), and where the state's arcs lead
BY_HAND = [
    *[(1, 0, 0, to) for to in (0, 1, 2)], *[(1, 1, 1, to) for to in (0, 1, 2)],
    *[(p, s, 2 + s, to) for p in (2, 3) for s in (0, 1, 2) for to in (s, s + 1)],
    *[(5, s, 5 + s, to) for s in (0, 1, 2) for to in (s, s + 1)],
]  # fmt: skip


def text_model(two_pdfs: bool = False) -> str:
    """``final.mdl`` by hand; with ``two_pdfs`` self-loops have pdfs of their own, from 100 on."""
    states = list(dict.fromkeys((p, s, pdf) for p, s, pdf, _ in BY_HAND))
    rows = "".join(f"{p} {s} {pdf}{f' {pdf + 100}' if two_pdfs else ''} \n" for p, s, pdf in states)
    topo = TOPO
    for n in range(3):
        two = f"<ForwardPdfClass> {2 * n} <SelfLoopPdfClass> {2 * n + 1}"
        topo = topo.replace(f"<PdfClass> {n}", two if two_pdfs else f"<PdfClass> {n}")
    kind = "Tuples" if two_pdfs else "Triples"
    probs = " ".join(["0", *["-0.69"] * len(BY_HAND)])
    tail = f"<LogProbs> \n [ {probs} ]\n</LogProbs> \n</TransitionModel> \n"
    return f"<TransitionModel> \n{topo}<{kind}> {len(states)} \n{rows}</{kind}> \n{tail}"


def binary_model(two_pdfs: bool = False) -> bytes:
    """The same in the binary form, put together from the description of its bytes."""

    def number(n: int) -> bytes:
        return struct.pack("<bi", 4, n)

    def vector(values: list[int]) -> bytes:
        return struct.pack(f"<bi{len(values)}i", 4, len(values), *values)

    def state(number_: int, arcs: list[int]) -> bytes:
        classes = [2 * number_, 2 * number_ + 1] if two_pdfs else [number_]
        classes = classes if arcs else [-1] * len(classes)
        return b"".join(map(number, [*classes, len(arcs)])) + b"".join(
            number(a) + struct.pack("<bf", 4, 0.5) for a in arcs
        )

    left_to_right = number(4) + state(0, [0, 1]) + state(1, [1, 2]) + state(2, [2, 3]) + state(3, [])
    silence = number(3) + state(0, [0, 1, 2]) + state(1, [0, 1, 2]) + state(2, [])
    head = b"<TransitionModel> <Topology> " + vector([1, 2, 3, 5]) + vector([-1, 1, 0, 0, -1, 0])
    head += (number(-1) if two_pdfs else b"") + number(2) + left_to_right + silence + b"</Topology> "
    states = list(dict.fromkeys((p, s, pdf) for p, s, pdf, _ in BY_HAND))
    kind = b"Tuples" if two_pdfs else b"Triples"
    rows = b"".join(b"".join(map(number, [p, s, pdf, *([pdf + 100] if two_pdfs else [])])) for p, s, pdf in states)
    probs = struct.pack(f"<bi{1 + len(BY_HAND)}f", 4, 1 + len(BY_HAND), 0, *[-0.7] * len(BY_HAND))
    body = b"<%s> " % kind + number(len(states)) + rows + b"</%s> <LogProbs> FV " % kind + probs
    return b"\0B" + head + body + b"</LogProbs> </TransitionModel> <DIMENSION> \4\x27\0\0\0 a GMM follows"


@pytest.mark.parametrize("two_pdfs", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_transition_models_by_hand(tmp_path, binary, two_pdfs):
    data = binary_model(two_pdfs) if binary else text_model(two_pdfs).encode()
    (tmp_path / "final.mdl").write_bytes(data)
    model = TransitionModel.read(tmp_path / "final.mdl")
    assert model.num_ids == len(BY_HAND)
    assert model.phones[1:].tolist() == [p for p, *_ in BY_HAND]
    assert model.states[1:].tolist() == [s for _, s, *_ in BY_HAND]
    loops = [100 * (two_pdfs and s == to) for _, s, _, to in BY_HAND]
    assert model.pdfs[1:].tolist() == [pdf + loop for (_, _, pdf, _), loop in zip(BY_HAND, loops)]


def test_both_forms_are_one_model(tmp_path):
    (tmp_path / "a").write_bytes(binary_model())
    (tmp_path / "b").write_text(text_model())
    (tmp_path / "c").write_bytes(gzip.compress(binary_model(two_pdfs=True)))
    a, b, c = (TransitionModel.read(tmp_path / name).identity() for name in "abc")
    assert a == b != c


@needs_hmm_gmm
def test_a_transition_model_of_kaldi(tmp_path):
    meaning = ask(tmp_path, TOPO, SETS)
    model = TransitionModel.read(tmp_path / "final.mdl")
    assert model.pdfs[1:].tolist() == meaning["pdfs"]
    assert model.phones[1:].tolist() == meaning["phones"]
    assert model.num_pdfs == meaning["num_pdfs"] == 8
    assert meaning["pdfs"] == [pdf for _, _, pdf, _ in BY_HAND]  # so what is made by hand above is right


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_damaged_models(tmp_path, share):
    for data in (binary_model(), text_model().encode()):
        (tmp_path / "final.mdl").write_bytes(data[: int(share * data.index(b"</TransitionModel>"))])
        with pytest.raises(UserError, match=r"final.mdl is no model of Kaldi, or is damaged"):
            TransitionModel.read(tmp_path / "final.mdl")


ALIGNED = {"a-1": [1, 2, 4, 7, 7, 8, 9, 10], "b-é": [3, 19, 20], "c-1": [24]}


def ali_dir(folder, model=None, jobs=2, utts=None):
    """A directory as ``align_si.sh`` leaves it, its archives written by kaldi_native_io and gzip."""
    folder.mkdir()
    (folder / "final.mdl").write_bytes(model or binary_model())
    (folder / "num_jobs").write_text(f"{jobs}\n")
    items = list((utts or ALIGNED).items())
    for job in range(jobs):
        with native.Int32VectorWriter(f"ark:{folder}/ali") as writer:
            for utt, ids in items[job::jobs]:
                writer.write(utt, ids)
        (folder / f"ali.{job + 1}.gz").write_bytes(gzip.compress((folder / "ali").read_bytes()))
    (folder / "ali").unlink()
    return folder


def test_alignments_become_pdfs(tmp_path):
    found = read_alignments([ali_dir(tmp_path / "ali")], are_pdfs=False)
    labels, missing = found.of(["c-1", "a-1", "z-1", "b-é"])
    assert (labels.utts, missing) == (["c-1", "a-1", "b-é"], ["z-1"])
    for utt, ids in ALIGNED.items():
        assert labels[utt].tolist() == [BY_HAND[i - 1][2] for i in ids]


def test_alignments_of_pdfs(tmp_path):
    found = read_alignments([ali_dir(tmp_path / "ali", utts={"u": [0, 7, 3]})], are_pdfs=True)
    assert found.pdfs["u"].tolist() == [0, 7, 3]


@pytest.mark.parametrize(("utts", "are_pdfs", "why"), [
    ({"u": [0, 3]}, False, "u: ids from 0 to 3, but transition ids of its final.mdl are 1 to 24: .*--ali_ids pdfs"),
    ({"u": [1, 25]}, False, "u: ids from 1 to 25"),
    ({"u": [1, 8]}, True, "u: ids from 1 to 8, but pdf ids of its final.mdl are 0 to 7: .*--ali_ids transitions"),
])  # fmt: skip
def test_ids_that_the_model_lacks(tmp_path, utts, are_pdfs, why):
    """K4."""
    with pytest.raises(UserError, match=why):
        read_alignments([ali_dir(tmp_path / "ali", jobs=1, utts=utts)], are_pdfs)


def test_parts_that_are_missing_or_left_over(tmp_path):
    """D33: an alignment of fewer jobs leaves the archives of the one before."""
    folder = ali_dir(tmp_path / "ali", jobs=3)
    (folder / "num_jobs").write_text("2\n")
    with pytest.raises(UserError, match=r"3 files ali.1.gz, ali.2.gz, ali.3.gz ... where num_jobs says 2"):
        read_alignments([folder], False)
    (folder / "num_jobs").write_text("3\n")
    (folder / "ali.2.gz").unlink()
    with pytest.raises(UserError, match="2 files"):
        read_alignments([folder], False)


def test_directories_that_do_not_go_together(tmp_path):
    a, b = ali_dir(tmp_path / "a"), ali_dir(tmp_path / "b", binary_model(two_pdfs=True), utts={"d": [1]})
    with pytest.raises(UserError, match="have models with different trees"):
        read_alignments([a, b], False)
    with pytest.raises(UserError, match="a-1 has a second alignment"):
        read_alignments([a, ali_dir(tmp_path / "c", utts={"a-1": [1]})], False)


def test_kaldi_reads_our_alignments(tmp_path):
    labels = Labels.from_dict({"b": np.array([3, 3, 1]), "a": np.array([7])})
    write_alignments(tmp_path / "ali_train", labels)
    with native.SequentialInt32VectorReader(f"scp:{tmp_path}/ali_train.scp") as reader:
        assert {key: list(v) for key, v in reader} == {"a": [7], "b": [3, 3, 1]}


def graph_dir(folder, kind="vector", top=24):
    folder.mkdir(exist_ok=True)
    text = f"0 1 1 1 0.5\n1 1 2 0 0.25\n1 2 {top} 2\n2 2 23 0 1.5\n2 0 0 0\n2 0.75\n"
    fst = kaldifst.compile(text)
    if kind == "with symbols":
        fst.output_symbols = kaldifst.SymbolTable()
        fst.output_symbols.add_symbol("A", 1)
    elif kind == "const":
        fst = kaldifst.StdConstFst(fst)
    fst.write(str(folder / "HCLG.fst"))
    write_symbols(folder / "words.txt", ["<eps>", "A", "B", "#0", "<s>", "</s>"])
    (folder / "num_pdfs").write_text("8\n")
    return folder


@pytest.fixture
def model(tmp_path):
    (tmp_path / "final.mdl").write_bytes(binary_model())
    return TransitionModel.read(tmp_path / "final.mdl")


@pytest.mark.parametrize("kind", ["vector", "const", "with symbols"])
def test_graphs(tmp_path, model, kind):
    size = import_graph(graph_dir(tmp_path / "graph", kind), model, tmp_path / "out")
    assert size == {"states": 3, "arcs": 5}
    graph = Graph.read(tmp_path / "out" / "HCLG.fst")
    assert graph.most_labels() == (8, 2)
    fst = kaldifst.StdConstFst.read(str(tmp_path / "out" / "HCLG.fst"))
    arcs = [
        (s, a.nextstate, a.ilabel, a.olabel, a.weight.value) for s in range(3) for a in kaldifst.ArcIterator(fst, s)
    ]
    pdf = {i: row[2] + 1 for i, row in enumerate(BY_HAND, 1)}
    assert sorted(arcs) == [
        (0, 1, pdf[1], 1, 0.5), (1, 1, pdf[2], 0, 0.25), (1, 2, pdf[24], 2, 0), (2, 0, 0, 0, 0), (2, 2, pdf[23], 0, 1.5)
    ]  # fmt: skip
    assert fst.final(2).value == 0.75


def test_graphs_of_other_models(tmp_path, model):
    with pytest.raises(UserError, match=r"transition ids up to 25, final.mdl up to 24"):
        import_graph(graph_dir(tmp_path / "graph", top=25), model, tmp_path / "out")
    (graph_dir(tmp_path / "graph") / "num_pdfs").write_text("9\n")
    with pytest.raises(UserError, match=r"is of a model of 9 pdfs, final.mdl has 8"):
        import_graph(tmp_path / "graph", model, tmp_path / "out")
    graph_dir(tmp_path / "graph")
    write_symbols(tmp_path / "graph" / "words.txt", ["<eps>", "A"])
    with pytest.raises(UserError, match=r"words up to 2, but words.txt ends at 1"):
        import_graph(tmp_path / "graph", model, tmp_path / "out")
    for damage in (b"", b"not an fst", b"\xd6\xfd\xb2\x7e"):
        (tmp_path / "graph" / "HCLG.fst").write_bytes(damage)
        with pytest.raises(UserError, match=r"HCLG.fst is no FST"):
            import_graph(tmp_path / "graph", model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_graph_is_known_by_its_tree(tmp_path, model):
    """Decoding refuses the graph of another model."""
    import_graph(graph_dir(tmp_path / "graph"), model, tmp_path / "out")
    stand_in = {"kaldi": {"tree": model.identity(), "pdfs": 8, "from": "exp/tri3_ali"}}
    (tmp_path / "hmm.json").write_text(json.dumps(stand_in))
    check_tree(tmp_path / "out", tmp_path)
    stand_in["kaldi"]["tree"] = "another"
    (tmp_path / "hmm.json").write_text(json.dumps(stand_in))
    with pytest.raises(UserError, match="another tree"):
        check_tree(tmp_path / "out", tmp_path)


def test_lang(tmp_path):
    lang = tmp_path / "lang"
    (lang / "phones").mkdir(parents=True)
    phones = ["<eps>", "SIL", "A_B", "A_E", "B_I", "N_S", "#0", "#1"]
    write_symbols(lang / "phones.txt", phones)
    write_symbols(lang / "words.txt", ["<eps>", "!SIL", "AN", "BAN", "#0", "<s>", "</s>"])
    (lang / "topo").write_text(TOPO)
    (lang / "phones" / "silence.int").write_text("1\n")
    lexicon = "<eps> <eps> SIL\n!SIL !SIL SIL\nAN AN A_B N_E\nAN AN A_B N_E\nBAN BAN B_B A_I N_E\n"
    (lang / "phones" / "align_lexicon.txt").write_text(lexicon)
    figures = import_lang(lang, None, tmp_path / "out")
    assert (tmp_path / "out" / "lexicon.txt").read_text() == "!SIL SIL\nAN A N\nBAN B A N\n"
    assert (tmp_path / "out" / "words.txt").read_text() == (lang / "words.txt").read_text()
    assert figures == read_json(tmp_path / "out" / "kaldi.json") == {
        "words": 7, "phones": 5, "prons": 3, "silence": ["SIL"], "states": {"A_B": 3, "A_E": 3, "N_S": 3, "SIL": 2},
    }  # fmt: skip
    assert topology(lang / "topo")[1][0][2] == [0, 1, 2]
    (lang / "phones" / "silence.int").write_text("1\n9\n")
    with pytest.raises(UserError, match=r"silence.int:2: there is no phone 9"):
        import_lang(lang, None, tmp_path / "out")
