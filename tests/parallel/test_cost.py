"""The cost model: by hand, against all draws one by one, and against a simulation event by event (``timeline.py``)."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from timeline import deliver, from_first, one_by_one, ring, swap, to_first

from asr_parallel.config import ModelConfig, StrategyConfig, TrainConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.account import Account
from asr_parallel.parallel.cost import Costs, expected_max
from asr_parallel.parallel.link import Link, bandwidth, latency

NETWORK = Link(bandwidth=1000.0, latency=0.003)
FREE = Link()


def ledger(compute, **columns):
    """An account of exchanges 2, 3, ... of one epoch, 10 minibatches each; ``compute`` [T, K] and others by name."""
    compute = np.asarray(compute, float)
    total, size = compute.shape
    shape = np.ones_like(compute)
    number = np.arange(2, total + 2)[:, None] * shape
    found = {"epoch": shape, "exchange": number, "rank": np.arange(size) * shape, "minibatch": 10 * number}
    found |= {name: 0 * shape for name in ("bytes", "wait_s", "send_s", "probe_s", "left_out")}
    found |= {name: value * shape for name, value in columns.items()} | {"compute_s": compute}
    first = {name: value[:1] for name, value in found.items()} | {"exchange": shape[:1], "minibatch": 10 * shape[:1]}
    return Account({name: np.concatenate([first[name], found[name]]).reshape(-1) for name in found})


def config(name="model_average", model=None, **options):
    return TrainConfig(model=model or ModelConfig(), strategy=StrategyConfig(name, **options), batch=256)


def costs(account, measured_on=FREE, **options):
    return Costs.of(config(**options), account, measured_on)


# lines and ledgers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10Gbit", 1.25e9),
        ("100Mbit", 12.5e6),
        ("100mbit", 12.5e6),
        ("1.25GB", 1.25e9),
        ("1.25 GB/s", 1.25e9),
        ("8bit", 1),
    ],
)
def test_bandwidths_are_bytes_a_second(text, value):
    assert bandwidth(text) == pytest.approx(value)


@pytest.mark.parametrize(("text", "value"), [("50us", 5e-5), ("50µs", 5e-5), ("0.2ms", 2e-4), ("0us", 0), ("1 s", 1)])
def test_latencies_are_seconds(text, value):
    assert latency(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["10", "10Gb", "fast", "-1Gbit", "0Gbit", "10GbitB", "", "1e9bit"])
def test_other_bandwidths_are_refused_with_an_example(text):
    with pytest.raises(UserError, match=r"--speed .*10Gbit"):
        bandwidth(text, "--speed")


@pytest.mark.parametrize("text", ["50", "50 m", "-1us", "soon", ""])
def test_other_latencies_are_refused_with_an_example(text):
    with pytest.raises(UserError, match=r"--latency .*50us"):
        latency(text)


HEAD = "epoch\texchange\trank\tminibatch\tbytes\twait_s\tsend_s\tcompute_s\tleft_out\tprobe_s"
ROWS = ["1\t1\t0\t10\t100\t0.5\t1\t6\t0\t0.5", "1\t1\t1\t10\t300\t1.5\t1\t5\t1\t0.5",
        "2\t1\t0\t4\t100\t2\t1\t3\t0\t0", "2\t1\t1\t4\t100\t0.5\t1\t4.5\t0\t0"]  # fmt: skip


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_an_account_adds_up_by_hand(tmp_path):
    account = Account.read(write(tmp_path / "ledger.tsv", HEAD, *ROWS))
    zero, one = account.ranks
    assert dataclasses.astuple(zero) == (0, 2, 9.0, 2.5, 2.0, 0.5, 200, 0)
    assert dataclasses.astuple(one) == (1, 2, 9.5, 2.0, 2.0, 0.5, 400, 1)
    assert (account.exchanges, account.workers, account.wall) == (2, 2, 14.0)
    assert account.speed_up == pytest.approx(18.5 / 14)
    assert account.efficiency == pytest.approx(18.5 / 28)
    assert account.communication == pytest.approx((4 + 4 * 0.5) / 28)  # at both exchanges the last waits 0.5 s
    assert account.stragglers == pytest.approx((1.0 + 1.5) / 28)
    assert account.probing == pytest.approx(1 / 28)
    parts = (account.efficiency, account.communication, account.stragglers, account.probing)
    assert sum(parts) == pytest.approx(1.0)  # both ranks have the same total here


def test_a_worker_that_leaves_does_not_spoil_the_account(tmp_path):
    account = Account.read(write(tmp_path / "ledger.tsv", HEAD, *ROWS[:3]))
    assert (account.workers, account.workers_at_last, account.wall) == (1.5, 1, 14.0)
    assert account.speed_up == pytest.approx(14 / 14)


def test_a_ledger_of_before_there_was_a_probe_is_read(tmp_path):
    shorter = [line.rpartition("\t")[0] for line in (HEAD, *ROWS)]
    assert Account.read(write(tmp_path / "ledger.tsv", *shorter)).probing == 0.0


@pytest.mark.parametrize(
    ("lines", "what"),
    [((HEAD, ROWS[0], ROWS[1].replace("300", "many")), r"ledger\.tsv:3: .*many"),
     ((HEAD, ROWS[0] + "\t1"), r"ledger\.tsv:2: 11 fields"),
     ((HEAD, ROWS[0], "1\t1"), r"ledger\.tsv:3: 2 fields"),
     (("a\tb",), r"ledger\.tsv:1: no column epoch"),
     ((), r"ledger\.tsv:1: no column epoch")],
)  # fmt: skip
def test_a_damaged_ledger_is_refused_by_line(tmp_path, lines, what):
    with pytest.raises(UserError, match=what):
        Account.read(write(tmp_path / "ledger.tsv", *lines))


def test_a_ledger_that_is_not_there_says_who_writes_it(tmp_path):
    with pytest.raises(UserError, match="checkpoint"):
        Account.read(tmp_path / "ledger.tsv")


def test_the_first_exchange_of_an_epoch_warms_up_and_others_count_minibatches_since_the_one_before():
    account = ledger([[1, 1], [2, 2]])
    later = {name: column.copy() for name, column in account.columns.items()}
    later["epoch"] += 1
    both = Account({name: np.concatenate([column, later[name]]) for name, column in account.columns.items()})
    both.columns["minibatch"][-2:] = 27  # the end of an epoch
    usual = both.regular()
    assert usual["exchange"][:, 0].tolist() == [2, 3, 2, 3]
    assert usual["minibatches"].tolist() == [[10, 10], [10, 10], [10, 10], [7, 7]]
    assert usual["compute_s"].tolist() == [[1, 1], [2, 2], [1, 1], [2, 2]]


def test_where_epochs_have_one_exchange_it_is_taken():
    usual = Account({name: column[:2] for name, column in ledger([[1, 3]]).columns.items()}).regular()
    assert usual["compute_s"].tolist() == [[1, 3]]
    assert usual["minibatches"].tolist() == [[10, 10]]


def test_a_ledger_without_exchanges_between_workers_is_refused():
    for account in (ledger(np.ones((3, 1))), Account({name: c[:0] for name, c in ledger([[1, 1]]).columns.items()})):
        with pytest.raises(UserError, match="2 --workers or more"):
            costs(account)


# the slowest of K


@pytest.mark.parametrize("draws", [1, 2, 3, 5])
@pytest.mark.parametrize("least", [0.0, 2.5, 9.0])
def test_the_expected_maximum_is_that_of_all_draws(draws, least):
    values = np.array([1.0, 2.0, 2.0, 4.5])
    every = [max(*drawn, least) for drawn in itertools.product(values, repeat=draws)]
    assert expected_max(values, draws, least) == pytest.approx(np.mean(every))


def test_variation_that_workers_share_makes_nobody_wait():
    shared = costs(ledger([[1, 1], [3, 3], [2, 2]], bytes=1000)).predict(16, FREE)
    assert (shared.speed_up, shared.stragglers) == (pytest.approx(16), pytest.approx(0))


def test_variation_that_workers_do_not_share_is_drawn_as_it_is():
    pairs = list(itertools.product([1.0, 2.0, 4.0], repeat=2))  # as often as independent draws would be
    found = costs(ledger(pairs, bytes=1000))
    assert found.draws == pytest.approx(np.sort(np.ravel(pairs)))
    for size in (2, 3, 4):
        slowest = np.mean([max(drawn) for drawn in itertools.product([1.0, 2.0, 4.0], repeat=size)])
        assert found.predict(size, FREE).period_s == pytest.approx(slowest)


def test_a_worker_that_is_always_slow_is_not_thought_slower_than_it_was():
    found = costs(ledger([[1.0, 2.0]] * 4, bytes=1000))
    assert found.predict(32, FREE).period_s == pytest.approx(2.0)


def test_half_shared_variation_predicts_what_was_seen():
    compute = np.array([[1.0, 1.2], [3.0, 2.6], [2.0, 2.1], [1.1, 1.0]])
    assert costs(ledger(compute, bytes=1000)).predict(2, FREE).period_s == pytest.approx(compute.max(1).mean())


def test_a_short_period_is_as_fast_as_a_long_one():
    short = ledger([[1.0, 1.3], [0.24, 0.2]], bytes=1000)
    short.columns["minibatch"][-2:] = 22
    found, whole = costs(short), costs(ledger([[1.0, 1.3], [1.2, 1.0]], bytes=1000))
    assert found.draws / found.draws.mean() == pytest.approx(whole.draws / whole.draws.mean())


def test_a_short_period_counts_as_many_frames_as_it_has():
    account = ledger([[1.0, 1.0], [0.2, 0.2]], bytes=1000)
    account.columns["minibatch"][-2:] = 22
    found = costs(account)
    assert found.predict(2, FREE).frames_per_s == pytest.approx(2 * 12 * 256 / 1.2)


# what must hold, whatever the strategy

STRATEGIES = [
    {"name": "gradient_average"},
    {"name": "model_average"},
    {"name": "model_average", "overlap": True},
    {"name": "model_average", "wire": "int8"},
    {"name": "model_average", "topology": "butterfly"},
    {"name": "block_momentum"},
    {"name": "elastic_average"},
    {"name": "ensemble"},
    {"name": "ensemble_compression", "ensemble_by": "ring", "pseudo_minibatches": 3},
    {"name": "independent_subnets", "servers": "partitioned"},
]


@pytest.mark.parametrize("options", STRATEGIES, ids=str)
def test_one_worker_is_one_worker(options):
    alone = costs(ledger([[1, 2], [2, 1.5], [3, 1]], bytes=1e6, wait_s=0.1, send_s=0.2), **options).predict(1, NETWORK)
    assert (alone.speed_up, alone.efficiency, alone.communication, alone.stragglers, alone.bytes) == (1, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "options", [o for o in STRATEGIES if o["name"][0] not in "ei" or o["name"] == "ensemble"], ids=str
)
def test_equal_workers_on_a_network_that_costs_nothing_are_as_fast_as_many(options):
    found = costs(ledger(np.full((4, 2), 1.5), bytes=1e6), **options)
    for size in (1, 2, 4, 16):
        assert found.predict(size, FREE).speed_up == pytest.approx(size)


@pytest.mark.parametrize("options", STRATEGIES, ids=str)
def test_the_shares_are_all_of_the_time(options):
    found = costs(ledger([[1, 2], [2, 1.5], [3, 1]], bytes=1e3, wait_s=0.1, send_s=0.2), **options)
    for size in (2, 8):
        p = found.predict(size, NETWORK)
        more = found.traffic.compute(size) / found.traffic.compute(1)
        computing = p.efficiency * (more if options["name"] in ("ensemble_compression", "independent_subnets") else 1)
        alone = 1 if options["name"] != "ensemble_compression" else found.traffic.compute(1)
        assert computing * alone + p.communication + p.stragglers == pytest.approx(1)


# by hand


def test_a_tiny_ledger_by_hand():
    """Two workers that take 0.8 or 1.2 s, one like the other; 0.1 s to meet, 0.2 s to send 1000 bytes."""
    pairs = [[0.8, 0.8], [0.8, 1.2], [1.2, 0.8], [1.2, 1.2]]
    found = costs(ledger(pairs, bytes=1000, wait_s=0.1, send_s=0.2))
    assert found.predict(2, FREE).period_s == pytest.approx(1.1 + 0.1 + 0.2)
    four = found.predict(4, Link(5000.0, 0.01))
    slowest = 1.2 - 0.4 / 2**4  # 0.8 if none of four draws is the larger
    agreeing = 3 * 0.1 + 2 * 6 * 0.01
    sending = 0.2 * 1.5 + 1500 / 5000 + 6 * 0.01
    assert four.period_s == pytest.approx(slowest + agreeing + sending)
    assert four.bytes == pytest.approx(1500)
    assert four.frames_per_s == pytest.approx(4 * 2560 / four.period_s)
    assert four.speed_up == pytest.approx(4 * 1.0 / four.period_s)
    assert four.communication == pytest.approx((agreeing + sending) / four.period_s)
    assert four.stragglers == pytest.approx((slowest - 1.0) / four.period_s)


@pytest.mark.parametrize("servers", ["central", "partitioned"])
def test_subnets_grow_narrower_by_hand(servers):
    """440-256-256-500 without biases, as in docs/ist.md; a worker computes in proportion to what it trains."""
    model = ModelConfig(layers=2, width=256, bias=False)

    def params(k):
        return (440 * 256 + 256 * 500) / k + 256 * 256 / k**2

    def times(k):
        return k - 1 if servers == "central" else 2 * (k - 1) / k

    account = ledger(np.ones((3, 2)), bytes=4 * params(2) * times(2))
    found = Costs.of(config("independent_subnets", model, servers=servers), account)
    eight = found.predict(8, FREE)
    assert eight.bytes == pytest.approx(4 * params(8) * times(8))
    assert eight.period_s == pytest.approx(params(8) / params(2))
    assert eight.speed_up == pytest.approx(8 * params(1) / params(8))


def test_pseudo_labels_are_passes_forward_by_hand():
    """In 3 of 10 minibatches half of the frames pass K models more, each a third of training on it."""
    found = costs(
        ledger(np.ones((3, 2)), bytes=700), name="ensemble_compression", pseudo_minibatches=3, pseudo_fraction=0.5
    )
    more = 0.3 * 0.5 / 3
    eight = found.predict(8, FREE)
    assert eight.period_s == pytest.approx((1 + 8 * more) / (1 + 2 * more))
    assert eight.speed_up == pytest.approx(8 / (1 + 8 * more))
    assert eight.bytes == pytest.approx(7 * 700)


def test_an_overlapped_exchange_is_told_one_exchange_later():
    """Of an epoch's three the first has sent nothing yet, and the last twice."""
    account = ledger(np.ones((2, 2)))
    account.columns["bytes"][:] = [0, 0, 900, 900, 1800, 1800]
    assert costs(account, overlap=True).predict(2, FREE).bytes == pytest.approx(900)


