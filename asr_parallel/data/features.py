"""Verb ``features``: MFCC, log-mel and MFCC of high resolution of every set, one store a set and kind."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from asr_parallel.config import FeaturesConfig, cuts_path, found_sets
from asr_parallel.data import kinds, perturb
from asr_parallel.data.cmvn import Cmvn, CmvnStats
from asr_parallel.data.feature_set import FeatureSet, Index, cmvn_path, index_path, store_path
from asr_parallel.data.flat_frames import open_frames
from asr_parallel.data.frontend import SHIFT, BadAudio, read_audio
from asr_parallel.data.perturb import Row
from asr_parallel.data.transforms import deltas, splice
from asr_parallel.files import atomic, write_text
from asr_parallel.log import UserError, duration, logger
from asr_parallel.pool import parallel_map

__all__ = ["FeatureSet", "deltas", "run", "splice"]

log = logger(__name__)
USUAL_RATE = 16000  # Hz: Lhotse wants one for features, even if nobody knows it


def run(config: FeaturesConfig) -> None:
    """Leave store, index, normalisation and cut manifest of each set and kind; see ``docs/architecture.md``.

    Sets that are whole already and were made from the same manifest with the same options are left alone.
    Utterances without usable audio are listed in ``SET/features_bad.tsv`` and left out.  Raises ``UserError``
    if they are more than ``max_bad`` of a set.  Sets of ``perturb_sets`` also get copies of each
    utterance, and other volumes, as ``perturb`` has it.
    """
    perturb.check(config)
    sets = config.sets or found_sets(config.data)
    if not sets:
        raise UserError(f"no */cuts.jsonl.gz under {config.data}: run `prepare` first")
    for name in sets:
        made_from = {kind: _made_from(config, name, kind) for kind in config.kinds}
        todo = [k for k in made_from if config.force or not _is_whole(config.data, name, k, made_from[k])]
        for kind in made_from:
            if kind not in todo:
                log.info("%s: %s is there already", name, kind)
        if todo:
            _run_set(config, name, {kind: made_from[kind] for kind in todo})


def _made_from(config: FeaturesConfig, name: str, kind: str) -> str:
    """Hash of the manifest and of all that decides the values of ``kind``."""
    path = cuts_path(config.data, name)
    if not path.exists():
        raise UserError(f"{path} is not there: run `prepare` first, or choose other sets")
    options = kinds.options(kind, config.num_mel, config.num_ceps)
    options += perturb.options(config) if name in config.perturb_sets else []
    return hashlib.sha256(path.read_bytes() + json.dumps(options).encode()).hexdigest()


def _is_whole(data: Path, name: str, kind: str, made_from: str) -> bool:
    if not (cmvn_path(data, name, kind).exists() and cuts_path(data, name, kind).exists()):
        return False
    try:
        index = Index.load(index_path(data, name, kind))
        return index.made_from == made_from and index.offsets[-1] == len(open_frames(store_path(data, name, kind)))
    except UserError:
        return False


def _run_set(config: FeaturesConfig, name: str, made_from: dict[str, str]) -> None:
    """Compute the kinds that ``made_from`` names of set ``name``."""
    start = time.monotonic()
    rows = load_rows(cuts_path(config.data, name))
    if name in config.perturb_sets:
        rows = perturb.perturbed(rows, config)
    rate = rows[0]["recording"]["sampling_rate"]
    extract = _extractor(rows, kinds.extractor(made_from, rate, config.num_mel, config.num_ceps), list(made_from))
    bad: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_one_thread())
        stores = {kind: stack.enter_context(StoreOfSet(config.data, name, kind)) for kind in made_from}
        results = parallel_map(extract, range(len(rows)), config.num_jobs(), f"features of {name}", chunk=16)
        for row, result in zip(rows, results):
            if isinstance(result, str):
                bad[row["id"]] = result
                continue
            for kind, feats in result.items():
                stores[kind].add(row, feats)
        _report_bad(config, name, bad, len(rows))
    for kind, store in stores.items():
        store.finish(made_from[kind])
    audio, spent = sum(row["duration"] for row in rows), time.monotonic() - start
    log.info(
        f"{name}: {' and '.join(made_from)} of {len(rows) - len(bad)} utts, {duration(audio)} of audio in "
        f"{duration(spent)}, {audio / spent:,.0f} x real time, {len(bad)} bad"
    )


def load_rows(path: Path) -> list[Row]:
    """The cuts of a manifest, checked to be of one sampling rate and one supervision each.

    They stay as JSON has them: making 100,000 cuts into objects and back takes longer than their features.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        first = rows[0]["recording"]["sampling_rate"] if rows else 0
        seen: set[str] = set()
        for row in rows:
            if row["id"] in seen:
                raise UserError(f"{path}: cut {row['id']} is there twice: run `validate`")
            seen.add(row["id"])
            if row["type"] != "MonoCut" or len(row["supervisions"]) != 1:
                raise UserError(f"{path}: cut {row['id']} is not a MonoCut with one supervision")
            if (rate := row["recording"]["sampling_rate"]) != first:
                raise UserError(f"{path}: {rows[0]['id']} has {first} Hz, {row['id']} has {rate}: resample one of them")
    except (OSError, EOFError, ValueError, KeyError, TypeError) as e:
        raise UserError(f"{path} is not a cut manifest ({type(e).__name__}: {e}): run `prepare` again") from None
    if not rows:
        raise UserError(f"{path} holds no cuts: run `prepare` again")
    return rows


