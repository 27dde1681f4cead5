"""Kaldi's alignments, ``ali.*.gz`` with ``final.mdl``, as frame labels; and frame labels as Kaldi's pdf alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.align.labels import Labels
from asr_parallel.kaldi.tables import ArchiveWriter, read_archive
from asr_parallel.kaldi.transitions import TransitionModel
from asr_parallel.kaldi.values import Reader, write_integers
from asr_parallel.log import UserError

AGAIN = "copy the directory again, or align again"


@dataclass(frozen=True)
class Alignments:
    """The labels of all utterances of some directories, and the model that their ids are of."""

    pdfs: dict[str, np.ndarray]  # int32 [T] of each utterance
    model: TransitionModel

    def of(self, utts: Sequence[str]) -> tuple[Labels, list[str]]:
        """Labels of those of ``utts`` that have any, and the others."""
        known = {u: self.pdfs[u] for u in utts if u in self.pdfs}
        return Labels.from_dict(known), [u for u in utts if u not in known]


def read_alignments(folders: Sequence[Path], are_pdfs: bool) -> Alignments:
    """Read all archives of ``folders``, which must be of one model; they hold transition ids, or else pdf ids.

    Raises ``UserError`` for ids that the model does not have, an utterance that is there twice, parts that are missing.
    """
    models = {folder: TransitionModel.read(folder / "final.mdl") for folder in folders}
    first = next(iter(models))
    pdfs: dict[str, np.ndarray] = {}
    for folder, model in models.items():
        if model.identity() != models[first].identity():
            raise UserError(f"{folder} and {first} have models with different trees: give alignments of one model")
        for path in archives(folder):
            for utt, ids in read_archive(path, Reader.table_integers):
                if utt in pdfs:
                    raise UserError(
                        f"{path}: utterance {utt} has a second alignment: give --ali without that directory"
                    )
                pdfs[utt] = labels_of(ids, model, are_pdfs, f"{path}: {utt}")
    return Alignments(pdfs, models[first])


def labels_of(ids: np.ndarray, model: TransitionModel, are_pdfs: bool, where: str) -> np.ndarray:
    """The pdfs int32 [T] of ``ids`` [T].  Raises ``UserError`` if there are other ids than the model has."""
    low, high = (0, model.num_pdfs - 1) if are_pdfs else (1, model.num_ids)
    if len(ids) and not low <= ids.min() <= ids.max() <= high:
        kind, other = ("pdf", "transition") if are_pdfs else ("transition", "pdf")
        raise UserError(
            f"{where}: ids from {ids.min()} to {ids.max()}, but {kind} ids of its final.mdl are {low} to {high}: give "
            f"the model that it was aligned with, or --ali_ids {other}s if these are {other} ids"
        )
    return ids if are_pdfs else model.pdfs[ids]


def archives(folder: Path) -> list[Path]:
    """``ali.1.gz``, ``ali.2.gz``, ...  Raises ``UserError`` if they are more or fewer than ``num_jobs`` says."""

    def part(path: Path) -> int:
        number = path.name.split(".")[1]
        return int(number) if number.isdigit() else 0

    found = sorted((p for p in folder.glob("ali.*") if part(p)), key=part)
    jobs = folder / "num_jobs"
    wanted = int(jobs.read_text()) if jobs.exists() else len(found)
    if not found:
        raise UserError(f"{folder} has no ali.1.gz: give a directory that Kaldi's align scripts have left")
    if [part(p) for p in found] != list(range(1, wanted + 1)):
        names = ", ".join(p.name for p in found[:3])
        raise UserError(f"{folder} has {len(found)} files {names} ... where num_jobs says {wanted}: {AGAIN}")
    return found


def write_alignments(path: Path, labels: Labels) -> None:
    """Write pdf alignments, as ``ali-to-pdf`` does, to ``path`` with ``.ark`` and ``.scp``."""
    with ArchiveWriter(path, write_integers) as archive:
        for utt in sorted(labels.utts):
            archive.add(utt, labels[utt])
