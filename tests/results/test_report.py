"""The page of an experiment whose figures are known; how it looks is seen in test_report_in_browser.py."""

import base64
import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import report_world as world
import soundfile

from asr_parallel import cli
from asr_parallel.config import ReportConfig
from asr_parallel.files import write_json, write_text
from asr_parallel.log import UserError
from asr_parallel.results.report import origin, sets
from asr_parallel.results.report.chart import BOTTOM, LEFT, MOST, RIGHT, TOP, Axis, Chart, Line
from asr_parallel.results.report.run import run
from asr_parallel.score.wer import SetScore, UttScore, count


class Page(HTMLParser):
    """Tags with their attributes and texts of a page, as a parser that knows nothing of ours sees them."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.texts, self.html = [], [], path.read_text(encoding="utf-8")
        self.feed(self.html)
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def values(self, tag, attribute):
        return [attrs[attribute] for name, attrs in self.tags if name == tag and attribute in attrs]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return world.make(tmp_path_factory.mktemp("report"))


def report(exp, **options):
    """The page of an experiment, beside the experiment so that others stay as they are."""
    out = exp.parent.parent / "page.html"
    run(ReportConfig(exp=exp, out=out, **options))
    return Page(out)


def test_figures_are_those_of_the_score(network):
    page = report(network)
    score = json.loads((network / "decode_dev" / "score.json").read_text())
    assert (score["errors"], score["words"]) == (10, 16)
    low, high = score["ci95"]
    assert page.text.count(f"62.50 {low:.1f}–{high:.1f} utterances 12.5 43.8 6.2 60.0 %") == 2
    assert "WER test<u> 62.5 %" in page.text
    assert "bob<i>' 83.3 – 0 5 0 6 2" in page.text  # two utterances draw no interval
    assert page.text.index("Set test<u> Speakers") < page.text.index("Set dev , which tuning has seen")
    assert [attrs.get("open", "closed") for tag, attrs in page.tags if tag == "details"][1:3] == [None, "closed"]


def test_the_worst_utterances_come_first(network):
    page = report(network, worst=2)
    heads = re.findall(r"(\S+) (\d+) errors in (\d+) words: (\d) S, (\d) D, (\d) I", page.text)
    assert heads[:2] == [("bob<i>'-1", "5", "5", "0", "5", "0"), ("ann-3&amp;", "3", "4", "1", "2", "0")]
    assert heads[2:] == heads[:2]
    assert page.text.count("it has no hypothesis") == 2
    assert "Those with the most errors, 2 of 3 with any" in page.text
    shorter = [UttScore(utt, "s", [("A", None)] * n, count([("A", None)] * n)) for utt, n in (("b", 1), ("a", 2))]
    longer = UttScore("c", "s", [("A", "A"), ("A", None)], count([("A", "A"), ("A", None)]))
    assert [u.utt for u in sets.worst_of(SetScore([*shorter, longer], []), 9)] == ["a", "b", "c"]


def test_every_pair_of_words_says_what_became_of_it(network):
    page = report(network)
    items = re.findall(r'<li class="(\w)">\s*(.*?)\s*</li>', page.html, re.DOTALL)
    assert len(items) == 2 * (5 + 4 + 5)
    assert [kind for kind, _ in items[:14]] == [*"DDDDD", *"SCDD", *"CCSCI"]
    letters = [re.search(r'<b class="kind" dir="ltr">(\w)</b>', item) for _, item in items]
    assert [(kind, mark and mark[1]) for (kind, _), mark in zip(items, letters)] == [
        (kind, None if kind == "C" else kind) for kind, _ in items
    ]


def test_confusions_are_counted_by_kind(network):
    page = report(network)
    assert "Substitutions: 2 in 2 kinds times reference hypothesis 1 C X 1" in page.text
    assert "Deletions: 7 in 7 kinds times reference 1 A 1 B" in page.text
    assert "Insertions: 1 in 1 kinds times hypothesis 1 E" in page.text


def test_names_and_words_are_text_whatever_they_hold(network):
    page = report(network)
    for text in (world.NAME, world.SCRIPT, world.IMAGE, world.HEBREW, world.TURNED, "&lt;", "{{7*7}}", *world.SPEAKERS,
                 "ann-3&amp;", "exp/a<b>", "some<host>", "Some <CPU>"):  # fmt: skip
        assert text in page.text
    assert not {tag for tag, _ in page.tags} & {"script", "img", "i", "u", "iframe", "object"}
    assert all(attrs["src"].startswith("data:audio/mpeg;base64,") for tag, attrs in page.tags if "src" in attrs)
    assert set(page.values("link", "href")) == {"data:,"}
    assert all(link.startswith("#") for link in page.values("a", "href"))
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_sounds_are_those_of_the_utterances(network):
    page = report(network)
    sounds = [base64.b64decode(uri.partition(",")[2]) for uri in page.values("audio", "src")]
    assert len(sounds) == 6
    for utt, sound in zip(("bob<i>'-1", "ann-3&amp;", "ann-1"), sounds):
        samples, rate = soundfile.read(io.BytesIO(sound))
        assert rate == world.RATE
        assert len(samples) / rate == pytest.approx(world.seconds_of(utt), abs=0.02)
        spectrum = np.abs(np.fft.rfft(samples))
        loudest = np.fft.rfftfreq(len(samples), 1 / rate)[spectrum.argmax()]
        assert loudest == pytest.approx(300 + 200 * list(world.TALK).index(utt), abs=3)


def test_a_page_holds_no_more_sound_than_it_may(network):
    every = sorted(map(len, report(network).values("audio", "src")))
    assert len(every) > 2
    limit = every[-1] + every[-2]  # for any two of them, and not for all
    page = report(network, audio_mb=limit / 1e6)
    assert 0 < sum(map(len, page.values("audio", "src"))) <= limit < sum(every)
    assert "the page has no room for its audio: --audio_mb gives more" in page.text
    page = report(network, audio_mb=0.0)
    assert page.values("audio", "src") == []
    assert "No audio" not in page.text  # none was asked for


def test_sound_that_cannot_be_had_says_why(network, tmp_path):
    """Nothing that a manifest names is run."""
    exp, data, ran = world.make(tmp_path), tmp_path / "data", tmp_path / "ran"
    page = report(network, data=tmp_path)
    assert f"No audio of test<u>, dev: {tmp_path} holds no manifests of it." in page.text
    (data / "dev" / "all.flac").unlink()
    world.write_as_commands(data, "test<u>", f"touch {ran}")
    page = report(exp)
    assert page.text.count("it is the output of a command, which is not run for a page") == 3
    assert page.text.count("its audio cannot be had: Error opening") == 3
    assert not ran.exists()
    with pytest.raises(UserError, match="no such directory"):
        report(exp, data=tmp_path / "nowhere")


def test_curves_and_exchanges(network):
    page = report(network)
    charts = page.values("svg", "aria-label")
    assert [label.split(",")[0] for label in charts] == [
        "Tuning on dev", "Loss", "Frames right", "Learning rate", "Probe at exchanges", "Spread of the models",
    ]  # fmt: skip
    assert "dev, after the epoch: from 2.5 to 2, least 2, greatest 2.5" in charts[1]
    assert "dev, of an epoch that was undone: from 2.2 to 2.2" in charts[1]
    assert "train, as it went: from 10 to 30" in charts[2]
    assert "mean of the workers' models: from 2.5 to 2.5" in charts[4]
    assert "penalty 0.5: from 59 to 56.25" in charts[0]
    assert "chosen: from 62.5 to 62.5" in charts[0]
    assert "Speed-up over one worker that computes as fast 1.43, efficiency 71.4 %" in page.text
    assert "0 6.00 0.60 1.20 0.60 6 18.0 0" in page.text
    widths = [float(w) for w in re.findall(r'n0" y="20%" height="60%" x="0.0%" width="([\d.]+)%"', page.html)]
    assert widths == [pytest.approx(100 * 6 / 8.4)] * 2


def test_runs_are_those_of_the_logs(network):
    page = report(network)
    assert "train 2026-01-02 03:04:05 2:25 well abc123 some<host> 2 asr-parallel train --out 'exp/a<b>'" in page.text
    assert "train 2026-01-03 00:00:00 – not yet, or killed" in page.text
    assert "python 3.11.7, torch 2.14.1" in page.text
    assert "Trained on Some <CPU>, 2 cores" in page.text


def test_options_tell_what_is_not_the_default(network):
    page = report(network)
    (train,) = origin.options(network)
    assert train.values["strategy.name"] == "model_average"
    assert train.usual.keys() == {"data", "out", "workers", "threads", "strategy.name"}
    assert f"train : {len(train.values)} options, 5 not the default" in page.text
    assert "strategy.name model_average single" in page.text


# what an experiment lacks


def test_a_gmm_has_no_curves(tmp_path):
    exp = tmp_path / "exp" / "tri"
    world.add_scores(exp, "dev", "dev")
    (exp / "gmm.npz").touch()
    write_json(tmp_path / "exp" / "align.json", {name: {"seconds": 7.0} for name in ("mono", "mono_ali", "tri")})
    write_json(exp.parent / ".stamps" / "align-1.json", {"options": {"last": "mono"}})
    write_text(exp.parent / "log" / "align.log", "# 2026-01-01 00:00:00 asr-parallel align\n# code 1, 0:02\n")
    page = report(exp)
    assert (
        f"No curves: this is no network. One learns the frame labels of a GMM by asr-parallel train --ali {exp}"
        in page.text
    )
    assert "Built in 0:21" in page.text
    assert "No audio of dev" in page.text
    assert "align 2026-01-01 00:00:00 0:02 with code 1" in page.text
    assert "align : 1 options, 1 not the default" in page.text


def test_a_training_under_way_has_what_there_is(tmp_path):
    exp = tmp_path / "exp" / "dnn"
    world.add_training(exp, tmp_path, workers=1, finished=False)
    page = report(exp)
    assert "Nothing has been decoded, so that there are no rates. asr-parallel decode --model" in page.text
    assert f"The training is not finished; it goes on with {exp}/run.sh" in page.text
    assert "No exchanges: one worker has nobody to meet." in page.text
    assert "Epochs 3 of" in page.text
    (exp / "decode_dev").mkdir()
    (exp / "decode_dev" / "lattices.npz").touch()
    assert f"Decoded but not scored: dev. asr-parallel score --model {exp}" in report(exp).text


def test_what_cannot_be_summed_up_is_told_and_the_rest_is_there(tmp_path):
    exp = world.make(tmp_path)
    write_json(exp / "config.json", {"option_of_later": 1})
    page = report(exp, data=tmp_path / "data")
    assert "No figures of workers and exchanges:" in page.text
    assert "is of another version" in page.text
    assert "62.50" in page.text


def test_files_of_different_runs_are_refused(tmp_path):
    exp = world.make(tmp_path)
    score = json.loads((exp / "decode_dev" / "score.json").read_text())
    write_json(exp / "decode_dev" / "score.json", score | {"errors": 9})
    with pytest.raises(UserError, match=r"different runs; run stage `score` again"):
        report(exp)


def test_what_is_no_experiment_is_refused(tmp_path):
    with pytest.raises(UserError, match="no experiment has been trained or scored"):
        report(tmp_path)
    write_text(tmp_path / "rbm.tsv", "layer\n")
    with pytest.raises(UserError, match="holds a pretraining: `asr-parallel info"):
        report(tmp_path)
    with pytest.raises(UserError, match="--worst"):
        report(tmp_path, worst=-1)


# the verb


def test_the_same_figures_give_the_same_bytes(network):
    assert report(network).html == report(network).html


def test_a_folder_of_experiments_gets_a_table(tmp_path, capsys):
    exp = world.make(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(exp.parent)])
    assert stop.value.code == 0
    assert (exp / "report.html").exists()
    page = Page(exp.parent / "report.html")
    assert page.values("a", "href") == ["dnn%3Cb%3E%26%222/report.html"]
    score = json.loads((exp / "decode_dev" / "score.json").read_text())
    low, high = score["ci95"]
    assert f"DNN, 2 workers {world.NAME} 62.5 ({low:.1f}–{high:.1f}) 50.0 % 0:30 900 24 × real time" in page.text
    assert "6 utterances, 6 with audio" in capsys.readouterr().err


# charts and speakers


def test_an_axis_is_a_straight_line_between_round_ticks():
    axis = Axis.over([0.0, 3.7], LEFT, RIGHT)
    assert axis.ticks == [0, 1, 2, 3, 4]
    assert axis.labels == [(50, "0"), (125, "1"), (200, "2"), (275, "3"), (350, "4")]
    assert axis.place(2.5) == LEFT + 2.5 / 4 * (RIGHT - LEFT)
    for value in (0.0, 5.0, -3.0, 1e-9):
        same = Axis.over([value, value], BOTTOM, TOP)
        assert TOP < same.place(value) < BOTTOM


def test_a_line_goes_through_its_points_and_leaves_out_what_is_no_number():
    chart = Chart("T", "x", "y", [Line("a", [(1, 0.0), (2, math.nan), (3, 4.0), (4, math.inf)]), Line("b", [])])
    (line,) = chart.shown
    assert line.points == [(1, 0.0), (3, 4.0)]
    across, up = chart.axes
    assert chart.path(line.points) == f"M{across.place(1):g},190 {across.place(3):g},10"
    assert (across.ticks[0], up.ticks[0], up.ticks[-1]) == (0, 0, 4)
    assert Chart("T", "x", "y", chart.lines, near=True).axes[0].ticks[0] == 1


def test_a_long_line_is_thinned_but_keeps_its_ends():
    points = [(float(i), float(i)) for i in range(10 * MOST + 7)]
    (line,) = Chart("T", "x", "y", [Line("a", points)]).shown
    assert MOST / 2 < len(line.points) <= MOST + 1
    assert (line.points[0], line.points[-1]) == (points[0], points[-1])


def test_speakers_have_intervals_of_their_own_utterances():
    """One speaker's utterances are all alike, so that every draw has the same rate; the other's draws are not."""
    alike = [UttScore(f"a-{i}", "a", [("A", None), ("B", "B")], count([("A", None), ("B", "B")])) for i in range(6)]
    mixed = [UttScore(f"b-{i}", "b", [("A", "A" if i else "B")], count([("A", "A" if i else "B")])) for i in range(6)]
    few = [UttScore("c-1", "c", [("A", "B")], count([("A", "B")]))]
    c, a, b = sets.speakers(SetScore([*alike, *mixed, *few], []))
    assert (c.name, c.interval) == ("c", None)
    assert (a.interval.low, a.interval.wer, a.interval.high) == (50, 50, 50)
    assert (b.interval.low, b.interval.high) == (0, 50)  # binomial, 6 draws of 1/6: 97.5 % is at 3
