import numpy as np
import pytest
import torch
from test_frames import LENGTHS, make_set, numbered

from asr_parallel.config import FramesConfig
from asr_parallel.data.frames import FrameSource
from asr_parallel.data.specaugment import SpecAugment
from asr_parallel.log import UserError

DIM, WINDOW = 20, 11


def masked(config: FramesConfig, index: np.ndarray, epoch: int = 0, seed: int = 0) -> np.ndarray:
    """1 where something is left: [B, window, dim]."""
    x = np.ones((len(index), WINDOW * DIM), np.float32)
    SpecAugment(config, DIM, WINDOW, "fbank", seed)(x, index, epoch)
    return x.reshape(len(index), WINDOW, DIM)


def runs(hidden: np.ndarray) -> list[tuple[int, int]]:
    """(begin, width) of the single run that is hidden in each row of bool [B, size]; (0, 0) for none."""
    result = []
    for row in hidden:
        at = np.flatnonzero(row)
        assert len(at) == 0 or at[-1] - at[0] + 1 == len(at)
        result.append((int(at[0]), len(at)) if len(at) else (0, 0))
    return result


def test_a_band_is_hidden_in_the_whole_window():
    x = masked(FramesConfig(freq_masks=1, freq_width=6), np.arange(20_000))
    assert (x == x[:, :1]).all()
    found = runs(x[:, 0] == 0)
    widths = np.bincount([w for _, w in found], minlength=7)
    assert len(widths) == 7
    assert (np.abs(widths / len(x) - 1 / 7) < 0.01).all()  # f is uniform in 0..6
    begins = np.bincount([b for b, w in found if w == 6], minlength=15)
    assert len(begins) == 15
    assert (np.abs(begins / begins.sum() - 1 / 15) < 0.02).all()  # so is where it begins


def test_runs_of_frames_are_hidden():
    x = masked(FramesConfig(time_masks=1, time_width=3), np.arange(20_000))
    assert (x == x[:, :, :1]).all()
    found = runs(x[:, :, 0] == 0)
    assert {w for _, w in found} == {0, 1, 2, 3}
    assert {b for b, w in found if w == 3} == set(range(WINDOW - 2))


def test_two_masks_of_each():
    x = masked(FramesConfig(freq_masks=2, freq_width=6, time_masks=2, time_width=3), np.arange(5000))
    # expected share that is left, masks being independent: average over filters and frames of one-mask figures
    one_f = (masked(FramesConfig(freq_masks=1, freq_width=6), np.arange(20_000))[:, 0]).mean(0)
    one_t = (masked(FramesConfig(time_masks=1, time_width=3), np.arange(20_000))[:, :, 0]).mean(0)
    np.testing.assert_allclose(x.mean(0), np.outer(one_t**2, one_f**2), atol=0.04)


def test_masks_follow_seed_epoch_and_frame():
    config, index = FramesConfig(freq_masks=1, time_masks=1), np.arange(500)
    first = masked(config, index)
    np.testing.assert_array_equal(masked(config, index[::-1])[::-1], first)  # not the place in a batch
    for other in (masked(config, index, epoch=1), masked(config, index, seed=1), masked(config, index + 500)):
        assert (other != first).any(axis=(1, 2)).mean() > 0.5


def test_frames_of_an_epoch_are_masked_and_those_of_validation_are_not(tmp_path):
    features = make_set(tmp_path)
    for shuffle in ("full", "blocks"):
        plain = FrameSource(features, numbered(LENGTHS), list(LENGTHS), 2, 10, 0)
        options = FramesConfig(shuffle, 100, freq_masks=1, freq_width=1, time_masks=1, time_width=2)
        source = FrameSource(features, numbered(LENGTHS), list(LENGTHS), 2, 10, 0, options=options)
        clean = torch.cat([c.x for c in plain.chunks()])
        assert torch.equal(torch.cat([c.x for c in source.chunks()]), clean)
        seen = {}
        for batch in source.epoch(0):
            hidden = batch.x == 0
            assert torch.equal(batch.x[~hidden], clean[batch.y][~hidden])  # labels of ``numbered`` are frame numbers
            seen |= {int(y): row for y, row in zip(batch.y, hidden)}
        assert 0.2 < torch.stack(list(seen.values())).float().mean() < 0.5
        again = {int(y): row == 0 for b in source.epoch(0, prefetch=2) for y, row in zip(b.y, b.x)}
        assert all(torch.equal(again[y], seen[y]) for y in seen)


def test_masks_that_cannot_be():
    for wrong in (
        FramesConfig(freq_masks=1, freq_width=21),
        FramesConfig(time_masks=1, time_width=12),
        FramesConfig(time_masks=-1),
        FramesConfig(freq_masks=1, freq_width=0),
    ):
        with pytest.raises(UserError, match=r"--frames\.(freq|time)_width of 1 to (20|11)"):
            SpecAugment(wrong, DIM, WINDOW, "fbank", 0)
    with pytest.raises(UserError, match="--features fbank"):
        SpecAugment(FramesConfig(freq_masks=1), 13, WINDOW, "mfcc", 0)
