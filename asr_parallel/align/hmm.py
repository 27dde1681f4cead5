"""The HMM side of an acoustic model: topology, tied states (pdfs) and transition probabilities.

Decoding graphs carry ``pdf + 1`` on their input side.  That is enough because every tree has one root
for each (phone, HMM state): a pdf names its phone and state, so phone boundaries can be read off a pdf
sequence (`kaldi` needs transition ids for this; we do not).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

EPS_PHONE = 0  # context at the edge of an utterance


@dataclass(frozen=True)
class Topology:
    """Emitting states of each phone.

    ``states[phone][i]`` is a tuple of (destination, probability); destination ``len(states[phone])``
    leaves the phone.  Phones are numbered from 1 as in ``phones.txt``; entry 0 is empty.
    """

    states: tuple[tuple[tuple[tuple[int, float], ...], ...], ...]

    def num_states(self, phone: int) -> int:
        return len(self.states[phone])


class ContextTree:
    """Maps (left, phone, right, state) to a pdf.  ``context_width`` is 1 (monophone) or 3 (triphone).

    Implemented in ``align/tree.py``.  ``pdf_phone`` and ``pdf_state`` (int32, [num_pdfs]) give the one
    phone and state that a pdf belongs to.
    """

    context_width: int
    num_pdfs: int
    pdf_phone: np.ndarray
    pdf_state: np.ndarray

    def pdf(self, left: int, phone: int, right: int, state: int) -> int:
        raise NotImplementedError


@dataclass
class HmmModel:
    """What a graph needs to know of an acoustic model.

    ``log_probs[pdf, i]`` is the natural log-probability of the i-th transition of the pdf's state
    (float32, [num_pdfs, most transitions], -inf where there is none).
    """

    phones: list[str]  # phones[i] is the name of phone i; phones[0] == "<eps>"
    silence: list[int]  # phones that are silence or noise
    topology: Topology
    tree: ContextTree
    log_probs: np.ndarray

    def save(self, path: Path) -> None:
        """Write ``hmm.json`` (via a temporary name)."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: Path) -> HmmModel:
        raise NotImplementedError
