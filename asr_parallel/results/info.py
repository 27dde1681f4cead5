"""Verb ``info``: what a training is, what it has reached, and where the time of its workers has gone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from asr_parallel.config import InfoConfig
from asr_parallel.log import UserError, duration
from asr_parallel.results import plots
from asr_parallel.results.record import load
from asr_parallel.results.table import markdown
from asr_parallel.results.training import Training

LOSSES = ("communication", "stragglers", "probing")
SIMULATED = "simulated workers take turns on one machine: of their times only those of computing mean anything"


def run(config: InfoConfig) -> int:
    """Print the summary of ``config.model``; raises ``UserError`` if there is no training."""
    if (config.model / "rbm.tsv").exists():
        found = pretraining(config.model)
        print(json.dumps(found, indent=1) if config.json else pretraining_text(found))
        return 0
    training = Training.open(config.model)
    found = summary(training, Training.open(config.against) if config.against else None)
    print(json.dumps(found, indent=1) if config.json else text(found))
    if config.plot and not plots.probes(training.account, config.model / "probe.png"):
        raise UserError(f"{config.model}: nothing was probed, so there is nothing to plot: train with --strategy.probe")
    return 0


def summary(training: Training, against: Training | None = None) -> dict[str, Any]:
    """All figures by name; those of exchanges are missing where there was none."""
    config, account = training.config, training.account
    found: dict[str, Any] = {
        "model": str(training.record.path),
        "finished": training.finished,
        "strategy": config.strategy.name,
        "every": config.strategy.every,
        "workers": training.workers,
        "threads": training.record.train.get("threads", config.threads),
        "simulated": config.backend == "simulated",
        "network": f"{config.model.layers} x {config.model.width} {config.model.activation}",
        "params": training.record.train.get("params"),
        "optimizer": config.optim.name,
        "schedule": config.schedule.name,
        "of_epochs": config.schedule.epochs,
    }
    found |= training.speed | training.scores | {"exchanges": account.exchanges}
    if len(account):
        found["ranks"] = [_rounded(asdict(share)) for share in account.ranks]
    if len(account) and not found["simulated"]:
        found |= {name: round(getattr(account, name), 4) for name in ("wall", "speed_up", "efficiency", *LOSSES)}
    if against is not None:
        found["against"] = compared(training, against)
    return found


def compared(training: Training, single: Training) -> dict[str, Any]:
    """The speed-up against a training that was measured.  Raises ``UserError`` if one of them has no speed yet."""
    for each in (training, single):
        if not each.speed["frames_per_s"]:
            raise UserError(f"{each.record.path} has trained too little to tell its speed: wait, or go on with it")
    if single.workers != 1:
        raise UserError(f"--against {single.record.path} has {single.workers} workers: give a training with one")
    ratio = training.speed["frames_per_s"] / single.speed["frames_per_s"]
    return {
        "model": str(single.record.path),
        "workers": 1,
        "threads": single.record.train.get("threads", single.config.threads),
        "frames_per_s": single.speed["frames_per_s"],
        "speed_up": round(ratio, 4),
        "efficiency": round(ratio / training.workers, 4),
    }


def text(found: dict[str, Any]) -> str:
    """``summary`` for people."""
    state = "finished" if found["finished"] else "not finished: `run.sh` goes on"
    params = f", {found['params']:,} parameters" if found["params"] else ""
    lines = [
        f"{found['model']}: {found['strategy']}, {workers_words(found)} ({state})",
        f"  network   {found['network']}{params}; {found['optimizer']}, {found['schedule']}",
        f"  training  {found['epochs']} of {found['of_epochs']} epochs, {found['frames']:,} frames in "
        f"{duration(found['seconds'])}, {found['frames_per_s']:,} frames/s",
    ]
    for what in ("kept", "best"):
        if f"{what}_epoch" in found:
            loss, right = found[f"{what}_dev_loss"], 100 * found[f"{what}_dev_acc"]
            lines.append(f"  dev       {what}: loss {loss:.4f}, {right:.2f} % right (epoch {found[f'{what}_epoch']})")
    if found["wer"]:
        lines.append("  WER       " + ", ".join(f"{name} {rate:.1f} %" for name, rate in found["wer"].items()))
    return "\n".join([*lines, *_exchanges_text(found), *_against_text(found)])


def _exchanges_text(found: dict[str, Any]) -> list[str]:
    if "ranks" not in found:
        return ["no exchanges: " + ("one worker" if found["workers"] == 1 else "none has been written down yet")]
    head = ("rank", "exchanges", "computing s", "waiting s", "sending s", "probing s", "MB sent", "left out")
    rows = [
        [f"{r['rank']}", f"{r['exchanges']:,}"]
        + [f"{r[name]:,.2f}" for name in ("compute_s", "wait_s", "send_s", "probe_s")]
        + [f"{r['bytes'] / 1e6:,.1f}", f"{r['left_out']}"]
        for r in found["ranks"]
    ]
    if found["simulated"]:
        return [markdown(head, rows), SIMULATED]
    shares = [f"{name} {100 * found[name]:.1f} %" for name in LOSSES]
    told = f"speed-up {found['speed_up']:.2f}, efficiency {100 * found['efficiency']:.1f} %, against one worker that "
    return [markdown(head, rows), f"{told}computes as fast as these; lost to {', '.join(shares)}"]


def _against_text(found: dict[str, Any]) -> list[str]:
    if "against" not in found:
        return []
    one = found["against"]
    return [
        f"speed-up {one['speed_up']:.2f}, efficiency {100 * one['efficiency']:.1f} %, against {one['model']}, "
        f"{workers_words(one)} that was measured at {one['frames_per_s']:,} frames/s"
    ]


def workers_words(found: dict[str, Any]) -> str:
    """How many workers, with how many threads, meet how often."""
    threads = f" x {found['threads']} thread{'s' * (found['threads'] > 1)}" if found["threads"] else ""
    if found["workers"] == 1:
        return f"1 worker{threads}"
    simulated = "simulated " if found["simulated"] else ""
    return f"{found['workers']} {simulated}workers{threads}, every {found['every']}"


def pretraining(path: Path) -> dict[str, Any]:
    """Its summary, without the options.  Raises ``UserError`` if it is not finished."""
    found = load(path / "pretrain.json")
    if not found:
        raise UserError(f"{path} holds a pretraining that is not finished: give the same `pretrain` again to go on")
    return {"model": str(path)} | {name: value for name, value in found.items() if name not in ("config", "machine")}


def pretraining_text(found: dict[str, Any]) -> str:
    """``pretraining`` for people."""
    rows = [(str(n), *(f"{layer[name]:g}" for name in layer)) for n, layer in enumerate(found["layers"])]
    return "\n".join([
        f"{found['model']}: {len(rows)} RBMs, {found['workers']} workers, {found['trained_frames']:,} frames in "
        f"{duration(found['layer_seconds'])}, {found['frames_per_s']:,} frames/s; pretraining keeps no ledger",
        markdown(("layer", *found["layers"][0]), rows),
    ])  # fmt: skip


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}
