from dataclasses import replace

import numpy as np
import pytest

from asr_parallel.config import ScheduleConfig
from asr_parallel.log import UserError
from asr_parallel.parallel.clock import Clock, Every
from asr_parallel.schedule.newbob import PRESETS
from asr_parallel.schedule.schedule import Scores, make_schedule


def play(config, losses, lr=1.0, cut=None, accuracies=None):
    """Rates and verdicts of a run whose dev losses are ``losses``, the first from before epoch 1.

    After epoch ``cut`` the schedule is thrown away and another one restored from its state.
    """
    accuracies = accuracies or [0.0] * len(losses)
    schedule = make_schedule(config, lr)
    schedule.begin(Scores(losses[0], accuracies[0]))
    rates, verdicts, done = [], [], 0
    while True:
        epoch = next(schedule.epochs(done), None)
        if epoch is None:
            return rates, verdicts
        rates.append(schedule.rate(Clock(epoch, 10)))
        verdict = schedule.judge(epoch, Scores(losses[epoch], accuracies[epoch]))
        verdicts.append(("accept" if verdict.accept else "reject") + (" stop" if verdict.stop else ""))
        done = epoch
        if epoch == cut:
            state = schedule.state()
            schedule = make_schedule(config, lr)
            schedule.restore(state)


def rates_of(config, minibatches, lr=1.0, every="1 minibatch", batch=8):
    """The rate of every minibatch of a training."""
    schedule = make_schedule(config, lr, every, batch)
    clocks = [Clock(e, minibatches, m, m * batch) for e in schedule.epochs(0) for m in range(minibatches)]
    return [schedule.rate(clock) for clock in clocks]


PER_EPOCH = ScheduleConfig("exponential", epochs=3, final_ratio=0.01, unit="epoch")


def test_exponential_per_epoch_by_hand():
    rates, verdicts = play(PER_EPOCH, [9, 3, 4, 5], lr=0.32)
    assert rates == pytest.approx([0.32, 0.032, 0.0032])
    assert verdicts == ["accept", "accept", "accept stop"]
    rates, _ = play(replace(PER_EPOCH, epochs=15), [1.0] * 16, lr=0.32)
    assert rates[7] == pytest.approx(0.032)  # half of the way: 0.01^(7/14) = 0.1
    assert play(replace(PER_EPOCH, epochs=1), [1, 1], lr=0.5)[0] == [0.5]
    assert rates_of(PER_EPOCH, 4) == pytest.approx([1] * 4 + [0.1] * 4 + [0.01] * 4)


def test_exponential_per_exchange_by_nnet2s_rule():
    """lr_i exp(x log(lr_f / lr_i) / n) at exchange x of n, for minibatches that are counted one by one."""
    config = ScheduleConfig("exponential", epochs=2, final_ratio=0.02)
    rates, exchanges = rates_of(config, 24, lr=0.5, every="10 minibatches"), [10, 10, 4, 10, 10, 4]
    begun = [0, 10, 20, 24, 34, 44]
    expected = [0.5 * np.exp(x * np.log(0.01 / 0.5) / 48) for x, n in zip(begun, exchanges) for _ in range(n)]
    assert rates == pytest.approx(expected)
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == 6


def test_one_worker_and_many_see_the_same_curve_over_the_data():
    config = ScheduleConfig("exponential", epochs=3, final_ratio=0.01)
    one = rates_of(config, 120, every="10 minibatches")
    two = rates_of(config, 60, every="10 minibatches")
    assert one[::20] == two[::10]  # where two exchange, after the frames of 20 minibatches
    assert two == [rate for rate in two[::10] for _ in range(10)]


def test_a_rate_stays_from_exchange_to_exchange_when_these_are_counted_in_frames():
    config, every = ScheduleConfig("exponential", epochs=1), "100 frames"
    rates, clock, changes = rates_of(config, 50, every=every, batch=7), Clock(1, 50), []
    for _ in range(49):
        if Every.parse(every).due(clock.tick(7)):
            changes.append(clock.minibatch)
    assert [m for m in range(1, 50) if rates[m] != rates[m - 1]] == changes
    assert len(changes) == 3


def test_warm_up_goes_with_every_schedule():
    config = ScheduleConfig("constant", epochs=2, warmup="4 minibatches")
    assert rates_of(config, 3, lr=2.0) == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0, 2.0])
    assert rates_of(replace(config, warmup="32 frames"), 3, lr=2.0) == rates_of(config, 3, lr=2.0)  # minibatches of 8
    for name in ("exponential", "newbob", "list"):
        plain = ScheduleConfig(name, epochs=2, rates=[3.0, 1.0] if name == "list" else [])
        cold, warm = rates_of(plain, 6), rates_of(replace(plain, warmup="8 minibatches"), 6)
        assert warm == pytest.approx([rate * min(1, (m + 1) / 8) for m, rate in enumerate(cold)])


