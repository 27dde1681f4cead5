"""Verb ``decode``: sets of utterances into lattices, one process a core."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from asr_parallel import stages
from asr_parallel.config import DecodeConfig
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.decode.acoustic import Scorer, load_scorer
from asr_parallel.decode.decoder import Decoder
from asr_parallel.decode.graph_identity import tree_of
from asr_parallel.decode.kaldi_text import write_hypotheses
from asr_parallel.decode.lattice import Lattices
from asr_parallel.decode.search import Beams
from asr_parallel.decode.search_graph import Graph
from asr_parallel.decode.sets import NO_HYPOTHESIS, decode_set, too_many
from asr_parallel.files import read_json, write_json
from asr_parallel.lang.lexicon import read_symbols
from asr_parallel.log import UserError, logger

log = logger(__name__)


def run(config: DecodeConfig) -> None:
    """Decode ``config.sets``; leave what ``DecodeConfig.outputs`` names and ``hyp.txt``.

    A set that was already decoded with these files and options is kept.  Raises UserError if the graph does
    not fit the model, or more than ``max_bad`` of a set has no hypothesis.
    """
    _check(config)
    todo = [s for s in config.sets if config.force or not _is_fresh(config, s)]
    for name in config.sets:
        if name not in todo:
            log.info("%s: already decoded with these files and options", name)
    if not todo:
        return
    torch.set_num_threads(1)  # work is spread over processes
    scorer = load_scorer(config.model)
    words = load_words(config.graph)
    sets = [FeatureSet.open(config.data, name, scorer.kind) for name in todo]
    for feats in sets:
        if feats.dim != scorer.dim:
            raise UserError(
                f"set {feats.name} has {scorer.kind} features of {feats.dim} values, the model takes {scorer.dim}: "
                "run `features` as for its training"
            )
    graph = load_graph(config.graph, config.model, scorer, len(words))
    decoder = Decoder(graph, scorer, config.acwt, Beams(config.beam, config.lattice_beam, config.max_active))
    gc.collect()
    gc.freeze()  # so that forked processes neither copy nor scan what is here
    for feats in sets:
        _decode_set(config, decoder, words, feats)


def _check(config: DecodeConfig) -> None:
    for name in ("acwt", "beam", "lattice_beam", "max_active"):
        if getattr(config, name) <= 0:
            raise UserError(f"--{name} {getattr(config, name)}: must be positive")
    if not config.sets:
        raise UserError("--sets names no set to decode")


def load_words(graph_dir: Path) -> list[str]:
    """Words by their number.  Raises UserError without a good ``words.txt``."""
    if not (graph_dir / "words.txt").exists():
        raise UserError(f"{graph_dir / 'words.txt'} is missing: make the graph again (verb `align`)")
    return read_symbols(graph_dir / "words.txt")


def check_tree(graph_dir: Path, model_dir: Path) -> None:
    """Raise UserError if the graph was made with another tree than the model's; graphs of before say nothing of it."""
    try:
        known = read_json(graph_dir / "graph.json")["tree"]
    except FileNotFoundError:
        log.info("%s is missing: whether the graph fits the model's tree is not known", graph_dir / "graph.json")
        return
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{graph_dir / 'graph.json'} is damaged: make the graph again (verb `align`)") from None
    if known != tree_of(model_dir / "hmm.json"):
        raise UserError(
            f"{graph_dir / 'HCLG.fst'} was made with another tree or other phones than {model_dir / 'hmm.json'}: "
            "give the --graph that was made with the model's tree"
        )


