"""Kaldi's data directories: the folder itself or one a set, each with ``wav.scp``, ``text`` and ``utt2spk``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from asr_parallel.files import files_under
from asr_parallel.kaldi.data_dir import read_data_dir
from asr_parallel.prepare.item import Fault, Item, folders, set_of


def claims(source: Path) -> bool:
    return source.is_dir() and bool(_directories(source))


def _directories(source: Path) -> list[Path]:
    return [path.parent for path in files_under(source, ["wav.scp"]) if path.name == "wav.scp"]


def read(source: Path) -> Iterator[Item | Fault]:
    """Utterances of all directories.  Commands in ``wav.scp`` are refused: ``import-kaldi`` can run them."""
    for folder in _directories(source):
        data, of_set = read_data_dir(folder, folder / ".archives"), set_of(*folders(folder / "wav.scp", source))
        for name, why in data.bad.items():
            place, _, what = why.partition(": ")
            yield Fault(name, place or str(folder), "not usable", what)
        for utt in data.utts:
            if not utt.recording:
                yield Fault(utt.id, utt.where, "no audio", "there are only features; import-kaldi takes these")
                continue
            audio, times = Path(data.recordings[utt.recording].path), (utt.start, utt.end, utt.channel)
            yield Item(*(utt.id, audio, utt.text or "", utt.where, utt.speaker, *times), of_set, utt.recording)
