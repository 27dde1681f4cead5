"""The space that a GMM works in: what becomes of the MFCC frames of an utterance before they are scored."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.data.transforms import deltas, splice
from asr_parallel.files import atomic
from asr_parallel.log import UserError


@dataclass(frozen=True)
class Space:
    """Frames with deltas and delta-deltas, or ``context`` frames on either side joined and multiplied by ``matrix``.

    ``matrix`` is float32 [D, (2 context + 1) d], for static features of d values.  ``log_det`` is the log |det| of what
    the first matrix was multiplied by since, which counts in likelihoods.
    """

    context: int = 0
    matrix: np.ndarray | None = None
    log_det: float = 0.0

    def __call__(self, feats: np.ndarray) -> np.ndarray:
        """``feats`` [T, d], normalised, in this space: float32 [T, D]."""
        if self.matrix is None:
            return deltas(feats)
        return splice(feats, self.context) @ self.matrix.T

    def static_dim(self, dim: int) -> int:
        """The d of features that have ``dim`` values in this space; 0 if no features do."""
        if self.matrix is None:
            return dim // 3 if dim % 3 == 0 else 0
        return self.matrix.shape[1] // (2 * self.context + 1) if dim == len(self.matrix) else 0

    def then(self, a: np.ndarray) -> Space:
        """This space multiplied by ``a`` [D, D].  Raises ``ValueError`` for deltas, which have no matrix."""
        if self.matrix is None:
            raise ValueError("deltas are not given by a matrix")
        log_det = self.log_det + float(np.linalg.slogdet(a)[1])
        return Space(self.context, (a @ self.matrix).astype(np.float32), log_det)

    def save(self, path: Path) -> None:
        """Write ``space.npz`` atomically; deltas leave no file."""
        if self.matrix is None:
            path.unlink(missing_ok=True)
            return
        with atomic(path) as temporary:
            np.savez(temporary, context=self.context, matrix=self.matrix, log_det=self.log_det)

    @classmethod
    def load(cls, path: Path) -> Space:
        """Read what ``save`` wrote; deltas if there is no file.  Raises ``UserError`` if it is damaged."""
        try:
            with np.load(path, allow_pickle=False) as npz:
                context, matrix, log_det = int(npz["context"]), npz["matrix"], float(npz["log_det"])
            if matrix.ndim != 2 or context < 0 or matrix.shape[1] % (2 * context + 1):
                raise ValueError(f"matrix {matrix.shape} does not fit {context} frames of context")
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError, KeyError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as e:
            raise UserError(f"{path} is damaged ({e}): run `align` again") from None
        return cls(context, matrix, log_det)


def spliced(context: int, dim: int) -> Space:
    """``context`` frames on either side of each frame of ``dim`` values, and nothing else."""
    return Space(context, np.eye((2 * context + 1) * dim, dtype=np.float32))