def test_simulated_workers_know_nothing_of_the_cost_of_sending():
    account = ledger(np.ones((3, 4)), bytes=1500, wait_s=7.0, send_s=5.0)
    simulated = dataclasses.replace(config(), backend="simulated")
    assert Costs.of(simulated, account).predict(4, FREE).period_s == pytest.approx(1.0)
    assert Costs.of(config(), account).predict(4, FREE).period_s == pytest.approx(13.0)


# event by event

COMPUTE = [0.7, 1.0, 1.9]
VECTOR = 240.0  # bytes


def exchange(ready, options, network):
    """When the workers that are ``ready`` have exchanged: they agree once or twice, go on together, and send."""
    size, name = len(ready), options["name"]
    line = (network.bandwidth, network.latency)
    for _ in range(1 if name in ("ensemble", "ensemble_compression", "independent_subnets") else 2):
        ready = [max(deliver(ready, ring(size, 0.0), *line))] * size
    return max(deliver(ready, messages(size, **options), *line))


def messages(size, name, wire="fp32", topology="all", ensemble_by="gather", servers="central", **others):
    if name == "ensemble":
        return iter([])
    if name == "ensemble_compression":
        return one_by_one(size, VECTOR) if ensemble_by == "ring" else swap(size, VECTOR)
    if name == "independent_subnets":
        part = subnet_bytes(size)
        if servers == "partitioned":
            return itertools.chain(swap(size, part / size), swap(size, part / size))
        return itertools.chain(to_first(size, part), from_first(size, part))
    if topology != "all":
        return iter([[(rank, rank ^ 1, VECTOR) for rank in range(size)]])
    if wire != "fp32":
        return itertools.chain(swap(size, VECTOR / size), swap(size, VECTOR / size))
    return ring(size, VECTOR)


