"""A spoken word as one picture: the log-mel spectrogram of one second, 128 filters by 32 frames, as one row of 4096.

This is what Yuan et al. (PVLDB 15(8), 2022) give their networks on Google Speech Commands: windows of 128 ms every 32
ms, power in dB below the loudest value of the picture.  Nothing of other clips goes into it, so there is no further
normalisation.
"""

from __future__ import annotations

import numpy as np

from asr_parallel.data.frontend import SCALE

SECONDS = 1.0
SHIFT, WINDOW = 0.032, 0.128  # seconds; 512 and 2048 samples at 16 kHz
FILTERS, FRAMES = 128, 32
RANGE = 80.0  # dB; what is fainter than this below the loudest value counts as this
FAINTEST = 1e-10  # power, of 16-bit samples; a picture without sound is as loud everywhere as this

OPTIONS = (SECONDS, SHIFT, WINDOW, FILTERS, FRAMES, RANGE, FAINTEST)


class WordImage:
    """Makes the picture of a clip; ``sampling_rate`` in Hz, at least 8000."""

    def __init__(self, sampling_rate: int):
        from torchaudio.transforms import MelSpectrogram

        self.length = round(SECONDS * sampling_rate)
        self._mel = MelSpectrogram(
            sampling_rate,
            n_fft=round(WINDOW * sampling_rate),
            hop_length=round(SHIFT * sampling_rate),
            n_mels=FILTERS,
            pad_mode="constant",
            norm="slaney",
            mel_scale="slaney",
        )

    def __call__(self, samples: np.ndarray) -> dict[str, np.ndarray]:
        """``{"image": [1, 4096]}`` of ``samples`` float32 [N] in [-1, 1]: filter by filter, 32 frames each.

        1 is the loudest value of the picture, -1 what is 80 dB or more below it.  Of a longer clip the middle second is
        taken, a shorter one has as much silence before as after it.
        """
        import torch

        with torch.inference_mode():
            power = self._mel(torch.from_numpy(self._one_second(samples) * np.float32(SCALE)))
            level = 10 * power.clamp(min=FAINTEST).log10()
            below = (level - level.max()).clamp(min=-RANGE)
            return {"image": (below / (RANGE / 2) + 1).reshape(1, -1).numpy()}

    def _one_second(self, samples: np.ndarray) -> np.ndarray:
        surplus = len(samples) - self.length
        if surplus >= 0:
            return samples[surplus // 2 : surplus // 2 + self.length]
        return np.pad(samples, (-surplus // 2, -surplus - -surplus // 2))
