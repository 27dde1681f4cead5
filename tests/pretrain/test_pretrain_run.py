"""The verb ``pretrain`` on a toy corpus: what it leaves, averaging on real workers, being killed and going on."""

import itertools
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from forked import CONTEXT, together
from test_mpi import mpirun, needs_mpi

from asr_parallel import cli, stages
from asr_parallel.config import PretrainConfig
from asr_parallel.data.cmvn import Cmvn
from asr_parallel.data.feature_set import cmvn_path
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError
from asr_parallel.parallel.comm import SoloComm
from asr_parallel.parallel.launch import STOPPED
from asr_parallel.parallel.place import Place
from asr_parallel.pretrain.dbn import load_dbn
from asr_parallel.pretrain.rbm import ContrastiveDivergence, Rbm, RbmOptions
from asr_parallel.pretrain.run import open_frames, run, work
from asr_parallel.train.settings import plain


def rows(config):
    header, *lines = [line.split("\t") for line in (config.out / "rbm.tsv").read_text().splitlines()]
    return [{k: v for k, v in zip(header, line) if k != "seconds"} for line in lines]


def stacks(config):
    return {p.name: p.read_bytes() for p in sorted(config.out.glob("*.pt"))}


def at_step(monkeypatch, step, number):
    """Send this process signal ``number`` in the given minibatch (an epoch has about 60); give the list of steps."""
    seen, whole = [], ContrastiveDivergence.step

    def counted(self, v):
        seen.append(1)
        if len(seen) == step:
            os.kill(os.getpid(), number)
        return whole(self, v)

    monkeypatch.setattr(ContrastiveDivergence, "step", counted)
    return seen


def test_it_leaves_a_stack_a_table_and_a_summary(toy):
    config = toy(gaussian_lr=0.03)
    assert cli.run("pretrain", config) == 0
    assert all(path.exists() for path in config.outputs())
    assert [(r["layer"], r["epoch"]) for r in rows(config)] == [("0", "1"), ("0", "2"), ("1", "1"), ("2", "1")]
    assert float(rows(config)[1]["error"]) < 0.9 < float(rows(config)[0]["error"])
    assert all(np.isfinite(float(r["gap"])) for r in rows(config))
    summary = read_json(config.out / "pretrain.json")
    assert summary["trained_frames"] == 4 * open_frames(config, SoloComm())[0].num_batches * 20
    assert len(summary["layers"]) == 3
    assert summary["config"]["width"] == 8
    assert [tuple(w.shape) for w, _ in load_dbn(config.out).layers] == [(8, 12), (8, 8), (8, 8)]
    assert not stages.stale("pretrain", config)
    assert stages.stale("pretrain", replace(config, lr=0.3))


def test_options_come_from_the_command_line():
    config = cli.parse("pretrain", ["--layers", "2", "--momentum", "intended", "--cd_steps", "3"])
    assert config == PretrainConfig(layers=2, momentum="intended", cd_steps=3)


def average_by_hand(config, size=2):
    """The oracle: all workers in one process, their means taken with plain arithmetic; weights of each layer."""

    def seeded(*key):
        return torch.Generator().manual_seed(int(np.random.SeedSequence((0, *key)).generate_state(1)[0]))

    class Of(SoloComm):
        def __init__(self, rank):
            super().__init__()
            self.rank, self.size = rank, size

        def sum(self, values):
            return torch.full_like(values, int(values.max()))

    shards = [open_frames(config, Of(rank))[0].source for rank in range(size)]
    number, below = min(s.num_batches for s in shards), []
    for layer, (kind, lr, epochs) in enumerate([("gaussian", 0.01, 2), ("bernoulli", 0.4, 1)]):

        def inputs(shard, epoch, below=tuple(below)):
            for batch in itertools.islice(shard.epoch(epoch), number):
                yield up(below, batch.x)

        mean = torch.cat([x for s in shards for x in inputs(s, 0)]).mean(0)
        rbms = [Rbm(kind, len(mean), 8).initialise(seeded(layer, 0, 0), 0.1, mean) for _ in shards]
        options = RbmOptions(lr=size * lr)
        trainers = [ContrastiveDivergence(r, options, seeded(layer, 1, k), workers=size) for k, r in enumerate(rbms)]
        for epoch in range(epochs):
            for i, batches in enumerate(zip(*(inputs(s, epoch) for s in shards)), 1):
                for trainer, v in zip(trainers, batches):
                    trainer.step(v)
                if i % config.average_every == 0 or i == number:
                    common = sum(r.flat for r in rbms) / size
                    for r in rbms:
                        r.flat.copy_(common)
        below.append(rbms[0])
    return below


def up(stack, x):
    for rbm in stack:
        x = torch.sigmoid(x @ rbm.weight.T + rbm.hidden_bias)
    return x


def pretrain_as(place, config, stop_rank=-1, step=0):
    with pytest.MonkeyPatch.context() as patch:
        if place.rank == stop_rank:
            at_step(patch, step, signal.SIGTERM)
        return work(config, place)