def test_listed_rates_and_the_last_one_stays():
    assert play(ScheduleConfig("list", epochs=4, rates=[0.5, 0.0, 0.25]), [1.0] * 5, lr=7)[0] == [0.5, 0, 0.25, 0.25]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (ScheduleConfig("list", epochs=3), "give --schedule.rates"),
        (ScheduleConfig("list", epochs=1, rates=[1.0, 0.5]), "2 rates for --schedule.epochs 1"),
        (ScheduleConfig("list", rates=[-1.0]), "from 0 up"),
        (ScheduleConfig("constant", rates=[1.0]), "constant does not read --schedule.rates"),
        (ScheduleConfig("exponential", latch="no"), "exponential does not read --schedule.latch"),
        (ScheduleConfig("exponential", final_ratio=0.0), "final_ratio"),
        (ScheduleConfig("constant", warmup="soon"), "--schedule.warmup 'soon': give"),
        (ScheduleConfig("constant", epochs=0), "--schedule.epochs 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(config, text):
    with pytest.raises(UserError, match=text):
        make_schedule(config, 1.0)


def test_constant():
    assert play(ScheduleConfig("constant", epochs=4), [1.0] * 5, lr=0.5)[0] == [0.5] * 4


# Kaldi's rule by hand. gains: 0.5, 0.3, 0.009 (begins to halve), 0.0058, worse (undone; gain 0 < 0.001: stop)
KALDI = ScheduleConfig("newbob", epochs=20)
KALDI_LOSSES = [4.0, 2.0, 1.4, 1.3874, 1.3794, 1.3900, 1.0]


def test_newbob_by_kaldis_rule():
    rates, verdicts = play(KALDI, KALDI_LOSSES)
    assert rates == [1, 1, 1, 0.5, 0.25]
    assert verdicts == ["accept", "accept", "accept", "accept", "reject stop"]


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_newbob_goes_on_exactly_from_each_phase(cut):
    assert play(KALDI, KALDI_LOSSES, cut=cut) == play(KALDI, KALDI_LOSSES)


def test_a_rejected_epoch_counts_as_no_gain_and_the_next_is_measured_against_the_best():
    # epoch 2 is worse than 2.0: undone, halving begins; epoch 3 gains 5 % on 2.0 and still halves (latched)
    rates, verdicts = play(ScheduleConfig("newbob", epochs=4), [4.0, 2.0, 2.5, 1.9, 1.8])
    assert rates == [1, 1, 0.5, 0.25]
    assert verdicts == ["accept", "reject", "accept", "accept stop"]
    # without a latch: epoch 3 gains 0.5 % on 2.0, though 20 % on what was undone, and halves
    rates, _ = play(ScheduleConfig("newbob", epochs=4, latch="no"), [4.0, 2.0, 2.5, 1.99, 1.8])
    assert rates == [1, 1, 0.5, 0.25]
    schedule = make_schedule(KALDI, 1.0)
    schedule.begin(Scores(2.0, 0))
    assert schedule.judge(1, Scores(2.5, 0)).note == "gain 0.0000, halve"


def test_without_latch_only_poor_epochs_halve():
    config = ScheduleConfig("newbob", epochs=5, latch="no")
    rates, _ = play(config, [4.0, 2.0, 1.99, 1.5, 1.49, 1.2])
    assert rates == [1, 1, 0.5, 0.5, 0.25]


def test_without_reject_a_worse_epoch_is_kept_and_measured_against():
    config = ScheduleConfig("newbob", epochs=3, reject="no")
    _, verdicts = play(config, [4.0, 2.0, 2.5, 2.4])
    assert verdicts == ["accept", "accept", "accept stop"]
    schedule = make_schedule(config, 1.0)
    schedule.begin(Scores(4.0, 0))
    schedule.judge(1, Scores(2.0, 0))
    schedule.judge(2, Scores(2.5, 0))
    assert schedule.state()["best"] == -2.5


def test_the_first_epochs_are_free():
    rates, verdicts = play(ScheduleConfig("newbob", epochs=4, keep_lr=2), [1.0, 2.0, 2.1, 2.1, 2.0])
    assert verdicts == ["accept", "accept", "reject", "accept stop"]
    assert rates == [1, 1, 1, 0.5]


def test_newbob_of_the_papers_text_on_accuracy():
    # absolute: halve below a gain of 0.5 %, stop below 0.1 %
    config = ScheduleConfig("newbob", 20, preset="su2015")
    accuracies = [0.0, 0.40, 0.45, 0.454, 0.457, 0.4575, 0.9]
    rates, verdicts = play(config, [0.0] * 7, accuracies=accuracies)
    assert rates == [1, 1, 1, 0.5, 0.25]
    assert verdicts == ["accept"] * 4 + ["accept stop"]


def test_a_resumed_newbob_may_be_given_another_rate():
    schedule = make_schedule(KALDI, 1.0)
    schedule.begin(Scores(2.0, 0))
    schedule.judge(1, Scores(1.99, 0))
    other = make_schedule(KALDI, 0.6)
    other.restore(schedule.state())
    assert other.rate(Clock(2, 1)) == pytest.approx(0.3)


def test_newbob_must_know_where_it_began():
    with pytest.raises(ValueError, match="begin"):
        make_schedule(KALDI, 1.0).judge(1, Scores(1.0, 0.5))


# Presets against what the tools do, written from their sources: (losses, accuracies, options) -> rates of the epochs
# that run, and the losses that gains are measured against.


def kaldi(losses, accuracies, keep_lr_iters=0, min_iters=0, start=0.01, end=0.001):
    """steps/nnet/train_scheduler.sh."""
    loss, rate, halving, rates, kept = losses[0], 1.0, False, [], []
    for iteration, new in enumerate(losses[1:], 1):
        rates.append(rate)
        before = loss
        if new < loss or iteration <= keep_lr_iters or iteration <= min_iters:
            loss = new
        kept.append(loss)
        if iteration <= keep_lr_iters:
            continue
        improvement = (before - loss) / before
        if halving and improvement < end:
            if iteration <= min_iters:
                continue
            break
        if improvement < start:
            halving = True
        if halving:
            rate *= 0.5
    return rates, kept


def su2015(losses, accuracies):
    """Halve from the first epoch on that gains less than 0.5 % accuracy, end when it is less than 0.1 %."""
    rates, rate, best, ramping = [], 1.0, accuracies[0], False
    for accuracy in accuracies[1:]:
        rates.append(rate)
        gain = max(accuracy - best, 0.0)
        best = max(accuracy, best)
        if ramping and gain < 0.001:
            break
        ramping |= gain < 0.005
        rate /= 2 if ramping else 1
    return rates, None


def speechbrain(losses, accuracies, patient=0):
    """NewBobScheduler, called with the loss of each epoch."""
    rates, rate, left, seen = [], 1.0, patient, []
    for loss in losses[1:]:
        rates.append(rate)
        if seen and (seen[-1] - loss) / seen[-1] < 0.0025:
            if left == 0:
                rate, left = rate * 0.5, patient
            else:
                left -= 1
        seen.append(loss)
    return rates, seen


def returnn(losses, accuracies):
    """NewbobRelative: the relative error of the two latest epochs, divided by the newer, against -0.01."""
    errors, rates = dict(enumerate(losses)), {1: 1.0, 2: 1.0}
    for epoch in range(3, len(losses)):
        error = (errors[epoch - 1] - errors[epoch - 2]) / abs(errors[epoch - 1])
        rates[epoch] = rates[epoch - 1] * (0.5 if error > -0.01 else 1.0)
    return [rates[epoch] for epoch in range(1, len(losses))], losses[1:]


TOOLS = [
    (kaldi, {}, {}),
    (kaldi, {"keep_lr": 3}, {"keep_lr_iters": 3}),
    (kaldi, {"min_epochs": 6}, {"min_iters": 6}),
    (kaldi, {"stop": 0.0001}, {"end": 0.0001}),  # the script of Su & Chen
    (su2015, {}, {}),
    (speechbrain, {}, {}),
    (speechbrain, {"patience": 2}, {"patient": 2}),
    (returnn, {}, {}),
]


@pytest.mark.parametrize(("tool", "options", "its"), TOOLS)
def test_presets_do_what_their_tools_do(tool, options, its):
    random, lengths = np.random.default_rng(7), set()
    for _ in range(200):
        falls = random.normal(0.01, 0.02, 12) * random.choice([0.1, 1.0, 3.0], 12)
        losses = (4 * np.cumprod(1 - np.concatenate([[0], falls]))).tolist()
        accuracies = np.cumsum(np.concatenate([[0.2], falls / 3])).tolist()
        rates, kept = tool(losses, accuracies, **its)
        config = ScheduleConfig("newbob", epochs=12, preset=tool.__name__, **options)
        ours, verdicts = play(config, losses, accuracies=accuracies)
        assert ours == rates
        if kept:
            accepted = [verdict.startswith("accept") for verdict in verdicts]
            assert accepted == [loss == k for loss, k in zip(losses[1:], kept)]
        lengths.add((len(rates), rates[-1]))
    assert len(lengths) > 3  # the sequences differ enough to tell rules apart


def test_presets_differ_and_what_is_given_wins():
    assert len(set(PRESETS.values())) == 4
    config = ScheduleConfig("newbob", preset="returnn", factor=0.7, reject="yes")
    rule = make_schedule(config, 1.0).rule
    assert rule == replace(PRESETS["returnn"], factor=0.7, reject="yes")


def test_patience_goes_on_after_a_cut():
    config = ScheduleConfig("newbob", epochs=6, preset="speechbrain", patience=2)
    losses = [4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    assert play(config, losses)[0] == [1, 1, 1, 1, 0.5, 0.5]
    for cut in range(1, 6):
        assert play(config, losses, cut=cut) == play(config, losses)
