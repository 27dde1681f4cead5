"""Copies of utterances at other speeds, in noise and in rooms, and other volumes: all by Lhotse when audio is read.

What is random is drawn from the utterance's id and a seed, so that it does not depend on jobs or on other utterances.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr_parallel.config import FeaturesConfig
from asr_parallel.data.audio import SUFFIXES, AudioError, probe
from asr_parallel.files import files_under
from asr_parallel.log import UserError, logger

if TYPE_CHECKING:
    import numpy as np
    from lhotse import MonoCut, Recording
    from lhotse.cut import MixedCut

Row = dict[str, Any]  # a cut as its manifest has it
Change = Callable[["MonoCut"], "MonoCut"]

log = logger(__name__)

RANDOM_ROOMS = Path("random")
NOISE = "noise"  # what a cut's `custom` calls the tracks that are mixed into it


def check(config: FeaturesConfig) -> None:
    """Raise ``UserError`` unless all numbers make sense; speed 1 is there anyway."""
    wrong = [f for f in config.speed if not 0.5 <= f <= 2.0 or f == 1.0]
    if wrong or len(set(config.speed)) < len(config.speed):
        given = " ".join(f"{f:g}" for f in config.speed)
        raise UserError(f"--speed {given}: give different factors from 0.5 to 2 without 1, such as 0.9 1.1")
    if config.volume and not (len(config.volume) == 2 and 0 < config.volume[0] <= config.volume[1]):
        raise UserError(f"--volume {config.volume}: give the smallest and the greatest gain, such as 0.125 2")
    if not (len(config.snr) == 2 and config.snr[0] <= config.snr[1]):
        raise UserError(f"--snr {config.snr}: give the smallest and the greatest ratio in dB, such as 5 20")


def options(config: FeaturesConfig) -> list[str]:
    """All that the perturbation of a set depends on."""
    found = [f"speed {factor}" for factor in config.speed]
    if config.volume:
        found.append(f"volume {config.volume} {config.seed}")
    if config.noise:
        found.append(f"noise {config.state()['noise']} {config.snr} {config.seed}")
    if config.reverb:
        found.append(f"reverb {config.state()['reverb']} {config.seed}")
    return found


def perturbed(rows: Sequence[Row], config: FeaturesConfig) -> list[Row]:
    """``rows``, at random volumes if wanted, and after them a copy of each for each change.

    Ids of copies end as Lhotse has it (``_sp0.9``, ``_rvb``) or in ``_noise``.  Their speakers get the same ending, as
    in Kaldi: they are normalised apart, since a voice at another speed or place has another spectrum.
    """
    rate = rows[0]["recording"]["sampling_rate"]
    changes = [(f"_sp{factor}", _speed(factor)) for factor in config.speed]
    if config.noise:
        changes.append(("_noise", _noise(recordings(config.noise, rate), config)))
    if config.reverb:
        rooms = [] if config.reverb == RANDOM_ROOMS else recordings(config.reverb, rate)
        changes.append(("_rvb", _reverb(rooms, config.seed)))
    result = [_changed(row, _volume(config)) for row in rows] if config.volume else list(rows)
    copies = [_changed(row, change, ending) for ending, change in changes for row in result]
    return result + copies


def _changed(row: Row, change: Change, ending: str = "") -> Row:
    from lhotse import MonoCut

    copy = change(MonoCut.from_dict(json.loads(json.dumps(row)))).to_dict()
    for supervision in copy["supervisions"]:
        if supervision.get("speaker"):
            supervision["speaker"] += ending
    return copy


def _draw(kind: str, utt: str, seed: int) -> random.Random:
    return random.Random(f"{kind} {utt} {seed}")


def _speed(factor: float) -> Change:
    """Resampled, so that tempo and pitch change (Ko et al. 2015)."""
    return lambda cut: cut.perturb_speed(factor, affix_id=True)


def _volume(config: FeaturesConfig) -> Change:
    def change(cut: MonoCut) -> MonoCut:
        gain = _draw("volume", cut.id, config.seed).uniform(*config.volume)
        return cut.perturb_volume(round(gain, 4), affix_id=False)

    return change


def _reverb(rooms: Sequence[Recording], seed: int) -> Change:
    """Convolved with one of the impulse responses, or with that of a random room; as long and as loud as before."""

    def change(cut: MonoCut) -> MonoCut:
        draw = _draw("reverb", cut.id, seed)
        room = draw.choice(rooms) if rooms else None
        return cut.reverb_rir(room, room_rng_seed=draw.randrange(1 << 31), source_rng_seed=draw.randrange(1 << 31))

    return change


def _noise(noises: Sequence[Recording], config: FeaturesConfig) -> Change:
    """With noises, one after the other until its end, at a random signal-to-noise ratio.

    Manifests hold cuts of one recording, so the tracks that are to be mixed in go to ``custom``; ``mixed`` does it.
    """
    from lhotse import CutSet, MonoCut

    choice = CutSet.from_cuts(MonoCut(n.id, 0.0, n.duration, 0, recording=n) for n in noises)

    def change(cut: MonoCut) -> MonoCut:
        draw = _draw("noise", cut.id, config.seed)
        (mix,) = CutSet.from_cuts([cut]).mix(choice, snr=config.snr, seed=draw, random_mix_offset=True)
        said = [dataclasses.replace(s, id=f"{s.id}_noise") for s in cut.supervisions]
        tracks = [track.to_dict() for track in mix.tracks[1:]]
        return dataclasses.replace(cut, id=f"{cut.id}_noise", supervisions=said, custom={NOISE: tracks})

    return change


def load(cut: MonoCut) -> np.ndarray:
    """Samples [N], changed as the cut says, the same ones in each call.

    Lhotse's random rooms have seeds, but go on with their generators in the next call, and also draw from torch's.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        for transform in cut.recording.transforms or ():
            if room := getattr(transform, "rir_generator", None):
                room.__post_init__()
                torch.manual_seed(room.source_seed or 0)
        return (mixed(cut) if NOISE in (cut.custom or {}) else cut).load_audio()[0]


def mixed(cut: MonoCut) -> MixedCut:
    """A cut with the noises that its ``custom`` names."""
    from lhotse.cut import MixedCut, MixTrack

    tracks = [MixTrack.from_dict(track) for track in json.loads(json.dumps(cut.custom[NOISE]))]
    return MixedCut(cut.id, [MixTrack(cut), *tracks])


def recordings(folder: Path, rate: int) -> list[Recording]:
    """All audio files under a folder, resampled to ``rate``.  Those that can't be read are told and left out.

    Raises ``UserError`` if none is left.
    """
    from lhotse import Recording
    from lhotse.audio import AudioSource

    found, bad = [], list[str]()
    for path in files_under(folder, SUFFIXES) if folder.is_dir() else []:
        try:
            audio = probe(path)
        except AudioError as error:
            bad.append(f"{path} {error}")
            continue
        if not audio.direct or not audio.frames:
            bad.append(f"{path} has no samples, or a wrong header: convert it")
            continue
        source = AudioSource("file", list(range(audio.channels)), str(path.absolute()))
        name = "-".join(path.relative_to(folder).with_suffix("").parts)
        recording = Recording(name, [source], audio.rate, audio.frames, audio.seconds)
        found.append(recording if audio.rate == rate else recording.resample(rate))
    if not found:
        raise UserError(f"{folder} has no audio files that can be read{f', first: {bad[0]}' if bad else ''}")
    if bad:
        log.warning("%s: %d of %d files are of no use, first: %s", folder, len(bad), len(bad) + len(found), bad[0])
    return found