def test_two_workers_are_what_averaging_says_and_a_stop_changes_nothing(toy):
    config, cut = toy(workers=2, layers=2), toy("cut", workers=2, layers=2)
    assert together(pretrain_as, config) == [0, 0]
    expected = average_by_hand(config)
    for rbm, (weight, bias) in zip(expected, load_dbn(config.out).layers, strict=True):
        torch.testing.assert_close(weight, rbm.weight, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(bias, rbm.hidden_bias, rtol=1e-4, atol=1e-5)
    steps = sum(int(r["frames"]) for r in rows(config) if r["epoch"] == "2") // 40
    assert together(pretrain_as, cut, 1, steps + 10) == [STOPPED, STOPPED]  # within layer 1
    assert list(stacks(cut)) == ["rbm_0.pt"]
    assert together(pretrain_as, cut) == [0, 0]
    assert stacks(cut) == stacks(config)
    assert rows(cut) == rows(config)


@needs_mpi
def test_under_mpirun_it_gives_the_bits_of_gloo(toy):
    gloo, mpi = toy(workers=2, layers=2), toy("mpi", workers=2, layers=2, backend="mpi")
    assert together(pretrain_as, gloo) == [0, 0]
    write_json(mpi.out / "config.json", plain(mpi))
    ended = mpirun(2, "-m", "asr_parallel.pretrain", mpi.out / "config.json")
    assert ended.returncode == 0, ended.stdout
    assert "2 workers of mp" in ended.stdout
    assert stacks(mpi) == stacks(gloo)


def killed(config, step):
    with pytest.MonkeyPatch.context() as patch:
        at_step(patch, step, signal.SIGKILL)
        work(config, Place())


def test_killed_within_a_layer_it_goes_on_to_the_same_files(toy, monkeypatch):
    whole, cut = toy(), toy("cut")
    assert run(whole) == 0
    epoch = open_frames(whole, SoloComm())[0].num_batches
    child = CONTEXT.Process(target=killed, args=(cut, 2 * epoch + 30))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert list(stacks(cut)) == ["rbm_0.pt"]
    steps = at_step(monkeypatch, -1, 0)
    assert run(cut) == 0
    assert len(steps) == 2 * epoch  # layers 1 and 2
    assert stacks(cut) == stacks(whole)
    assert rows(cut) == rows(whole)


def test_asked_to_stop_it_keeps_finished_layers(toy, monkeypatch):
    config = toy(layers=2)
    epoch = open_frames(config, SoloComm())[0].num_batches
    with monkeypatch.context() as patch:
        steps = at_step(patch, 2 * epoch + 5, signal.SIGTERM)
        assert run(config) == STOPPED
    assert len(steps) == 2 * epoch + 5
    with pytest.raises(UserError, match=r"rbm_0.pt was made with other options or data \(width: 8 -> 9\).*--force"):
        run(replace(config, width=9))
    assert run(replace(config, width=9, force=True)) == 0
    assert len(load_dbn(config.out).layers[0][1]) == 9


def test_a_finished_stack_grows_or_is_replaced(toy, monkeypatch):
    config = toy(layers=1)
    run(config)
    first = stacks(config)["rbm_0.pt"]
    steps = at_step(monkeypatch, -1, 0)
    run(replace(config, layers=2))
    assert len(steps) == open_frames(config, SoloComm())[0].num_batches
    assert stacks(config)["rbm_0.pt"] == first
    run(replace(config, layers=2, gaussian_lr=0.005))
    assert stacks(config)["rbm_0.pt"] != first
    run(replace(config, gaussian_lr=0.005))
    assert len(load_dbn(config.out).layers) == 1
    assert {r["layer"] for r in rows(config)} == {"0"}


def test_features_that_are_not_normalised_are_refused(toy, toy_root, tmp_path):
    path = cmvn_path(toy_root / "data", "train", "fbank")
    right = Cmvn.load(path)
    try:
        Cmvn(right.speakers, right.mean, right.std / 10).save(path)
        with pytest.raises(UserError, match=r"variance 100 .* not normalised.*run `features`"):
            run(toy())
    finally:
        right.save(path)
    assert not stacks(toy())


def test_an_epoch_may_be_a_part_of_the_frames(toy):
    config = toy(layers=1, epoch_frames=250, workers=1)
    run(config)
    assert [r["frames"] for r in rows(config)] == ["240", "480"]  # 12 minibatches of 20
    shard, _ = open_frames(config, SoloComm())
    first, second = (torch.cat([b.x for b in shard.epoch(e)]) for e in (0, 1))
    assert not torch.equal(first, second)
    assert open_frames(replace(config, epoch_frames=10**9), SoloComm())[0].num_batches == shard.source.num_batches


def test_a_batch_may_not_exceed_the_frames(toy):
    with pytest.raises(UserError, match="smaller --batch"):
        run(toy(batch=100_000))


def test_the_launcher_starts_both(toy, capsys):
    config = toy(workers=2, layers=1)
    assert run(config) == 0
    assert "RBM 0 of 1, epoch 2" in capsys.readouterr().err
    assert (config.out / "log" / "rank_1.log").exists()
    assert (config.out / "dbn.pt").exists()
