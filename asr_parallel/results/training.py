"""What a training, finished or not, has left in its directory: configuration, history and ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from asr_parallel.config import TrainConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.account import Account
from asr_parallel.results.record import Experiment, experiment, load
from asr_parallel.train.settings import load_config


@dataclass(frozen=True)
class Training:
    """``record`` has what tables say, and is without ``train`` as long as the training is not finished."""

    config: TrainConfig
    record: Experiment
    account: Account

    @classmethod
    def open(cls, path: Path) -> Training:
        """Raises ``UserError`` if there is none in ``path``, or its files are damaged or of another version."""
        if not (path / "config.json").exists():
            known = " It holds a GMM." if (path / "gmm.npz").exists() else ""
            raise UserError(f"{path} holds no training (no config.json).{known} Give the --out of a `train` as --model")
        load(path / "config.json")  # says if it is damaged
        try:
            config = load_config(path / "config.json")
        except (AttributeError, KeyError, TypeError) as error:
            raise UserError(f"{path / 'config.json'} is of another version ({error!r}); train again") from None
        return cls(config, experiment(path), Account.read(path / "ledger.tsv"))

    @property
    def finished(self) -> bool:
        return bool(self.record.train)

    @property
    def workers(self) -> int:
        """Those that there were in the end; under a launcher the configuration does not know."""
        known = self.account.workers_at_last if len(self.account) else self.config.workers
        return int(self.record.train.get("workers", known))

    @cached_property
    def speed(self) -> dict[str, float]:
        """Epochs, frames and seconds of training so far, and frames a second (0 if there is nothing yet)."""
        epochs = len(self.record.curve("epoch"))
        frames, seconds = (sum(self.record.curve(name)) for name in ("frames", "seconds"))
        if not epochs and self.record.course:
            frames, seconds = (self.record.within(name)[-1] for name in ("frames", "seconds"))
        return {
            "epochs": epochs,
            "frames": int(frames),
            "seconds": round(seconds, 2),
            "frames_per_s": round(frames / seconds) if seconds else 0,
        }

    @property
    def scores(self) -> dict[str, Any]:
        """On the dev sets, of the last epoch that was kept and of the best one; WER of what nothing was tuned on."""
        columns = {name: self.record.curve(name) for name in ("epoch", "dev_loss", "dev_acc")}
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        kept = [row for row, said in zip(rows, self.record.history.get("verdict", [])) if said.startswith("accept")]
        found: dict[str, Any] = {}
        for what, row in (("kept", kept[-1:]), ("best", sorted(rows, key=lambda row: row["dev_loss"])[:1])):
            found |= {f"{what}_{name}": int(v) if name == "epoch" else v for name, v in (row[0] if row else {}).items()}
        return found | {"wer": {name: score["wer"] for name, score in self.record.test_scores.items()}}
