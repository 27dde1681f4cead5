import numpy as np
from gmm_world import PHONES, monophones

from asr_parallel.align.work import speech


def test_silence_and_noise_have_no_say():
    hmm = monophones()
    pdfs = np.append(np.arange(hmm.tree.num_pdfs), -1).astype(np.int32)
    said = speech(hmm, pdfs)
    names = [PHONES[p] for p in hmm.tree.pdf_phone]
    assert said.tolist() == [-1 if name in ("SIL", "SPN") else pdf for pdf, name in enumerate(names)] + [-1]