TINY = ModelConfig(layers=2, width=4, bias=False)  # 16 weights between hidden layers


def subnet_bytes(size):
    return 4 * (44 / size + 16 / size**2)


EXCHANGES = [
    {"name": "gradient_average"},
    {"name": "block_momentum", "wire": "bf16"},
    {"name": "elastic_average", "wire": "int8"},
    {"name": "model_average"},
    {"name": "model_average", "topology": "butterfly"},
    {"name": "ensemble"},
    {"name": "ensemble_compression", "pseudo_weight": 0.0},
    {"name": "ensemble_compression", "pseudo_weight": 0.0, "ensemble_by": "ring", "pseudo_minibatches": 1},
    {"name": "independent_subnets"},
    {"name": "independent_subnets", "servers": "partitioned"},
]


def simulated_ledger(options, network):
    """Of two workers, whose computing takes all pairs of times."""
    pairs = list(itertools.product(COMPUTE, repeat=2))
    agreed = 2 * network.latency  # the meeting
    waits = [[max(pair) - own + agreed for own in pair] for pair in pairs]
    sends = [[exchange(list(pair), options, network) - max(pair) - agreed] * 2 for pair in pairs]
    sent = {"ensemble": 0.0, "independent_subnets": subnet_bytes(2)}.get(options["name"], VECTOR)
    return ledger(pairs, wait_s=np.array(waits), send_s=np.array(sends), bytes=sent)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("measured_on", [FREE, Link(300.0, 0.01)])
