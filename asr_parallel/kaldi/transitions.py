"""Kaldi's transition model, the first part of ``final.mdl``: what transition ids mean.

A transition state is a (phone, HMM state, pdf); each arc that leaves it has a transition id, counted from 1.  Newer
models have two pdfs for a state, one for the self-loop and one for the other arcs (``hmm/transition-model.h``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr_parallel.kaldi.tables import DAMAGE, open_input
from asr_parallel.kaldi.values import Reader
from asr_parallel.log import UserError

State = tuple[int, int, list[int]]  # classes of the pdfs of its other arcs and of its self-loop, where its arcs lead
Phones = dict[int, list[State]]


@dataclass(frozen=True)
class TransitionModel:
    """``pdfs[id]``, ``phones[id]`` and ``states[id]``, int32, are of each transition id; those of id 0 mean nothing."""

    pdfs: np.ndarray
    phones: np.ndarray
    states: np.ndarray

    @property
    def num_pdfs(self) -> int:
        return int(self.pdfs[1:].max()) + 1

    @property
    def num_ids(self) -> int:
        """Transition ids are 1 to this."""
        return len(self.pdfs) - 1

    def identity(self) -> str:
        """SHA-256 of what the ids mean: equal for models with one tree and topology."""
        parts = (self.pdfs[1:], self.phones[1:], self.states[1:])
        return hashlib.sha256(b"".join(p.astype("<i4").tobytes() for p in parts)).hexdigest()

    @classmethod
    def read(cls, path: Path) -> TransitionModel:
        """Read ``final.mdl`` of any of Kaldi's model types, binary or text.  Raises ``UserError``."""
        with open_input(Path(path)) as file:
            try:
                reader = Reader(file)
                reader.header()
                return _model(reader)
            except (*DAMAGE, KeyError, IndexError) as error:
                raise UserError(f"{path} is no model of Kaldi, or is damaged: {error}: copy it again") from None


def _model(reader: Reader) -> TransitionModel:
    reader.expect("<TransitionModel>")
    topology = read_topology(reader)
    kind = reader.expect("<Triples>", "<Tuples>")
    rows: list[tuple[int, int, int]] = [(0, 0, 0)]
    for _ in range(reader.integer()):
        phone, state, pdf = reader.integer(), reader.integer(), reader.integer()
        loop = reader.integer() if kind == "<Tuples>" else pdf
        rows += [(loop if to == state else pdf, phone, state) for to in topology[phone][state][2]]
    reader.expect(kind.replace("<", "</"))
    reader.expect("<LogProbs>")
    if len(reader.vector()) != len(rows):
        raise ValueError(f"{len(rows) - 1} transition ids, but another number of probabilities")
    reader.expect("</LogProbs>")
    reader.expect("</TransitionModel>")
    if len(rows) == 1 or min(map(min, rows)) < 0:
        raise ValueError("it has no transitions, or negative numbers")
    return TransitionModel(*(np.array(column, np.int32) for column in zip(*rows)))


def read_topology(reader: Reader) -> Phones:
    """The states of each phone (``hmm/hmm-topology.h``)."""
    reader.expect("<Topology>")
    phones = _binary_topology(reader) if reader.binary else _text_topology(reader)
    if reader.binary:
        reader.expect("</Topology>")
    return phones


def _binary_topology(reader: Reader) -> Phones:
    phones, entry_of = reader.integers(), reader.integers()
    size = reader.integer()
    two = size == -1  # marks entries in which a state has two pdf classes
    size = reader.integer() if two else size
    entries = []
    for _ in range(size):
        states: list[State] = []
        for _ in range(reader.integer()):
            forward = reader.integer()
            loop = reader.integer() if two else forward
            arcs = [(reader.integer(), reader.real()) for _ in range(reader.integer())]
            states.append((forward, loop, [to for to, _ in arcs]))
        entries.append(states)
    return {int(phone): entries[entry_of[phone]] for phone in phones}


def _text_topology(reader: Reader) -> Phones:
    phones: Phones = {}
    while reader.expect("<TopologyEntry>", "</Topology>") != "</Topology>":
        reader.expect("<ForPhones>")
        numbers = []
        while (word := reader.token()) != "</ForPhones>":
            numbers.append(int(word))
        states: list[State] = []
        while reader.expect("<State>", "</TopologyEntry>") == "<State>":
            states.append(_text_state(reader, len(states)))
        phones |= dict.fromkeys(numbers, states)
    return phones


def _text_state(reader: Reader, number: int) -> State:
    if reader.integer() != number:
        raise ValueError(f"states of a phone are not numbered 0, 1, ... at {number}")
    forward = loop = -1  # a state that emits nothing
    arcs = []
    while (word := reader.token()) != "</State>":
        if word == "<Transition>":
            arcs.append(reader.integer())
            reader.real()
        elif word == "<PdfClass>":
            forward = loop = reader.integer()
        elif word == "<ForwardPdfClass>":
            forward = reader.integer()
        elif word == "<SelfLoopPdfClass>":
            loop = reader.integer()
        else:
            raise ValueError(f"{word[:40]!r} in a topology")
    return forward, loop, arcs
