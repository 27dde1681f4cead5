"""What a decoding graph was made of: which model it fits, and whether it has to be made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from asr_parallel.align.hmm import HmmModel
from asr_parallel.files import file_hash, read_json
from asr_parallel.lang.lexicon_probs import EVEN, LexiconProbs

LANG_FILES = ("L_disambig.fst", "G.fst", "words.txt", "phones.txt")
METHOD = 1  # to be raised when the same content gives another graph


def tree_hash(hmm: HmmModel) -> str:
    """SHA-256 of what the pdfs of a model mean: phones, topology and tree, without the transition probabilities."""
    return _of_json([hmm.phones, hmm.silence, hmm.topology.states, hmm.tree.to_json()])


def tree_of(path: Path) -> str:
    """``tree_hash`` of the model in an ``hmm.json``; what stands for a model of Kaldi says its own.

    Raises ``UserError`` as ``HmmModel.load``.
    """
    try:
        return str(read_json(path)["kaldi"]["tree"])
    except (OSError, ValueError, KeyError, TypeError):
        return tree_hash(HmmModel.load(path))


def content_hash(lang_dir: Path, hmm: HmmModel, scales: Mapping[str, float], probs: LexiconProbs = EVEN) -> str:
    """SHA-256 of all that a graph is made of."""
    files = [file_hash(lang_dir / name) for name in LANG_FILES if (lang_dir / name).exists()]
    made_of = [METHOD, files, tree_hash(hmm), hashlib.sha256(hmm.log_probs.tobytes()).hexdigest(), scales]
    return _of_json(made_of + ([] if probs == EVEN else [repr(probs)]))


def is_made_of(graph_dir: Path, content: str) -> bool:
    """Whether a whole graph of ``content`` is there."""
    try:
        made = read_json(graph_dir / "graph.json")
        whole = made["sha256"] == file_hash(graph_dir / "HCLG.fst") and (graph_dir / "words.txt").exists()
        return bool(whole and made["content"] == content)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _of_json(meaning: list) -> str:
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()
