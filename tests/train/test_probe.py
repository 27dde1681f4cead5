"""What the probe sees goes to TensorBoard as training goes on, and to a picture; its time is not that of computing."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from forked import together
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_exchanges import training
from test_mpi import mpirun, needs_mpi
from test_run import stop_at, table, train_as

from asr_parallel.config import StrategyConfig
from asr_parallel.files import write_json
from asr_parallel.log import UserError
from asr_parallel.parallel import ledger
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.clock import Clock
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.ledger import Ledger, Probed
from asr_parallel.parallel.strategy import Report, make_strategy
from asr_parallel.results import plots
from asr_parallel.train.run import run
from asr_parallel.train.settings import plain

CURVES = ("local_mean", "local_best", "local_worst", "average", "ensemble", "spread")


def curves(config):
    """The points (step, value) of each curve of the probe, as TensorBoard shows them."""
    events = EventAccumulator(str(config.out / "tb"), size_guidance={"scalars": 0}).Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(f"probe/{name}")] for name in CURVES}


def expected(config, minibatches):
    """The same from the ledger, exchange by exchange."""
    found = {name: [] for name in CURVES}
    rows = [row for row in table(config, "ledger.tsv") if row["spread"] != "nan"]
    for key in sorted({(int(row["epoch"]), int(row["exchange"])) for row in rows}):
        of_all = [row for row in rows if (int(row["epoch"]), int(row["exchange"])) == key]
        step = (key[0] - 1) * minibatches + int(of_all[0]["minibatch"])
        local = [float(row["loss_local"]) for row in of_all]
        values = [sum(local) / len(local), min(local), max(local), float(of_all[0]["loss_average"])]
        values += [float(of_all[0]["loss_ensemble"]), sum(float(row["spread"]) for row in of_all) / len(of_all)]
        for name, value in zip(CURVES, values):
            found[name].append((step, pytest.approx(value, abs=2e-6)))
    return found


@pytest.fixture(scope="module")
def probed(toy):
    """A training of two simulated workers."""
    config = training(toy, probe=30)
    assert run(config) == 0
    return config


def test_curves_have_of_each_exchange_what_the_ledger_says_of_all_workers(toy):
    config = training(toy, workers=3, probe=30)
    assert run(config) == 0
    minibatches = int(table(config, "ledger.tsv")[-1]["minibatch"])
    assert curves(config) == expected(config, minibatches)
    assert len(curves(config)["spread"]) == len(table(config, "ledger.tsv")) / 3
    assert all(float(row["probe_s"]) > 0 for row in table(config, "ledger.tsv"))


def test_real_workers_leave_the_curves_of_simulated_ones(toy, probed):
    real = training(toy, backend="auto", probe=30)
    assert together(train_as, real) == [0, 0]
    assert curves(real) == curves(probed)
    assert (real.out / "probe.png").exists()


@needs_mpi
def test_workers_of_mpi_leave_the_curves_of_simulated_ones(toy, probed):
    mpi = training(toy, backend="mpi", probe=30)
    write_json(mpi.out / "config.json", plain(mpi))
    done = mpirun(2, "-m", "asr_parallel.train", mpi.out / "config.json")
    assert done.returncode == 0, done.stdout
    assert curves(mpi) == curves(probed)


def test_a_training_that_goes_on_has_each_point_once(toy, probed, monkeypatch):
    cut = training(toy, probe=30)
    with monkeypatch.context() as patch:
        stop_at(patch, 70)
        assert run(cut) == STOPPED
    assert run(cut) == 0
    assert curves(cut) == curves(probed)


def test_a_training_that_was_killed_has_each_point_once(toy, probed):
    """It has gone on beyond its latest checkpoint, so some exchanges are made again."""
    cut = training(toy, probe=30)
    kill = "import os, sys; from asr_parallel.train import record; seen = []; probe = record.Recorder.probe\n"
    kill += "def count(*a):\n    probe(*a); seen.append(1); len(seen) < 20 or os.kill(os.getpid(), 9)\n"
    kill += "record.Recorder.probe = count; from asr_parallel.train.run import run\n"
    kill += "from asr_parallel.train.settings import load_config; run(load_config(sys.argv[1]))"
    write_json(cut.out / "config.json", plain(cut))
    done = subprocess.run([sys.executable, "-c", kill, cut.out / "config.json"])
    assert done.returncode == -9
    (events,) = (cut.out / "tb").iterdir()  # as if begun in the same second, by a process whose name sorts last
    events.rename(events.with_name(f"events.out.tfevents.{int(time.time()) + 1:010d}.~.1.0"))
    assert run(cut) == 0
    assert curves(cut) == curves(probed)


def test_every_third_exchange_is_looked_at_and_the_last(toy):
    config = training(toy, probe=30, probe_every=3)
    assert run(config) == 0
    rows = [row for row in table(config, "ledger.tsv") if row["rank"] == "0"]
    looked = [int(row["exchange"]) for row in rows if row["spread"] != "nan"]
    last = max(int(row["exchange"]) for row in rows)
    assert last == 7
    assert looked == [3, 6, 7] * 2
    assert {row["probe_s"] for row in rows if row["spread"] == "nan"} == {"0.000000"}


@pytest.mark.parametrize(
    ("options", "what"),
    [({"probe": 30, "probe_every": 0}, "1 or more"), ({"probe_every": 2}, "--strategy.probe dev frames"),
     ({"name": "ensemble", "probe_every": 2}, "ensemble does not read --strategy.probe_every")],
)  # fmt: skip
def test_options_that_nobody_could_read_are_refused(options, what):
    with pytest.raises(UserError, match=what):
        make_strategy(StrategyConfig(**({"name": "model_average"} | options)))


def test_the_time_of_the_probe_is_neither_computing_nor_sending(monkeypatch):
    """Of ten seconds since the exchange before, by hand."""
    now = [100.0]
    monkeypatch.setattr(ledger.time, "perf_counter", lambda: now[0])
    book = Ledger()
    book.begin()
    now[0] += 10
    book.add(Clock(1, 20, 5), Report(bytes=8, wait_s=1.0, send_s=2.0), Probed((0.5,) * 4, {}, wait_s=3.0, probe_s=1.5))
    row = dict(zip([name for name in ledger.COLUMNS if name != "rank"], book.rows[0]))
    assert [row[name] for name in ledger.TIMES] == [4.0, 2.0, 2.5, 1.5]


def test_the_picture_shows_the_losses_of_the_ledger(probed, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.append(figure))
    account = Account.read(probed.out / "ledger.tsv")
    assert plots.probes(account, tmp_path / "probe.png")
    (figure,) = drawn
    assert isinstance(figure, Figure)
    losses, spread = figure.axes
    mean, average, ensemble = losses.lines
    minibatches = int(account.columns["minibatch"].max())
    found = expected(probed, minibatches)
    epochs = np.array([step for step, _ in found["average"]]) / minibatches
    for line, name in ((mean, "local_mean"), (average, "average"), (ensemble, "ensemble"), (spread.lines[0], "spread")):
        assert line.get_xdata() == pytest.approx(epochs)
        assert list(line.get_ydata()) == [value for _, value in found[name]]
    (band,) = losses.collections
    heights = {tuple(point) for path in band.get_paths() for point in np.round(path.vertices, 4)}
    for name in ("local_best", "local_worst"):
        assert {(round(x, 4), round(v.expected, 4)) for x, (_, v) in zip(epochs, found[name])} <= heights


def test_without_a_probe_there_is_no_picture_nor_one_of_an_earlier_training(toy, tmp_path):
    config = training(toy)
    config.out.mkdir()
    (config.out / "probe.png").touch()
    assert run(config) == 0
    assert not plots.probes(Account.read(config.out / "ledger.tsv"), tmp_path / "probe.png")
    assert not (config.out / "probe.png").exists()
    assert not (tmp_path / "probe.png").exists()


def test_a_model_that_is_not_a_number_is_left_out_of_best_and_worst(toy, monkeypatch):
    from asr_parallel.train.probe import Probe

    whole = Probe._look
    sick = []

    def look(probe, worker):
        own = whole(probe, worker)
        sick.append(1)
        return (math.nan, *own[1:]) if worker.comm.rank == 1 and len(sick) <= 2 else own

    monkeypatch.setattr(Probe, "_look", look)
    config = training(toy, probe=30)
    assert run(config) == 0
    first = {name: points[0][1] for name, points in curves(config).items()}
    assert math.isnan(first["local_mean"])
    assert first["local_best"] == first["local_worst"]
    assert math.isfinite(first["local_best"])
