"""One data directory of Kaldi as one of our sets: manifests, and features if it has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asr_parallel.config import ImportKaldiConfig
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.features import StoreOfSet
from asr_parallel.data.frontend import SHIFT
from asr_parallel.files import write_text
from asr_parallel.kaldi.cmvn import global_cmvn, options, speaker_cmvn, transformed
from asr_parallel.kaldi.data_dir import DataDir, read_data_dir
from asr_parallel.kaldi.lines import read_table
from asr_parallel.kaldi.manifests import cut_row, write_manifests
from asr_parallel.kaldi.nnet1 import Transform
from asr_parallel.kaldi.tables import BadEntry, Script
from asr_parallel.kaldi.values import Reader
from asr_parallel.log import UserError, logger, progress

log = logger(__name__)
SHOWN = 3  # bad utterances that a message tells


def import_set(config: ImportKaldiConfig, name: str, transform: Transform | None) -> DataDir:
    """Leave manifests and features of set ``name`` under ``config.data``, and ``import_bad.tsv`` of what is left out.

    Raises ``UserError`` if more than ``max_bad`` of the utterances cannot be used.
    """
    folder, place = config.folders()[name], config.data / name
    data = read_data_dir(folder, place / "audio", config.allow_commands, config.kaldi)
    store, cmvn = None, None
    if (folder / "feats.scp").exists():
        store = _stored(config, name, data)
        cmvn = _cmvn(config, data, store, transform)
    else:
        _check(config, name, data)
    write_manifests(place, data, [cut_row(data, utt) for utt in data.utts])
    if store:
        store.finish(f"feats.scp of {folder}", cmvn)
    if silent := sum(not utt.recording for utt in data.utts):
        log.info("%s: %d utterances have features but no audio", name, silent)
    odd = [utt for utt in data.utts if not utt.id.startswith(utt.speaker)]
    if odd:
        log.warning(
            "%s: %d utterances do not begin with their speaker, %s (%s) first: `validate` counts them as bad",
            *(name, len(odd), odd[0].id, odd[0].speaker),
        )
    return data


def _check(config: ImportKaldiConfig, name: str, data: DataDir) -> None:
    """List bad utterances; raise ``UserError`` if they are too many."""
    path, total = config.data / name / "import_bad.tsv", data.total()
    path.unlink(missing_ok=True)
    if data.bad:
        write_text(path, "".join(f"{utt}\t{why}\n" for utt, why in sorted(data.bad.items())))
    if total and not data.bad:
        return
    few = "".join(f"\n  {utt}: {why}" for utt, why in sorted(data.bad.items())[:SHOWN])
    text = f"{len(data.bad)} of {total} utterances of {data.path} cannot be used{few}"
    if not data.utts or len(data.bad) > config.max_bad * total:
        raise UserError(f"{text}\nmend them, or raise --max_bad, now {config.max_bad:g}; all are in {path}")
    log.warning("%s", text)


def _stored(config: ImportKaldiConfig, name: str, data: DataDir) -> StoreOfSet:
    """Store the features; utterances that have none, or none that can be used, move to ``data.bad``."""
    folder = data.path
    shift = float((folder / "frame_shift").read_text()) if (folder / "frame_shift").exists() else SHIFT
    counts = read_table(folder / "utt2num_frames") if (folder / "utt2num_frames").exists() else {}
    script = Script(folder / "feats.scp", Reader.matrix, config.kaldi, config.allow_commands)
    utts, data.utts, dim = data.utts, [], 0
    with StoreOfSet(config.data, name, config.kind, shift) as store:
        for utt in progress(utts, f"features of {name}", len(utts), "utt"):
            try:
                feats = _frames(script, utt.id, dim, counts.get(utt.id, ("", ""))[1])
            except BadEntry as error:
                data.bad[utt.id] = str(error)
                continue
            dim = feats.shape[1]
            data.utts.append(utt if utt.end > utt.start else replace(utt, end=utt.start + shift * len(feats)))
            store.add(cut_row(data, data.utts[-1]), feats)
        _check(config, name, data)  # while the store can still be given up
    script.close()
    return store


def _frames(script: Script, utt: str, dim: int, count: str) -> np.ndarray:
    """Features float32 [T, D] of ``utt``.  Raises ``BadEntry`` with the reason if they cannot be used."""
    if utt not in script.table:
        raise BadEntry("it is not in feats.scp")
    where = script.table[utt][0]
    feats = script[utt]
    if not feats.size:
        raise BadEntry(f"{where}: it has no frames")
    if dim and feats.shape[1] != dim:
        raise BadEntry(f"{where}: its frames have {feats.shape[1]} values, those before {dim}")
    if count and int(count) != len(feats):
        raise BadEntry(f"{where}: it has {len(feats)} frames, utt2num_frames says {count}: the archive is another one")
    if not np.isfinite(feats).all():
        raise BadEntry(f"{where}: it has values that are not numbers")
    return feats.astype(np.float32)


def _cmvn(config: ImportKaldiConfig, data: DataDir, store: StoreOfSet, transform: Transform | None) -> Cmvn:
    """The normalisation that ``config.cmvn`` asks for, and then the transform."""
    if config.cmvn == "own":
        assert store.stats  # all kinds have statistics but pictures, which Kaldi does not make
        cmvn = store.stats.cmvn()
    elif config.cmvn == "none":
        cmvn = Cmvn.none(store.rows[0]["features"]["num_features"])
    else:
        cmvn = _of_kaldi(config, data)
    return transformed(cmvn, transform) if transform else cmvn


def _of_kaldi(config: ImportKaldiConfig, data: DataDir) -> Cmvn:
    """As ``apply-cmvn`` does with the options of the first directory of alignments."""
    means, variances = options(config.kaldi / config.ali[0] / "cmvn_opts") if config.ali else (True, False)
    if config.cmvn != "kaldi":
        return global_cmvn(config.kaldi / config.cmvn, means, variances)
    script = Script(data.path / "cmvn.scp", Reader.matrix, config.kaldi, config.allow_commands)
    return speaker_cmvn(script, [utt.speaker for utt in data.utts], means, variances)
