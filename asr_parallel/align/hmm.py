"""The HMM side of an acoustic model: topology, tied states (pdfs) and transition probabilities.

Decoding graphs carry ``pdf + 1`` on their input side.  That is enough because every tree has one root
for each (phone, HMM state): a pdf names its phone and state, so phone boundaries can be read off a pdf
sequence (`kaldi` needs transition ids for this; we do not).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from asr_parallel.align.tree import EPS_PHONE, ContextTree
from asr_parallel.files import read_json, write_json
from asr_parallel.log import UserError

__all__ = ["EPS_PHONE", "ContextTree", "HmmModel", "Topology", "make_topology"]

OF_KALDI = (
    "networks are trained on its labels and decode with its graph; graphs, alignments and word times of our own need a "
    "model that `align` has left"
)
MIN_TRANSITION_COUNT = 5  # states seen less often keep the probabilities they had
MIN_TRANSITION_PROB = 0.01  # floor of a transition probability (as in Kaldi)


@dataclass(frozen=True)
class Topology:
    """Emitting states of each phone.

    ``states[phone][i]`` is a tuple of (destination, probability); destination ``len(states[phone])``
    leaves the phone.  Phones are numbered from 1 as in ``phones.txt``; entry 0 is empty.
    """

    states: tuple[tuple[tuple[tuple[int, float], ...], ...], ...]

    def num_states(self, phone: int) -> int:
        return len(self.states[phone])

    def max_states(self) -> int:
        return max(map(len, self.states))


LEFT_TO_RIGHT = tuple(((i, 0.75), (i + 1, 0.25)) for i in range(3))
# Kaldi's silence: the three inner states may follow each other in any order
SILENCE = (
    tuple((d, 0.25) for d in (0, 1, 2, 3)),
    *(tuple((d, 0.25) for d in (1, 2, 3, 4)) for _ in range(3)),
    ((4, 0.75), (5, 0.25)),
)


def make_topology(num_phones: int, silence: list[int]) -> Topology:
    """Three states from left to right for phones 1 ... ``num_phones`` - 1, five for those in ``silence``."""
    return Topology(((), *(SILENCE if p in silence else LEFT_TO_RIGHT for p in range(1, num_phones))))


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

    @classmethod
    def start(cls, phones: list[str], silence: list[int], topology: Topology, tree: ContextTree) -> HmmModel:
        """A model with the transition probabilities that stand in the topology."""
        model = cls(phones, silence, topology, tree, np.zeros(0, np.float32))
        rows = [[np.log(p) for _, p in model.transitions(pdf)] for pdf in range(tree.num_pdfs)]
        return replace(model, log_probs=_pad(rows))

    def transitions(self, pdf: int) -> tuple[tuple[int, float], ...]:
        """(destination, initial probability) of the transitions of ``pdf``'s state."""
        return self.topology.states[int(self.tree.pdf_phone[pdf])][int(self.tree.pdf_state[pdf])]

    def save(self, path: Path) -> None:
        """Write ``hmm.json`` (via a temporary name)."""
        kinds: list[Any] = list(dict.fromkeys(self.topology.states))
        write_json(
            path,
            {
                "phones": self.phones,
                "silence": self.silence,
                "topologies": kinds,
                "phone_topology": [kinds.index(s) for s in self.topology.states],
                "log_probs": [[float(x) for x in row if x != -np.inf] for row in self.log_probs],
                "tree": self.tree.to_json(),
            },
        )

    @classmethod
    def load(cls, path: Path) -> HmmModel:
        """Read what ``save`` wrote.  Raises ``UserError`` if it is missing, damaged or contradicts itself."""
        again = "run `align` again"
        try:
            d = read_json(path)
            if "kaldi" in d:
                raise UserError(f"{path} stands for a model of Kaldi: {OF_KALDI}")
            kinds = [tuple(tuple((int(to), float(p)) for to, p in s) for s in k) for k in d["topologies"]]
            topology = Topology(tuple(kinds[k] for k in d["phone_topology"]))
            tree = ContextTree.from_json(d["tree"])
            model = cls(list(d["phones"]), list(d["silence"]), topology, tree, _pad(d["log_probs"]))
            sizes = [len(model.transitions(pdf)) for pdf in range(tree.num_pdfs)]
        except FileNotFoundError:
            raise UserError(f"no HMM at {path}: run `align` first") from None
        except (ValueError, KeyError, TypeError, IndexError) as e:
            raise UserError(f"{path} is damaged ({type(e).__name__}: {e}): {again}") from None
        if sizes != [len(row) for row in d["log_probs"]] or len(model.phones) != len(topology.states):
            raise UserError(f"{path} is damaged (its tree, phones and transitions do not fit each other): {again}")
        return model

    def scaled_log_probs(self, transition_scale: float, self_loop_scale: float) -> np.ndarray:
        """``log_probs`` as they go into a graph, float32 of the same shape.

        As Kaldi's ``AddSelfLoops``: the choice between staying and leaving has ``self_loop_scale``, the
        choice among the ways to leave (given that the state is left) has ``transition_scale``.
        """
        out = self.log_probs.copy()
        for pdf in range(self.tree.num_pdfs):
            state = int(self.tree.pdf_state[pdf])
            to = np.array([d for d, _ in self.transitions(pdf)])
            row = self.log_probs[pdf, : len(to)].astype(np.float64)
            leaving = to != state
            leave = np.logaddexp.reduce(row[leaving])
            scaled = transition_scale * (row - leave) + self_loop_scale * leave
            out[pdf, : len(to)] = np.where(leaving, scaled, self_loop_scale * row)
        return out

    def with_counts(self, counts: np.ndarray) -> HmmModel:
        """The model with transition probabilities from ``counts`` [num_pdfs, most transitions], floored."""
        log_probs = self.log_probs.copy()
        for pdf in np.flatnonzero(counts.sum(1) >= MIN_TRANSITION_COUNT):
            n = len(self.transitions(pdf))
            p = np.maximum(counts[pdf, :n] / counts[pdf, :n].sum(), MIN_TRANSITION_PROB)
            log_probs[pdf, :n] = np.log(p / p.sum())
        return replace(self, log_probs=log_probs)

    def transition_counts(self, pdfs: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """How often each transition was taken: int64 [num_pdfs, most transitions].

        ``pdfs`` [frames] are the labels of utterances that end at ``offsets[1:]``.  A phone of one state that
        is repeated cannot be told from a long one; it counts as the latter.
        """
        counts = np.zeros(self.log_probs.shape, np.int64)
        if not len(pdfs):
            return counts
        following = np.append(pdfs[1:], -1).astype(np.int64)
        following[offsets[1:][np.diff(offsets) > 0] - 1] = -1  # after the end of an utterance
        pairs, times = np.unique(pdfs.astype(np.int64) << 32 | (following + 1), return_counts=True)
        reach = self._reach()
        for pair, n in zip(pairs.tolist(), times.tolist()):
            a, b = pair >> 32, (pair & 0xFFFFFFFF) - 1
            phone, state = int(self.tree.pdf_phone[a]), int(self.tree.pdf_state[a])
            stays = b >= 0 and self.tree.pdf_phone[b] == phone and reach[phone, state, self.tree.pdf_state[b]]
            to = int(self.tree.pdf_state[b]) if stays else self.topology.num_states(phone)
            index = [d for d, _ in self.topology.states[phone][state]].index(to)
            counts[a, index] += n
        return counts

    def phone_starts(self, pdfs: np.ndarray) -> np.ndarray:
        """Which frames of one utterance's labels begin a phone: bool [T]."""
        phone, state = self.tree.pdf_phone[pdfs], self.tree.pdf_state[pdfs]
        inside = (phone[1:] == phone[:-1]) & self._reach()[phone[:-1], state[:-1], state[1:]]
        return np.append(True, ~inside)[: len(pdfs)]

    def _reach(self) -> np.ndarray:
        """``[phone, i, j]``: a transition leads from state i to state j of the phone."""
        n = self.topology.max_states()
        reach = np.zeros((len(self.topology.states), n, n + 1), bool)
        for phone, states in enumerate(self.topology.states):
            for i, arcs in enumerate(states):
                reach[phone, i, [d for d, _ in arcs]] = True
            reach[phone, :, len(states)] = False
        return reach


def _pad(rows: list[list[float]]) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows), default=0)), -np.inf, np.float32)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out
