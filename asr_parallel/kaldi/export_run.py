"""Verb ``export-kaldi``: data, features, alignments, scores, networks and word times in Kaldi's forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from asr_parallel.align.labels import Labels
from asr_parallel.config import ExportKaldiConfig, cuts_path
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.data.manifests import read_jsonl
from asr_parallel.decode.acoustic import load_scorer
from asr_parallel.files import write_json, write_text
from asr_parallel.kaldi.alignments import write_alignments
from asr_parallel.kaldi.export_data import export_data, side_of
from asr_parallel.kaldi.layers import layers_of
from asr_parallel.kaldi.nnet1 import write_nnet1
from asr_parallel.kaldi.nnet3 import write_nnet3
from asr_parallel.kaldi.tables import ArchiveWriter
from asr_parallel.kaldi.values import write_matrix
from asr_parallel.log import UserError, logger
from asr_parallel.model import load_network, load_predictor
from asr_parallel.pool import parallel_map

log = logger(__name__)
LogScores = Callable[[np.ndarray], np.ndarray]


def run(config: ExportKaldiConfig) -> None:
    """Leave what ``config`` asks for under ``config.out``, and print counts.  Raises ``UserError``."""
    if (config.scores != "none" or config.nnet) and not config.model:
        raise UserError("--scores and --nnet are of a model: give its directory as --model")
    kind = "" if config.kind == "none" else config.kind
    figures: dict[str, Any] = {"sets": {}}
    for name in config.sets:
        counts: dict[str, Any] = export_data(config.data, name, kind, config.out / "data" / name)
        if config.ali:
            labels = Labels.load(config.ali / f"ali_{name}.npz")
            write_alignments(config.out / f"ali_{name}", labels)
            counts["aligned"] = len(labels)
        if config.scores != "none":
            counts["scored"] = _scores(config, name)
        if config.model and (config.model / f"decode_{name}" / "ctm").exists():
            counts["words"] = _ctm(config, name)
        figures["sets"][name] = counts
        print(f"{name}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    if config.nnet and config.model:
        figures["files"] = _networks(config, config.model)
        print(f"network: {', '.join(figures['files'])}")
    write_json(config.out / "export.json", figures)


def _scores(config: ExportKaldiConfig, name: str) -> int:
    """Write log-likelihoods or posteriors of all utterances of a set; give their number."""
    torch.set_num_threads(1)  # work is spread over processes
    kind, scores = _scorer(config)
    feats = FeatureSet.open(config.data, name, kind)
    utts = sorted(feats.utts, key=str.encode)
    results = parallel_map(
        lambda utt: scores(feats[utt]), utts, config.num_jobs(), f"{config.scores} of {name}", chunk=8
    )
    with ArchiveWriter(config.out / f"{config.scores}_{name}", write_matrix) as archive:
        for utt, found in zip(utts, results, strict=True):
            archive.add(utt, found.astype(np.float32))
    return len(utts)


def _scorer(config: ExportKaldiConfig) -> tuple[str, LogScores]:
    """The features that the model takes, and what it gives for those of an utterance."""
    model = cast(Path, config.model)
    if config.scores == "loglikes":
        scorer = load_scorer(model)
        return scorer.kind, scorer.loglikes
    predictor = load_predictor(model)
    return predictor.features, lambda feats: np.exp(predictor.log_posteriors(feats))


def _ctm(config: ExportKaldiConfig, name: str) -> int:
    """Word times from the start of the file rather than of the utterance; give the number of words."""
    cuts = {row["id"]: row for row in read_jsonl(cuts_path(config.data, name))}
    path = cast(Path, config.model) / f"decode_{name}" / "ctm"
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        utt, _, begin, rest = line.split(maxsplit=3)
        if utt not in cuts:
            raise UserError(f"{path}:{number}: {utt} is not in {cuts_path(config.data, name)}")
        file, side = side_of(cuts[utt])
        rows.append((file, side, cuts[utt]["start"] + float(begin), rest))
    rows.sort(key=lambda row: row[:3])
    write_text(config.out / f"{name}.ctm", "".join(f"{f} {s} {t:.2f} {rest}\n" for f, s, t, rest in rows))
    return len(rows)


def _networks(config: ExportKaldiConfig, model: Path) -> list[str]:
    """Write the network of ``model`` in all forms that are wanted; give the files."""
    if not (model / "final.pt").exists():
        raise UserError(f"{model} has no final.pt: --nnet is for networks (verb `train`)")
    network, predictor = load_network(model), load_predictor(model)
    layers, priors = layers_of(network), np.exp(predictor.log_priors.astype(np.float64))
    files = []
    for form in config.nnet:
        write = write_nnet1 if form == "nnet1" else write_nnet3
        files += [f"{form}/{file}" for file in write(config.out / form, layers, network.config, priors)]
    return files
