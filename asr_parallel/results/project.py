"""Verb ``project``: how fast a training would be with other workers on another network, as its ledger tells."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from asr_parallel.config import ProjectConfig
from asr_parallel.log import UserError, logger
from asr_parallel.parallel.cost import Costs
from asr_parallel.parallel.link import Link, bandwidth, latency
from asr_parallel.parallel.strategy import make_strategy
from asr_parallel.results.info import SIMULATED, compared
from asr_parallel.results.table import markdown
from asr_parallel.results.training import Training

LOG = logger(__name__)
Row = dict[str, Any]


def run(config: ProjectConfig) -> int:
    """Print the table; raises ``UserError`` for what cannot be projected."""
    numbers = _numbers(config.workers)
    link = Link(bandwidth(config.bandwidth), latency(config.latency))
    measured_on = Link(latency=latency(config.measured_latency, "--measured_latency"))
    if config.measured_bandwidth:
        measured_on = Link(bandwidth(config.measured_bandwidth, "--measured_bandwidth"), measured_on.latency)
    training = Training.open(config.model)
    against = Training.open(config.against) if config.against else None
    costs = Costs.of(training.config, training.account, measured_on)
    for number in numbers:
        make_strategy(training.config.strategy).check(number)
    rows = [asdict(costs.predict(number, link)) for number in numbers]
    known = asdict(costs.predict(costs.workers, measured_on))
    if against is not None:
        _measure(training, against, [known, *rows])
    if training.config.backend == "simulated":
        LOG.warning("%s. Meeting and sending are taken to cost what the network does, and nothing else", SIMULATED)
    found = {"model": str(config.model), "strategy": training.config.strategy.name, "ledger": known, "projected": rows}
    print(json.dumps(found, indent=1) if config.json else text(config, costs, known, rows))
    return 0


def text(config: ProjectConfig, costs: Costs, known: Row, rows: list[Row]) -> str:
    """The table, for people."""
    head = ("workers", "frames/s", "speed-up", "efficiency", "communication", "stragglers", "s a period", "MB sent")
    one = config.against or "one worker that computes as fast as these"
    network = f"on a network of {config.bandwidth.removesuffix('/s')}/s for each worker and {config.latency}"
    return "\n".join([
        f"{config.model}, every {costs.frames:,.0f} frames of a worker; against {one}",
        markdown(head, [_cells(known, "as its ledger says: "), *(_cells(row) for row in rows)]),
        f"{network}; a period is from one exchange to the next, in which the busiest worker sends so much",
    ])  # fmt: skip


def _cells(row: Row, before: str = "") -> list[str]:
    shares = [f"{100 * row[name]:.1f} %" for name in ("efficiency", "communication", "stragglers")]
    speed = [f"{before}{row['workers']}", f"{row['frames_per_s']:,.0f}", f"{row['speed_up']:.2f}"]
    return [*speed, *shares, f"{row['period_s']:.4g}", f"{row['bytes'] / 1e6:,.2f}"]


def _measure(training: Training, against: Training, rows: list[Row]) -> None:
    """Let speed-ups be those against a training that was measured."""
    one = compared(training, against)["frames_per_s"]
    for row in rows:
        row["speed_up"] = row["frames_per_s"] / one
        row["efficiency"] = row["speed_up"] / row["workers"]


def _numbers(text: str) -> list[int]:
    if not re.fullmatch(r"\s*[1-9]\d*\s*(,\s*[1-9]\d*\s*)*", text):
        raise UserError(f"--workers {text!r}: give numbers of workers, such as 16 or 4,16,32")
    return [int(number) for number in text.split(",")]
