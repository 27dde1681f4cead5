"""The features of a set as training and decoding read them: mapped frames, an index, normalisation.

``feats_KIND.index.npz`` repeats what the cut manifest says of each utterance, because reading a manifest
of 100,000 cuts takes many seconds and this takes a tenth of one.  Nothing here needs Lhotse or torch.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.flat_frames import open_frames
from asr_parallel.files import atomic
from asr_parallel.log import UserError


def store_path(data_dir: Path, set_name: str, kind: str) -> Path:
    """Where the frames of a set are."""
    return Path(data_dir) / set_name / f"feats_{kind}.frames"


def index_path(data_dir: Path, set_name: str, kind: str) -> Path:
    """Where the index of a store is."""
    return Path(data_dir) / set_name / f"feats_{kind}.index.npz"


def cmvn_path(data_dir: Path, set_name: str, kind: str) -> Path:
    """Where the normalisation of a set is."""
    return Path(data_dir) / set_name / f"cmvn_{kind}.npz"


@dataclass(frozen=True)
class Index:
    """What a set holds: one entry an utterance, in the order of the store.

    ``offsets`` int64 [U + 1] are rows of the store, ``durations`` float64 [U] are seconds.  ``made_from``
    names the manifest and options that the store was computed from.
    """

    utts: list[str]
    speakers: list[str]
    texts: list[str]
    offsets: np.ndarray
    durations: np.ndarray
    made_from: str

    def save(self, path: Path) -> None:
        """Write ``path`` (npz) atomically."""
        with atomic(path) as temporary:
            np.savez(
                temporary,
                utts=_packed(self.utts),
                speakers=_packed(self.speakers),
                texts=_packed(self.texts),
                offsets=self.offsets,
                durations=self.durations,
                made_from=_packed([self.made_from]),
            )

    @classmethod
    def load(cls, path: Path) -> Index:
        """Read what ``save`` wrote.  Raises ``UserError`` if the file is missing or damaged."""
        again = "run `features` with --force"
        try:
            with np.load(path, allow_pickle=False) as npz:
                utts, speakers, texts, made_from = (
                    _unpacked(npz[name]) for name in ("utts", "speakers", "texts", "made_from")
                )
                index = cls(utts, speakers, texts, npz["offsets"], npz["durations"], made_from[0])
        except FileNotFoundError:
            raise UserError(f"no features at {path}: run `features` first") from None
        except (KeyError, ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): {again}") from None
        lengths = {len(index.utts), len(index.speakers), len(index.texts), len(index.durations), len(index.offsets) - 1}
        if len(lengths) != 1:
            raise UserError(f"{path} contradicts itself: {again}")
        return index


def _packed(lines: Sequence[str]) -> np.ndarray:
    """Strings as one array of UTF-8 bytes: numpy's own strings take four bytes for the longest one's every letter."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _unpacked(array: np.ndarray) -> list[str]:
    return array.tobytes().decode().split("\n")


@dataclass(frozen=True)
class FeatureSet:
    """The features of a set.

    ``utts`` [U] are in the order of the store; utterance i owns rows ``offsets[i]:offsets[i + 1]`` of
    ``frames`` [N, D], which are mapped and not normalised.  ``speaker_of`` int32 [U] points into
    ``speakers``, ``mean`` and ``std`` [S, D].  ``texts`` [U] are reference transcripts, ``durations``
    float64 [U] are seconds.
    """

    name: str
    kind: str
    utts: list[str]
    offsets: np.ndarray
    frames: np.ndarray
    speakers: list[str]
    speaker_of: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    texts: list[str]
    durations: np.ndarray
    row_of: dict[str, int] = field(repr=False)  # utt to its place in ``utts``

    @classmethod
    def open(cls, data_dir: Path, set_name: str, kind: str) -> FeatureSet:
        """Open what ``features`` left for ``set_name`` under corpus directory ``data_dir``.

        Maps the frames and reads none.  Raises ``UserError`` if a file is missing or damaged.
        """
        index = Index.load(index_path(data_dir, set_name, kind))
        frames = open_frames(store_path(data_dir, set_name, kind))
        cmvn = Cmvn.load(cmvn_path(data_dir, set_name, kind))
        speaker_of = cmvn.rows(index.speakers)
        if index.offsets[-1] != len(frames) or cmvn.mean.shape[1] != frames.shape[1] or speaker_of is None:
            raise UserError(
                f"frames, index and normalisation in {Path(data_dir) / set_name} are of different runs: "
                "run `features` with --force"
            )
        return cls(
            name=set_name,
            kind=kind,
            utts=index.utts,
            offsets=index.offsets,
            frames=frames,
            speakers=cmvn.speakers,
            speaker_of=speaker_of,
            mean=cmvn.mean,
            std=cmvn.std,
            texts=index.texts,
            durations=index.durations,
            row_of={u: i for i, u in enumerate(index.utts)},
        )

    @property
    def dim(self) -> int:
        return self.frames.shape[1]

    def __len__(self) -> int:
        """Number of utterances."""
        return len(self.utts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.utts)

    def __contains__(self, utt: object) -> bool:
        return utt in self.row_of

    def _row(self, utt: str) -> int:
        try:
            return self.row_of[utt]
        except KeyError:
            raise UserError(f"utterance {utt} has no {self.kind} features in set {self.name}") from None

    def __getitem__(self, utt: str) -> np.ndarray:
        """Normalised frames of ``utt``, float32 [T, D].  Raises ``UserError`` for an unknown utterance."""
        i = self._row(utt)
        speaker = self.speaker_of[i]
        raw = np.asarray(self.frames[self.offsets[i] : self.offsets[i + 1]], np.float32)
        return (raw - self.mean[speaker]) / self.std[speaker]

    def num_frames(self, utt: str) -> int:
        """Number of frames of ``utt``.  Raises ``UserError`` for an unknown utterance."""
        i = self._row(utt)
        return int(self.offsets[i + 1] - self.offsets[i])
