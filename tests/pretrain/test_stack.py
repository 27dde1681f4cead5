"""The greedy stack: what it learns, how it resumes, what it refuses, how it becomes a network."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from asr_parallel.log import UserError
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.pretrain.rbm import RbmOptions
from asr_parallel.pretrain.stack import StackOptions, Trainer, propagate


@dataclass
class Batch:
    x: Tensor
    y: Tensor


@dataclass
class ToyFrames:
    """Two clusters in 8 dimensions, mean 0, variance 1."""

    batches: int = 60
    scale: float = 1.0
    offset: float = 0.0
    dim: int = 8
    count: int = 0  # of batches given

    @property
    def num_batches(self) -> int:
        return self.batches

    def epoch(self, epoch: int) -> Iterator[Batch]:
        for i in range(self.batches):
            self.count += 1
            x = draw(1000 * epoch + i, 100, self.dim)
            yield Batch(self.scale * x + self.offset, torch.zeros(100, dtype=torch.int64))


def draw(seed: int, n: int, dim: int = 8) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    sign = 2.0 * torch.randint(0, 2, (n, 1), generator=g) - 1
    return 0.9 * sign * torch.tensor([1.0, -1.0]).repeat(dim // 2) + 0.43589 * torch.randn(n, dim, generator=g)


SMALL = StackOptions(
    layers=3, width=16, gaussian=RbmOptions(lr=0.01, epochs=2), bernoulli=RbmOptions(lr=0.4), statistics_frames=1000
)


def table(out: Path) -> list[dict[str, str]]:
    with open(out / "rbm.tsv") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def test_learns_and_logs(tmp_path: Path) -> None:
    stack = Trainer(ToyFrames(), SMALL, tmp_path, held_out=draw(77, 500)).train()
    assert [(r.visible, r.num_visible, r.num_hidden) for r in stack] == [
        ("gaussian", 8, 16), ("bernoulli", 16, 16), ("bernoulli", 16, 16),
    ]  # fmt: skip
    rows = table(tmp_path)
    assert [(r["layer"], r["epoch"], r["frames"]) for r in rows] == [
        ("0", "1", "6000"), ("0", "2", "12000"), ("1", "1", "6000"), ("2", "1", "6000"),
    ]  # fmt: skip
    assert float(rows[1]["error"]) < float(rows[0]["error"]) < 1.0
    assert float(rows[1]["error"]) < 0.5, "the clusters are found: only the noise (variance 0.19) should be left"
    assert all(abs(float(r["gap"])) < 1.0 for r in rows)
    x = draw(5, 400)
    down = propagate(stack, x)
    for rbm in reversed(stack):
        down = rbm.visible_means(down)
    assert F.mse_loss(down, x) < 0.6, "up and down through the whole stack still finds the clusters"


def test_upper_visible_biases_begin_at_the_mean_activation(tmp_path: Path) -> None:
    frozen = replace(SMALL, layers=2, bernoulli=RbmOptions(lr=0.0))
    below, above = Trainer(ToyFrames(), frozen, tmp_path).train()
    x = torch.cat([b.x for b in ToyFrames(10).epoch(0)])
    torch.testing.assert_close(torch.sigmoid(above.visible_bias), below.hidden_probs(x).mean(0), rtol=1e-3, atol=2e-4)


def test_overfitting_shows_in_the_gap(tmp_path: Path) -> None:
    """Ten frames seen again and again: their free energy falls below that of others."""

    class Few:
        num_batches = 100

        def epoch(self, epoch: int) -> Iterator[Batch]:
            x = draw(1, 10, 30)
            for _ in range(100):
                yield Batch(x, torch.zeros(10))

    options = replace(SMALL, layers=1, width=50, gaussian=RbmOptions(lr=0.02, epochs=3, reference_batch=10))
    Trainer(Few(), options, tmp_path, held_out=draw(9, 300, 30)).train()
    gaps = [float(r["gap"]) for r in table(tmp_path)]
    assert gaps[-1] > 1.0
    options = replace(options, gaussian=RbmOptions(lr=0.01, epochs=1))
    Trainer(ToyFrames(60, dim=30), options, tmp_path / "enough", held_out=draw(9, 300, 30)).train()
    assert abs(float(table(tmp_path / "enough")[-1]["gap"])) < 0.5


def test_resumes_by_layer_to_the_same_end(tmp_path: Path) -> None:
    whole = Trainer(ToyFrames(), SMALL, tmp_path / "whole").train()
    Trainer(ToyFrames(), replace(SMALL, layers=2), tmp_path / "parts").train()
    frames = ToyFrames()
    parts = Trainer(frames, SMALL, tmp_path / "parts").train()
    assert all(torch.equal(a.flat, b.flat) for a, b in zip(whole, parts))
    assert frames.count == 60 + 10, "one epoch of the third layer, and its statistics"
    assert len(table(tmp_path / "parts")) == 4
    again = ToyFrames()
    Trainer(again, SMALL, tmp_path / "parts").train()
    assert again.count == 0


def test_other_options_or_a_damaged_file_are_refused(tmp_path: Path) -> None:
    Trainer(ToyFrames(), replace(SMALL, layers=1), tmp_path).train()
    with pytest.raises(UserError, match=r"rbm_0.pt was made with other options or data .width: 16 -> 17"):
        Trainer(ToyFrames(), replace(SMALL, width=17), tmp_path).train()
    (tmp_path / "rbm_0.pt").write_bytes(b"PK half a file")
    with pytest.raises(UserError, match=r"rbm_0.pt is damaged"):
        Trainer(ToyFrames(), SMALL, tmp_path).train()


@pytest.mark.parametrize(
    ("scale", "offset", "said"), [(10.0, 0.0, r"variance \d\d"), (1.0, 3.0, "offset 8.9"), (0.01, 0.0, "1e-05|0.0001")]
)
def test_inputs_that_are_not_normalised_are_refused(scale: float, offset: float, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        Trainer(ToyFrames(scale=scale, offset=offset), SMALL, tmp_path).train()
    assert not list(tmp_path.iterdir())


def test_inputs_of_another_size_are_refused(tmp_path: Path) -> None:
    Trainer(ToyFrames(), replace(SMALL, layers=1), tmp_path).train()
    with pytest.raises(UserError, match="takes 8 values, got 10"):
        Trainer(ToyFrames(dim=10), SMALL, tmp_path).train()


def test_no_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no frame"):
        Trainer(ToyFrames(batches=0), SMALL, tmp_path).train()


class Pair(SoloComm):
    """One of two workers, of whom the other is alike; notes what is averaged."""

    def __init__(self, rank: int = 0):
        super().__init__()
        self.rank, self.size = rank, 2
        self.averaged: list[int] = []

    def sum(self, values: Tensor) -> Tensor:
        return 2 * values

    def all_reduce_mean(self, flat: Tensor) -> int:
        self.averaged.append(flat.numel())
        return 0


def test_average_is_taken_as_often_everywhere(tmp_path: Path) -> None:
    comm = Pair(rank=1)
    Trainer(ToyFrames(25), replace(SMALL, layers=1, average_every=10), tmp_path, comm=comm).train()
    # of each epoch after minibatches 10, 20 and the last
    assert comm.averaged == [8 * 16 + 8 + 16] * 6
    assert not list(tmp_path.iterdir()), "only rank 0 writes"


def test_average_acts_on_the_parameters(tmp_path: Path) -> None:
    class Quarter(Pair):
        def all_reduce_mean(self, flat: Tensor) -> int:
            flat.fill_(0.25)
            return 0

    stack = Trainer(ToyFrames(5), replace(SMALL, layers=1), tmp_path, comm=Quarter()).train()
    assert (stack[0].flat == 0.25).all()


def test_workers_begin_alike_sample_differently_and_count_the_frames_of_all(tmp_path: Path) -> None:
    one = replace(SMALL, layers=1)
    still = replace(one, gaussian=RbmOptions(lr=0.0))
    frozen = [Trainer(ToyFrames(5), still, tmp_path / f"{r}", comm=Pair(r)).train()[0] for r in (0, 1)]
    assert torch.equal(frozen[0].flat, frozen[1].flat)
    trained = [Trainer(ToyFrames(5), one, tmp_path / f"t{r}", comm=Pair(r)).train()[0] for r in (0, 1)]
    assert not torch.equal(trained[0].flat, trained[1].flat)
    assert table(tmp_path / "t0")[-1]["frames"] == str(2 * 2 * 500)
    assert float(table(tmp_path / "t0")[-1]["lr"]) == 2 * 0.01 * 0.5


def test_layers_must_be_found_by_all_workers_or_none(tmp_path: Path) -> None:
    class Lonely(Pair):
        def sum(self, values: Tensor) -> Tensor:
            return values

    Trainer(ToyFrames(5), replace(SMALL, layers=1), tmp_path, comm=Pair()).train()
    with pytest.raises(UserError, match=r"only 1 of 2 workers find .*rbm_0.pt"):
        Trainer(ToyFrames(5), replace(SMALL, layers=1), tmp_path, comm=Lonely()).train()


def test_saturation_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="RBM 1 of 2 diverges"):
        Trainer(ToyFrames(), replace(SMALL, layers=2, bernoulli=RbmOptions(lr=1000.0)), tmp_path).train()
    assert (tmp_path / "rbm_0.pt").exists()
    assert not (tmp_path / "rbm_1.pt").exists()


def test_dead_units_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A rate so high that the hidden units of the second RBM stop to vary."""
    fast = replace(SMALL, layers=2, bernoulli=RbmOptions(lr=4.0, epochs=2))
    below, above = Trainer(ToyFrames(), fast, tmp_path).train()
    still = above.hidden_probs(below.hidden_probs(draw(3, 1000))).std(0) < 0.01
    dead = float(table(tmp_path)[-1]["dead"])
    assert dead == pytest.approx(float(still.float().mean()), abs=0.07)
    assert dead > 0.2
    assert "of its hidden units hardly vary; lower its learning rate" in caplog.text
    assert float(table(tmp_path)[0]["dead"]) == 0.0
