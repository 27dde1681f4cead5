"""From the audio of a cut to its features, all kinds at once, as Kaldi computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asr_parallel.data.perturb import NOISE, load

if TYPE_CHECKING:
    import torch
    from lhotse import MonoCut

SHIFT, WINDOW = 0.01, 0.025  # seconds
LOW_FREQ, HIGH_FREQ = 20.0, 0.0  # Hz; Kaldi's defaults, 0 is the Nyquist frequency
MFCC_FILTERS, LIFTER, PREEMPHASIS = 23, 22, 0.97  # Kaldi's defaults
SCALE = 32768.0  # Kaldi reads samples as 16-bit integers
# Mel energies are floored at Lhotse's float epsilon for samples in [-1, 1], which is 128 for 16-bit ones.  That is
# a little below what Kaldi's default dither leaves in digital silence; Kaldi's own floor without dither is 90 dB
# lower and would make outliers of such frames.
FLOOR = float(np.finfo(np.float32).eps) * SCALE**2

OPTIONS = (SHIFT, WINDOW, LOW_FREQ, HIGH_FREQ, MFCC_FILTERS, LIFTER, PREEMPHASIS, FLOOR)


class BadAudio(Exception):
    """Why an utterance has no features."""


def read_audio(cut: MonoCut) -> np.ndarray:
    """Samples of ``cut``, float32 [N] in [-1, 1].  Raises ``BadAudio`` with the reason.

    A file that ends up to 25 ms early is filled up by reflection, as Lhotse does; a shorter one is bad.
    """
    try:
        samples = _read(cut)
    except (OSError, RuntimeError, ValueError, AssertionError) as e:
        raise BadAudio(" ".join(str(e).split()) or type(e).__name__) from None
    window, expected = WINDOW * cut.sampling_rate, round(cut.duration * cut.sampling_rate)
    if len(samples) < window:
        raise BadAudio(f"{len(samples)} samples, less than a window of {WINDOW} s")
    missing = expected - len(samples)
    if missing > window:
        raise BadAudio(f"{len(samples)} samples where the manifest says {expected}: the file is cut short")
    if not np.isfinite(samples).all():
        raise BadAudio("samples that are not numbers")
    return np.pad(samples, (0, missing), "symmetric") if missing > 0 else samples


def _read(cut: MonoCut) -> np.ndarray:
    import soundfile

    recording, rate = cut.recording, cut.sampling_rate
    if recording is None:
        raise BadAudio("no recording in the manifest")
    source = recording.sources[0]
    if source.type != "file" or recording.transforms or len(recording.sources) > 1 or NOISE in (cut.custom or {}):
        return load(cut).astype(np.float32)  # Lhotse knows what to do
    with soundfile.SoundFile(source.source) as f:
        if f.samplerate != rate:
            raise BadAudio(f"{source.source} has {f.samplerate} Hz, the manifest says {rate}")
        if cut.start:
            f.seek(min(round(cut.start * rate), f.frames))
        return f.read(round(cut.duration * rate), "float32", always_2d=True)[:, source.channels.index(cut.channel)]


class Frontend:
    """Computes all kinds of features of a wave, without dither.

    Values are those of Lhotse's ``Fbank`` and ``Mfcc`` for samples times 32,768, hence those of Kaldi's
    compute-fbank-feats and compute-mfcc-feats with --snip-edges=false --dither=0 --use-energy=false, except
    below ``FLOOR``.  Lhotse's ``extract_batch`` pads the shorter waves of a batch with zeros where Kaldi
    reflects them, and its ``extract`` makes the spectrum anew for each kind: here it is made once.
    """

    def __init__(self, sampling_rate: int, num_mel: int = 40, num_ceps: int = 13):
        import torch
        from lhotse.features.kaldi.layers import Wav2MFCC, create_frame_window, get_mel_banks, next_power_of_2

        self.length, self.shift = int(WINDOW * sampling_rate), int(SHIFT * sampling_rate)
        self._fft = next_power_of_2(self.length)
        self._window = create_frame_window(self.length, window_type="povey")

        def filters(count: int) -> torch.Tensor:
            bank = get_mel_banks(count, self._fft, sampling_rate, LOW_FREQ, HIGH_FREQ)[0]
            return torch.nn.functional.pad(bank, (0, 1)).T  # the Nyquist bin is in no filter

        self._filters = torch.cat([filters(num_mel), filters(MFCC_FILTERS)], dim=1)
        self._num_mel = num_mel

        def cosines(ceps: int, count: int) -> torch.Tensor:
            return Wav2MFCC.make_dct_matrix(ceps, count) * Wav2MFCC.make_lifter(ceps, LIFTER)

        self._dct, self._hires = cosines(num_ceps, MFCC_FILTERS), cosines(num_mel, num_mel)

    def __call__(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        """Features ``{"fbank": [T, num_mel], "mfcc": [T, num_ceps], "mfcc_hires": [T, num_mel]}``.

        ``samples`` are float32 [N] in [-1, 1], N at least a window (25 ms); T is N / 10 ms, rounded.  ``mfcc_hires``
        are all cosines of ``fbank``: the same in other axes, which are less correlated (as Kaldi's mfcc_hires.conf).
        """
        import torch

        with torch.inference_mode():
            squares = torch.view_as_real(torch.fft.rfft(self._windows(samples))).square_()
            power = squares[..., 0] + squares[..., 1]
            mel = torch.matmul(power, self._filters).clamp_(min=FLOOR).log_()
            fbank = mel[:, : self._num_mel].contiguous()
            mfcc = torch.matmul(mel[:, self._num_mel :], self._dct)
            hires = torch.matmul(fbank, self._hires)
            return {"fbank": fbank.numpy(), "mfcc": mfcc.numpy(), "mfcc_hires": hires.numpy()}

    def _windows(self, samples: np.ndarray) -> torch.Tensor:
        """Windows without offset, pre-emphasised, tapered and padded with zeros: float32 [T, FFT length]."""
        import torch

        frames = (len(samples) + self.shift // 2) // self.shift
        before = (self.length - self.shift) // 2
        after = max(0, (frames - 1) * self.shift + self.length - before - len(samples))
        padded = np.concatenate([samples[:before][::-1], samples, samples[len(samples) - after :][::-1]])
        windows = torch.from_numpy(padded * np.float32(SCALE)).unfold(0, self.length, self.shift)[:frames]
        windows = windows - windows.mean(dim=1, keepdim=True)
        result = windows.new_zeros(frames, self._fft)
        emphasised = result[:, : self.length]
        torch.add(windows[:, 1:], windows[:, :-1], alpha=-PREEMPHASIS, out=emphasised[:, 1:])
        torch.mul(windows[:, 0], 1 - PREEMPHASIS, out=emphasised[:, 0])
        emphasised.mul_(self._window)
        return result