@pytest.mark.parametrize("options", EXCHANGES, ids=str)
def test_a_period_is_what_a_simulation_takes(options, measured_on, size):
    """Predicted from the ledger that a simulation of two workers leaves, on the same network or on another."""
    account = simulated_ledger(options, measured_on)
    found = Costs.of(config(model=TINY, **options), account, measured_on)
    scale = found.traffic.compute(size) / found.traffic.compute(2)
    every = itertools.product(np.array(COMPUTE) * scale, repeat=size)
    took = [exchange(list(drawn), options, NETWORK) for drawn in every]
    assert found.predict(size, NETWORK).period_s == pytest.approx(np.mean(took))


@pytest.mark.parametrize("vector", [300.0, 900.0, 3000.0])
def test_an_overlapped_epoch_is_what_a_simulation_takes(vector):
    """Three periods: what the first sends is waited for at the end of the second; the last one's, at once."""
    account = ledger(list(itertools.product(COMPUTE, repeat=2)), bytes=vector)
    found = dataclasses.replace(costs(account, overlap=True), periods=3)
    network = vector / NETWORK.bandwidth + 2 * NETWORK.latency
    agree = 2 * 2 * NETWORK.latency
    took = []
    for drawn in itertools.product(COMPUTE, repeat=6):
        now, arrives = 0.0, -math.inf
        for period in range(3):
            now = max(now + max(drawn[2 * period : 2 * period + 2]) + agree, arrives)
            arrives = now + network
        took.append(arrives / 3)
    assert found.predict(2, NETWORK).period_s == pytest.approx(np.mean(took))
