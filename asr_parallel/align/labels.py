"""Frame labels: one pdf for each frame of each utterance."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asr_parallel.files import atomic
from asr_parallel.log import UserError


@dataclass(frozen=True)
class Labels:
    """The pdfs of all utterances of a set, one after the other.

    ``utts`` [U] names the utterances; utterance i owns ``pdfs[offsets[i]:offsets[i + 1]]``.
    ``offsets`` is int64 [U + 1], ``pdfs`` is int32 [frames].  Raises ``ValueError`` if they contradict.
    """

    utts: list[str]
    offsets: np.ndarray
    pdfs: np.ndarray
    _row: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        offsets = np.asarray(self.offsets, np.int64)
        pdfs = np.asarray(self.pdfs, np.int32)
        if pdfs.ndim != 1 or offsets.shape != (len(self.utts) + 1,):
            raise ValueError(f"{len(self.utts)} utterances, offsets {offsets.shape}, pdfs {pdfs.shape}")
        if offsets[0] != 0 or offsets[-1] != len(pdfs) or (np.diff(offsets) < 0).any():
            raise ValueError(f"offsets do not rise from 0 to the number of frames, {len(pdfs)}")
        if len(pdfs) and pdfs.min() < 0:
            raise ValueError("a pdf is negative")
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "pdfs", pdfs)
        object.__setattr__(self, "_row", {u: i for i, u in enumerate(self.utts)})
        if len(self._row) != len(self.utts):
            twice = next(u for i, u in enumerate(self.utts) if self._row[u] != i)
            raise ValueError(f"utterance {twice} is there twice")

    @classmethod
    def from_dict(cls, pdfs: dict[str, np.ndarray]) -> Labels:
        """Labels of ``{utt: int [T]}``, in the order of the dictionary."""
        offsets = np.zeros(len(pdfs) + 1, np.int64)
        np.cumsum([len(p) for p in pdfs.values()], out=offsets[1:])
        return cls(list(pdfs), offsets, np.concatenate([np.zeros(0, np.int32), *pdfs.values()], dtype=np.int32))

    def span(self, utt: str) -> tuple[int, int]:
        """Where the pdfs of ``utt`` begin and end in ``pdfs``.  Raises ``KeyError``."""
        row = self._row[utt]
        return int(self.offsets[row]), int(self.offsets[row + 1])

    def __getitem__(self, utt: str) -> np.ndarray:
        """The pdfs of ``utt``, int32 [T] (a view).  Raises ``KeyError``."""
        begin, end = self.span(utt)
        return self.pdfs[begin:end]

    def __contains__(self, utt: object) -> bool:
        return utt in self._row

    def __len__(self) -> int:
        """Number of utterances."""
        return len(self.utts)

    def counts(self, num_pdfs: int) -> np.ndarray:
        """Frames of each pdf, int64 [num_pdfs].  Raises ``UserError`` if a label is not below ``num_pdfs``."""
        counts = np.bincount(self.pdfs, minlength=num_pdfs)
        if len(counts) > num_pdfs:
            bad = self.utts[int(np.searchsorted(self.offsets, int(self.pdfs.argmax()), side="right")) - 1]
            raise UserError(
                f"utterance {bad} has label {len(counts) - 1}, but the tree has {num_pdfs} pdfs: "
                "the labels were made with another tree; run `align` again"
            )
        return counts.astype(np.int64)

    def save(self, path: Path) -> None:
        """Write ``path`` (npz) atomically."""
        with atomic(path) as temporary:
            np.savez(temporary, utts=np.array(self.utts, dtype=np.str_), offsets=self.offsets, pdfs=self.pdfs)

    @classmethod
    def load(cls, path: Path) -> Labels:
        """Read what ``save`` wrote.  Raises ``UserError`` if the file is missing, damaged or contradicts itself."""
        again = "run `align` again"
        try:
            with np.load(path, allow_pickle=False) as npz:
                return cls([str(u) for u in npz["utts"]], npz["offsets"], npz["pdfs"])
        except FileNotFoundError:
            raise UserError(f"no frame labels at {path}: run `align` first") from None
        except KeyError as e:
            raise UserError(f"{path} is not a file of frame labels ({e.args[0]}): {again}") from None
        except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): {again}") from None