def load_graph(graph_dir: Path, model_dir: Path, scorer: Scorer, num_words: int) -> Graph:
    """Read ``HCLG.fst``.

    Raises UserError if it was made with another tree than the model's, or if its labels go beyond the model's pdfs or
    the word table.
    """
    check_tree(graph_dir, model_dir)
    graph = Graph.read(graph_dir / "HCLG.fst")
    pdfs, words = graph.most_labels()
    if pdfs > scorer.num_pdfs:
        raise UserError(
            f"{graph_dir / 'HCLG.fst'} has pdfs up to {pdfs - 1}, but the model scores {scorer.num_pdfs}: "
            "give the --graph that was made with the model's tree"
        )
    if words >= num_words:
        raise UserError(f"{graph_dir}: HCLG.fst has words up to {words}, but words.txt ends at {num_words - 1}")
    if pdfs < scorer.num_pdfs:
        log.warning(
            "%s uses pdfs up to %d, the model has %d: if the graph was made with another tree, the words will be "
            "nonsense",
            *(graph_dir / "HCLG.fst", pdfs - 1, scorer.num_pdfs),
        )
    log.info("graph: %s states, %s arcs and epsilon paths", f"{len(graph.finals):,}", f"{len(graph.arcs):,}")
    return graph


def _decode_set(config: DecodeConfig, decoder: Decoder, words: Sequence[str], feats: FeatureSet) -> None:
    """Decode one set and write all of its files.

    ``word_arcs`` in ``decode.json`` is the number of arcs kept for a frame, ``cost`` that of the best path at
    the decoding scale for a frame; the others are explained at ``Result.figures``.
    """
    if not len(feats):
        raise UserError(f"set {feats.name} has no utterances")
    inputs = {str(p): stages.fingerprint(p) for p in _inputs(config, feats.name)}
    out = config.model / f"decode_{feats.name}"
    (out / "decode.json").unlink(missing_ok=True)  # until the new lattices are whole
    result = decode_set(decoder, feats, config.num_jobs())
    bad = result.with_flag(*NO_HYPOTHESIS)
    for utt, reason in list(bad.items())[:5]:
        log.warning("%s has no hypothesis: %s", utt, reason)
    if len(bad) > config.max_bad * len(feats):
        raise UserError(too_many(feats.name, bad, len(feats), config.max_bad))
    lattices = Lattices.join(
        feats.utts, [d.flag for d in result.decoded], [d.lattice for d in result.decoded], dict(enumerate(words))
    )
    lattices.save(out / "lattices.npz")
    write_hypotheses(lattices.best_all(1 / config.acwt, 0.0), out / "hyp.txt")
    figures = {
        "word_arcs": round(len(lattices.lattice.src) / max(1, result.frames), 2),
        "cost": round(float(lattices.costs(1 / config.acwt, 0.0).sum()) / max(1, result.frames), 4),
    }
    summary: dict[str, Any] = {"set": feats.name, "jobs": config.num_jobs()} | result.figures() | figures
    write_json(out / "decode.json", summary | {"options": _options(config), "inputs": inputs})
    log.info(
        "%s: %d utterances, %.0f s of audio at %.1f x real time a core; %d retried, %d partial, %d without hypothesis",
        *(feats.name, len(feats), result.audio, summary["xrt"]),
        *(len(summary[k]) for k in ("retried", "partial", "failed")),
    )


def _options(config: DecodeConfig) -> dict[str, float]:
    return {name: getattr(config, name) for name in ("acwt", "beam", "lattice_beam", "max_active")}


def _inputs(config: DecodeConfig, name: str) -> list[Path]:
    """All files that the lattices of set ``name`` depend on."""
    return [*dataclasses.replace(config, sets=[name]).inputs(), config.graph / "words.txt"]


def _is_fresh(config: DecodeConfig, name: str) -> bool:
    """Whether set ``name`` was decoded from the files and with the options of ``config``."""
    out = config.model / f"decode_{name}"
    try:
        summary = read_json(out / "decode.json")
        options, inputs = summary["options"], summary["inputs"]
    except (OSError, ValueError, KeyError):
        return False
    return (
        options == _options(config)
        and inputs.keys() == {str(p) for p in _inputs(config, name)}
        and all(stages.unchanged(Path(p), known) for p, known in inputs.items())
        and (out / "lattices.npz").exists()
    )
