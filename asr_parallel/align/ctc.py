"""CTC's outputs and labels: the phones of a language directory, its silence is the blank.

The labels may as well be letters, or whole pieces of words (``lang --units grapheme``, ``--units subword --spelling
whole``): a phone here is what the lexicon is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from asr_parallel.align.hmm import HmmModel, Topology
from asr_parallel.align.tree import monophone_tree
from asr_parallel.criterion import BLANK
from asr_parallel.data.feature_set import FeatureSet
from asr_parallel.files import write_json
from asr_parallel.lang.lexicon import SIL, read_symbols
from asr_parallel.lang.pieces import pronunciations
from asr_parallel.log import UserError, logger

log = logger(__name__)
ONE_STATE = (((0, 0.5), (1, 0.5)),)
MARKER = "ctc.json"  # beside `hmm.json` of a network that was trained by CTC


def ctc_hmm(lang_dir: Path) -> HmmModel:
    """What each output stands for, as other models have it: output k is phone k + 1, with one state."""
    phones = [symbol for symbol in read_symbols(lang_dir / "phones.txt") if not symbol.startswith("#")]
    assert phones[BLANK + 1] == SIL
    tree = monophone_tree([0, *[1] * (len(phones) - 1)])
    return HmmModel.start(phones, [BLANK + 1], Topology(((), *[ONE_STATE] * (len(phones) - 1))), tree)


def save_ctc(hmm: HmmModel, folder: Path) -> None:
    """Write ``hmm.json``, and beside it that it is CTC's."""
    hmm.save(folder / "hmm.json")
    write_json(folder / MARKER, {"blank": hmm.phones[BLANK + 1], "outputs": hmm.phones[1:]})


def is_ctc(folder: Path) -> bool:
    """Whether the model in a directory was trained by CTC."""
    return (folder / MARKER).exists()


def targets(lang_dir: Path, hmm: HmmModel, features: FeatureSet, max_bad: float = 0.05) -> dict[str, np.ndarray]:
    """Labels of each utterance, int64: the first pronunciation of each word.

    Utterances with a word that has none, or with fewer frames than labels need (a blank has to stand between two that
    are the same), are left out.  Raises ``UserError`` if they are more than ``max_bad`` of all.
    """
    prons, number = pronunciations(lang_dir), {phone: i - 1 for i, phone in enumerate(hmm.phones)}
    found, bad = {}, dict[str, str]()
    for utt, text in zip(features.utts, features.texts):
        if lost := [word for word in text.split() if word not in prons]:
            bad[utt] = f"'{lost[0]}' is not in the lexicon"
            continue
        labels = np.array([number[phone] for word in text.split() for phone in prons[word][0]], np.int64)
        need, have = len(labels) + int((labels[1:] == labels[:-1]).sum()), features.num_frames(utt)
        if have < max(1, need):
            bad[utt] = f"{have} frames for {need} labels"
        else:
            found[utt] = labels
    _check(features.name, bad, len(features), max_bad)
    return found


def _check(name: str, bad: dict[str, str], total: int, max_bad: float) -> None:
    if not bad:
        return
    utt, reason = next(iter(bad.items()))
    text = f"{len(bad)} of {total} utterances of {name} cannot be used (first: {utt}: {reason})"
    if len(bad) > max_bad * total:
        raise UserError(f"{text}: mend the transcripts, or give the --lang that was made for them")
    log.warning("%s", text)


def best_labels(log_posteriors: np.ndarray, labels: Sequence[int] | np.ndarray) -> np.ndarray:
    """The likeliest path int32 [T] through ``log_posteriors`` [T, outputs] that says ``labels``; blanks are in it."""
    from torchaudio.functional import forced_align

    path, _ = forced_align(
        torch.from_numpy(np.ascontiguousarray(log_posteriors, np.float32))[None],
        torch.as_tensor(np.asarray(labels), dtype=torch.int32)[None],
        blank=BLANK,
    )
    return path[0].numpy().astype(np.int32)
