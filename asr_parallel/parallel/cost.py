"""What a training would cost with other workers on another network, from its ledger: see ``docs/ledger.md``.

From exchange to exchange each of K workers computes for a time that is drawn from those of the ledger; all wait for the
slowest, agree, and send:

    T(K) = E[max of K draws] + agreeing + sending .

Sending costs the processor what it did in the ledger, in proportion to the bytes, and the network alpha for each
message that waits for another and beta for each byte.  An exchange that is overlapped costs the network's time only as
far as the next period is shorter.  Speed-ups are against one worker that computes as fast, alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from asr_parallel.config import TrainConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.link import Link
from asr_parallel.parallel.traffic import Traffic, traffic_of

FREE = Link()


@dataclass(frozen=True)
class Prediction:
    """Shares are of a worker's time; ``bytes`` are what the busiest worker sends at an exchange; ``period_s`` is the
    time from one to the next."""

    workers: int
    frames_per_s: float
    speed_up: float
    efficiency: float
    communication: float
    stragglers: float
    period_s: float
    bytes: float


@dataclass(frozen=True)
class Costs:
    """What the ledger of ``workers`` says of the usual exchange.

    ``draws``: seconds of computing in a period, of every worker and exchange, float64 [N] rising.  ``frames`` of one
    worker in a period.  ``agree_s`` and ``send_s``: what meeting and sending took, without what is the network's.
    ``sent``: bytes of the busiest worker.  ``periods``: exchanges of an epoch.
    """

    workers: int
    draws: np.ndarray
    frames: float
    agree_s: float
    send_s: float
    sent: float
    periods: float
    overlap: bool
    traffic: Traffic

    @classmethod
    def of(cls, config: TrainConfig, account: Account, measured_on: Link = FREE) -> Costs:
        """``measured_on``: the network that the ledger's workers had; by default it is taken to have cost nothing.

        Raises ``UserError`` if the ledger is not one of several workers.
        """
        if account.workers_at_last < 2:
            raise UserError(
                f"{account.path} knows of no exchange between workers, so it cannot tell what one costs: train with 2 "
                "--workers or more and a --strategy.name other than single"
            )
        usual = account.regular()
        compute, workers = _periods(usual), usual["rank"].shape[1]
        real = config.backend != "simulated"
        sent = float(np.median(usual["bytes"].max(1)))
        if config.strategy.overlap:  # it is told one exchange later: the first of an epoch has none, the last has two
            sent = float(account.columns["bytes"].mean())
        found = cls(
            workers=workers,
            draws=_independent(compute),
            frames=float(usual["minibatches"].mean()) * config.batch,
            agree_s=float(usual["wait_s"].min(1).mean()) if real else 0.0,
            send_s=float(usual["send_s"].max(1).mean()) if real else 0.0,
            sent=sent,
            periods=account.exchanges / len(np.unique(account.columns["epoch"])),
            overlap=config.strategy.overlap,
            traffic=traffic_of(config, workers, sent),
        )
        return found._without(measured_on)

    def _without(self, network: Link) -> Costs:
        """These costs without what was that network's."""
        free = replace(self, agree_s=0.0, send_s=0.0)
        its_own = free._period(self.workers, network) - self._slowest(self.workers)
        meeting = network.seconds(0, 2 * (self.workers - 1))
        agree, send = max(0.0, self.agree_s - meeting), max(0.0, self.send_s - (its_own - meeting))
        return replace(self, agree_s=agree, send_s=send)

    def predict(self, workers: int, link: Link) -> Prediction:
        """The cost of so many ``workers``, each of which has such a ``link`` to the others."""
        slowest, total = self._slowest(workers), self._period(workers, link)
        speed_up = workers * self._slowest(1) / total
        return Prediction(
            workers=workers,
            frames_per_s=workers * self.frames / total,
            speed_up=speed_up,
            efficiency=speed_up / workers,
            communication=(total - slowest) / total,
            stragglers=(slowest - self._slowest(workers, draws=1)) / total,
            period_s=total,
            bytes=self._vector * self.traffic.sent(workers) if workers > 1 else 0.0,
        )

    def _period(self, workers: int, link: Link) -> float:
        """Seconds from one exchange to the next, T(K)."""
        if workers == 1:
            return self._slowest(1)
        traffic, known = self.traffic, self.workers
        agree = self.agree_s * (workers - 1) / (known - 1)  # a ring of small messages
        agree += link.seconds(0, traffic.agreements * 2 * (workers - 1))
        own = self.send_s * (traffic.sent(workers) / traffic.sent(known) if self._vector else 1.0)
        network = link.seconds(self._vector * traffic.carried(workers), traffic.messages(workers))
        at_once = self._slowest(workers)
        if not self.overlap:
            return at_once + agree + own + network
        # the first period of an epoch has nothing to wait for, and its end waits for all
        behind = (self.periods - 1) * self._slowest(workers, network - agree)
        return (at_once + behind + network) / self.periods + agree + own

    def _slowest(self, workers: int, least: float = 0.0, draws: int = 0) -> float:
        """Seconds that the slowest of ``workers`` (or of ``draws`` of them) computes in a period, on average, where
        anything below ``least`` counts as that."""
        return expected_max(self.draws * self._more_computing(workers), draws or workers, least)

    def _more_computing(self, workers: int) -> float:
        """Seconds of computing where there are so many, in relation to what there was."""
        compute = self.traffic.compute
        return (compute(workers) if workers > 1 else 1.0) / compute(self.workers)

    @property
    def _vector(self) -> float:
        """Bytes of what ``Traffic`` counts in."""
        each = self.traffic.sent(self.workers)
        return self.sent / each if each else 0.0


def expected_max(values: np.ndarray, draws: int, least: float = 0.0) -> float:
    """Mean of the largest of so many independent draws from ``values`` [N], which rise, and of ``least``."""
    below = np.arange(len(values) + 1) / len(values)  # P(draw <= values[i - 1])
    return float((np.maximum(values, least) * np.diff(below**draws)).sum())


def _periods(usual: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds of computing [T, K] as if all periods had the mean number of minibatches; their mean stays."""
    each = usual["compute_s"] / usual["minibatches"]
    return each * (usual["compute_s"].mean() / each.mean())


def _independent(compute: np.ndarray) -> np.ndarray:
    """The times [T, K] as draws [T K] that are independent: the part of the variation that workers do not share.

    Deviations from the mean are made smaller by one factor, so that K draws are as far apart as K workers were:
    a period that is long for all makes nobody wait.
    """
    mean, values = compute.mean(), np.sort(compute.reshape(-1))
    apart = expected_max(values, compute.shape[1]) - mean
    waited = compute.max(1).mean() - mean
    return mean + (values - mean) * (min(1.0, waited / apart) if apart > 0 else 0.0)
