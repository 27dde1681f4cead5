import pytest

from asr_parallel.config import ScheduleConfig
from asr_parallel.parallel.clock import Clock
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


def test_exponential_by_hand():
    rates, verdicts = play(ScheduleConfig("exponential", epochs=3, final_ratio=0.01), [9, 3, 4, 5], lr=0.32)
    assert rates == pytest.approx([0.32, 0.032, 0.0032])
    assert verdicts == ["accept", "accept", "accept stop"]
    rates, _ = play(ScheduleConfig("exponential", epochs=15, final_ratio=0.01), [1.0] * 16, lr=0.32)
    assert rates[7] == pytest.approx(0.032)  # half of the way: 0.01^(7/14) = 0.1
    assert play(ScheduleConfig("exponential", epochs=1), [1, 1], lr=0.5)[0] == [0.5]


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


def test_without_latch_only_poor_epochs_halve():
    config = ScheduleConfig("newbob", epochs=5, latch=False)
    rates, _ = play(config, [4.0, 2.0, 1.99, 1.5, 1.49, 1.2])
    assert rates == [1, 1, 0.5, 0.5, 0.25]


def test_without_reject_a_worse_epoch_is_kept_and_measured_against():
    config = ScheduleConfig("newbob", epochs=3, reject=False)
    _, verdicts = play(config, [4.0, 2.0, 2.5, 2.4])
    assert verdicts == ["accept", "accept", "accept stop"]
    schedule = make_schedule(config, 1.0)
    schedule.begin(Scores(4.0, 0))
    schedule.judge(1, Scores(2.0, 0))
    schedule.judge(2, Scores(2.5, 0))
    assert schedule.state()["best"] == -2.5


def test_the_first_epochs_are_free():
    rates, verdicts = play(ScheduleConfig("newbob", epochs=4, min_epochs=2), [1.0, 2.0, 2.1, 2.1, 2.0])
    assert verdicts == ["accept", "accept", "reject", "accept stop"]
    assert rates == [1, 1, 1, 0.5]


def test_newbob_of_the_papers_text_on_accuracy():
    # absolute: halve below a gain of 0.5 %, stop below 0.1 %
    config = ScheduleConfig("newbob", 20, metric="accuracy", relative=False, start_halving=0.005, stop=0.001)
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
