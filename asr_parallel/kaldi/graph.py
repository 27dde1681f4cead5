"""Kaldi's ``HCLG.fst``, whose input labels are transition ids, as a graph for our decoder, of pdf + 1."""

from __future__ import annotations

import shutil
from pathlib import Path

import kaldifst
import numpy as np

from asr_parallel.files import atomic, file_hash, write_json
from asr_parallel.kaldi.transitions import TransitionModel
from asr_parallel.lang.arrays import FstArrays
from asr_parallel.lang.lexicon import read_symbols
from asr_parallel.log import UserError, logger

log = logger(__name__)
OTHER = "give the graph that was made with the model of the alignments"
MAGIC = b"\xd6\xfd\xb2\x7e"  # of OpenFst's files; others may crash it


def import_graph(source: Path, model: TransitionModel, out: Path) -> dict[str, int]:
    """Leave ``HCLG.fst``, ``words.txt`` and ``graph.json`` in ``out``; give numbers of states and arcs.

    Raises ``UserError`` if the graph has labels that ``model`` or the table of words does not.
    """
    graph, words = read_graph(source / "HCLG.fst"), read_symbols(source / "words.txt")
    _check_pdfs(source, model)
    ids, said = graph.arcs["ilabel"], graph.arcs["olabel"]
    if len(ids) and int(ids.max()) > model.num_ids:
        raise UserError(
            f"{source / 'HCLG.fst'} has transition ids up to {ids.max()}, final.mdl up to {model.num_ids}: {OTHER}"
        )
    if len(said) and int(said.max()) >= len(words):
        raise UserError(f"{source}: HCLG.fst has words up to {said.max()}, but words.txt ends at {len(words) - 1}")
    graph.arcs["ilabel"] = np.where(ids > 0, model.pdfs[ids] + 1, 0)
    out.mkdir(parents=True, exist_ok=True)
    (out / "graph.json").unlink(missing_ok=True)  # without it the graph is not whole
    with atomic(out / "HCLG.fst") as temporary:
        graph.write(temporary)
    with atomic(out / "words.txt") as temporary:
        shutil.copyfile(source / "words.txt", temporary)
    size = {"states": len(graph.finals), "arcs": len(graph.arcs)}
    made = {"tree": model.identity(), "from": str(source), "sha256": file_hash(out / "HCLG.fst")}
    write_json(out / "graph.json", made | size)
    return size


def read_graph(path: Path) -> FstArrays:
    """Any OpenFst file of standard arcs, such as ``vector`` and ``const``.  Raises ``UserError``."""
    if not path.exists():
        raise UserError(f"{path} is missing: give the directory that mkgraph.sh has left")
    fst = None
    with open(path, "rb") as file:
        known = file.read(4) == MAGIC
    if known:
        fst = kaldifst.StdFst.read(str(path))
    if fst is None or fst.start < 0:
        raise UserError(f"{path} is no FST of standard arcs, is empty or is damaged: copy it again")
    if fst.input_symbols or fst.output_symbols:  # tables may be kept in the file; words.txt is what counts
        fst = kaldifst.StdVectorFst(fst)
        fst.input_symbols = fst.output_symbols = None
    return FstArrays.from_fst(fst)


def _check_pdfs(source: Path, model: TransitionModel) -> None:
    """``mkgraph.sh`` leaves the number of pdfs of its model beside the graph."""
    path = source / "num_pdfs"
    if path.exists() and (found := path.read_text().strip()) != str(model.num_pdfs):
        raise UserError(f"{source} is of a model of {found} pdfs, final.mdl has {model.num_pdfs}: {OTHER}")
