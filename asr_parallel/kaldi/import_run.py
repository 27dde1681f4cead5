"""Verb ``import-kaldi``: a Kaldi experiment as ours, so that ``train``, ``decode`` and ``score`` go on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from asr_parallel.align.labels import Labels
from asr_parallel.config import ImportKaldiConfig
from asr_parallel.data.feature_set import Index, index_path
from asr_parallel.data.matching import TOLERANCE
from asr_parallel.files import atomic, write_json
from asr_parallel.kaldi.alignments import Alignments, read_alignments
from asr_parallel.kaldi.data_dir import DataDir
from asr_parallel.kaldi.graph import import_graph
from asr_parallel.kaldi.import_set import import_set
from asr_parallel.kaldi.lang import import_lang
from asr_parallel.kaldi.nnet1 import read_transform
from asr_parallel.kaldi.transitions import TransitionModel
from asr_parallel.log import UserError, logger

log = logger(__name__)


def run(config: ImportKaldiConfig) -> None:
    """Leave what ``ImportKaldiConfig.outputs`` names, and print what went in and what came out."""
    if config.ali and config.train not in config.folders():
        raise UserError(f"--train {config.train} is not among --sets: its labels are counted for the priors")
    transform = read_transform(config.kaldi / config.transform) if config.transform else None
    alignments = None
    if config.ali:
        alignments = read_alignments([config.kaldi / a for a in config.ali], config.ali_ids == "pdfs")
    figures: dict[str, Any] = {"sets": {}}
    for name in config.folders():
        data = import_set(config, name, transform)
        figures["sets"][name] = _counts(data) | _labels(config, name, data, alignments)
    if alignments:
        _check_unused(config, alignments, figures["sets"])
        _stand_in(config.out, alignments.model, config.kaldi / config.ali[0])
    if config.graph:
        model = alignments.model if alignments else TransitionModel.read(_model_of(config))
        figures["graph"] = import_graph(config.kaldi / config.graph, model, config.out / "graph")
    if config.lang:
        arpa = config.kaldi / config.arpa if config.arpa else None
        figures["lang"] = import_lang(config.kaldi / config.lang, arpa, config.data / "lang")
    if transform:
        figures["context"] = transform.context
        log.info("the transform splices %d frames on either side: give --model.context to train", transform.context)
    write_json(config.data / "import.json", figures)
    _print(figures)


def _model_of(config: ImportKaldiConfig) -> Path:
    assert config.graph
    return config.kaldi / config.graph.parent / "final.mdl"


def _counts(data: DataDir) -> dict[str, Any]:
    seconds = sum(utt.end - utt.start for utt in data.utts)
    speakers = len({utt.speaker for utt in data.utts})
    return {"in": data.total(), "out": len(data.utts), "speakers": speakers, "hours": round(seconds / 3600, 3)}


def _labels(config: ImportKaldiConfig, name: str, data: DataDir, alignments: Alignments | None) -> dict[str, Any]:
    """Leave the labels of a set, and with those of the training set the priors.

    Raises ``UserError`` if they lack more than ``max_bad`` of the utterances, unless that is all of another set.
    """
    utts = [utt.id for utt in data.utts]
    labels, missing = alignments.of(utts) if alignments else (Labels.from_dict({}), utts)
    if not alignments or (not len(labels) and name != config.train):
        return {"labelled": 0}
    if len(missing) > config.max_bad * len(utts):
        raise UserError(
            f"{len(missing)} of {len(utts)} utterances of {name} have no alignment, {missing[0]} first: give all --ali "
            f"directories, or raise --max_bad, now {config.max_bad:g}"
        )
    if missing:
        log.warning("%s: %d utterances have no alignment, %s first", name, len(missing), missing[0])
    labels.save(config.out / f"ali_{name}.npz")
    if name == config.train:
        with atomic(config.out / "priors.npz") as temporary:
            np.savez(temporary, counts=labels.counts(alignments.model.num_pdfs))
    return {"labelled": len(labels), "other_lengths": _other_lengths(config, name, labels)}


def _other_lengths(config: ImportKaldiConfig, name: str, labels: Labels) -> int:
    """How many utterances have labels that do not fit their features; training tells more of them."""
    if not index_path(config.data, name, config.kind).exists():
        return 0
    index = Index.load(index_path(config.data, name, config.kind))
    pairs = zip(index.utts, np.diff(index.offsets).tolist())
    return sum(abs(len(labels[utt]) - frames) > TOLERANCE for utt, frames in pairs if utt in labels)


def _check_unused(config: ImportKaldiConfig, alignments: Alignments, sets: dict[str, dict[str, Any]]) -> None:
    used = sum(figures["labelled"] for figures in sets.values())
    if used < len(alignments.pdfs):
        log.info("%d of %d alignments are of utterances in no set", len(alignments.pdfs) - used, len(alignments.pdfs))


def _stand_in(out: Path, model: TransitionModel, source: Path) -> None:
    """``hmm.json``, which other models describe their phones and tree with: for Kaldi's, what tells it from others."""
    write_json(out / "hmm.json", {"kaldi": {"tree": model.identity(), "pdfs": model.num_pdfs, "from": str(source)}})


def _print(figures: dict[str, Any]) -> None:
    print(f"{'set':<14}{'utts in':>9}{'out':>9}{'speakers':>10}{'hours':>9}{'labelled':>10}{'other lengths':>15}")
    for name, f in figures["sets"].items():
        counts = f"{f['in']:>9}{f['out']:>9}{f['speakers']:>10}{f['hours']:>9.2f}{f['labelled']:>10}"
        print(f"{name:<14}{counts}{f.get('other_lengths', '-'):>15}")
    if graph := figures.get("graph"):
        print(f"graph: {graph['states']:,} states, {graph['arcs']:,} arcs")
    if lang := figures.get("lang"):
        print(f"lang: {lang['words']:,} words, {lang['phones']} phones, {lang['prons']:,} pronunciations")