def _extractor(
    rows: Sequence[Row], features_of: kinds.Extractor, wanted: Sequence[str]
) -> Callable[[int], dict[str, np.ndarray] | str]:
    """The function that workers run: features of the i-th cut, or why there are none."""
    from lhotse import MonoCut

    def extract(i: int) -> dict[str, np.ndarray] | str:
        try:
            # from_dict takes apart what it is given; this is the fastest deep copy
            feats = features_of(read_audio(MonoCut.from_dict(json.loads(json.dumps(rows[i])))))
        except BadAudio as e:
            return str(e)
        return {kind: feats[kind] for kind in wanted}

    return extract


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread in this process, as in the workers, so that sums are added in the same order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _report_bad(config: FeaturesConfig, name: str, bad: dict[str, str], total: int) -> None:
    """List bad utterances beside the store; raise ``UserError`` if they are too many."""
    path = Path(config.data) / name / "features_bad.tsv"
    if not bad:
        path.unlink(missing_ok=True)
        return
    write_text(path, "".join(f"{utt}\t{reason}\n" for utt, reason in bad.items()))
    utt, reason = next(iter(bad.items()))
    text = f"{len(bad)} of {total} utterances of {name} have no features, listed in {path} (first: {utt}: {reason})"
    if len(bad) > config.max_bad * total or len(bad) == total:
        raise UserError(f"{text}: mend them, or raise --max_bad, now {config.max_bad:g}")
    log.warning(text)


class StoreOfSet:
    """Gathers one kind of a set: the frames while in the ``with`` block, the rest in ``finish``."""

    def __init__(self, data: Path, name: str, kind: str, shift: float = SHIFT):
        from asr_parallel.data.store import FlatFramesWriter

        self.place, self.shift = (data, name, kind), shift
        self.writer = FlatFramesWriter(store_path(*self.place))
        self.rows: list[Row] = []
        self.stats = None if kind == "image" else CmvnStats()  # a picture is normalised by itself

    def __enter__(self) -> StoreOfSet:
        self.writer.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.writer.__exit__(*error)

    def add(self, row: Row, feats: np.ndarray) -> None:
        """Store ``feats`` [T, D] of a cut; one that came with its features alone has no recording."""
        recording = row.get("recording") or {"id": row["id"], "sampling_rate": USUAL_RATE}
        picture = self.place[2] == "image"
        features = {  # what lhotse.Features.to_dict gives
            "type": "log-mel-image" if picture else f"kaldi-{self.place[2]}",
            "num_frames": len(feats),
            "num_features": feats.shape[1],
            "frame_shift": row["duration"] if picture else self.shift,
            "sampling_rate": recording["sampling_rate"],
            "start": row["start"],
            "duration": row["duration"],
            "storage_type": self.writer.name,
            "storage_path": self.writer.storage_path,
            "storage_key": self.writer.write(row["id"], feats),
            "recording_id": recording["id"],
            "channels": row["channel"],
        }
        self.rows.append({**row, "features": features})
        if self.stats:
            self.stats.add(_speaker(row), feats)

    def finish(self, made_from: str, cmvn: Cmvn | None = None) -> None:
        """Write normalisation (each speaker's own by default), index and, last, the manifest: then all is there."""
        own = self.stats.cmvn() if self.stats else Cmvn.none(self.rows[0]["features"]["num_features"])
        (cmvn or own).save(cmvn_path(*self.place))
        lengths = [row["features"]["num_frames"] for row in self.rows]
        index = Index(
            utts=[row["id"] for row in self.rows],
            speakers=[_speaker(row) for row in self.rows],
            texts=[" ".join((row["supervisions"][0].get("text") or "").split()) for row in self.rows],
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            durations=np.array([row["duration"] for row in self.rows]),
            made_from=made_from,
        )
        index.save(index_path(*self.place))
        # no name and time in the gzip header, so that equal manifests are equal files
        with (
            atomic(cuts_path(*self.place)) as temporary,
            open(temporary, "wb") as f,
            gzip.GzipFile("", "wb", 6, f, mtime=0) as gz,
        ):
            gz.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in self.rows)


def _speaker(row: Row) -> str:
    """The cut's speaker; an utterance without one is its own."""
    return row["supervisions"][0].get("speaker") or row["id"]
