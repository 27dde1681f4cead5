"""The phonetic decision tree: which pdf a phone's HMM state has in its context.

One root for each (phone, HMM state), so that a pdf names its phone and state.  ``cluster.py`` grows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

EPS_PHONE = 0  # context at the edge of an utterance
LEFT, RIGHT = 0, 1
Node = Any  # a pdf (int), or [LEFT or RIGHT, question, node if in it, node if not]


class ContextTree:
    """Maps (left, phone, right, state) to a pdf.  ``context_width`` is 1 (monophone) or 3 (triphone).

    ``roots[phone][state]`` is a node: a pdf, or ``[side, question, yes, no]``, which asks whether the left
    (side 0) or right (side 1) phone is in ``questions[question]``.  ``pdf_phone`` and ``pdf_state`` (int32,
    [num_pdfs]) give the one phone and state that a pdf belongs to.
    """

    context_width: int
    num_pdfs: int
    pdf_phone: np.ndarray
    pdf_state: np.ndarray

    def __init__(self, context_width: int, roots: Sequence[Sequence[Node]], questions: Sequence[Sequence[int]] = ()):
        """Raises ``ValueError`` if the leaves are not 0, 1, ..., each in one place."""
        self.context_width, self.roots, self.questions = context_width, roots, [list(q) for q in questions]
        self._sets = [frozenset(q) for q in self.questions]
        owner = [
            (pdf, phone, state)
            for phone, states in enumerate(roots)
            for state, node in enumerate(states)
            for pdf in _leaves(node)
        ]
        owner.sort()
        self.num_pdfs = len(owner)
        if [pdf for pdf, _, _ in owner] != list(range(self.num_pdfs)):
            raise ValueError("the leaves of the tree are not numbered 0, 1, 2, ..., each in one place")
        self.pdf_phone = np.array([p for _, p, _ in owner], np.int32)
        self.pdf_state = np.array([s for _, _, s in owner], np.int32)

    def pdf(self, left: int, phone: int, right: int, state: int) -> int:
        """The pdf of HMM state ``state`` of ``phone`` between ``left`` and ``right`` (``EPS_PHONE`` at an edge)."""
        node = self.roots[phone][state]
        while not isinstance(node, int):
            side, question, yes, no = node
            node = yes if (right if side else left) in self._sets[question] else no
        return node

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``from_json`` reads them."""
        return {"context_width": self.context_width, "questions": self.questions, "roots": self.roots}

    @classmethod
    def from_json(cls, d: dict[str, Any]) -> ContextTree:
        return cls(d["context_width"], d["roots"], d["questions"])


def monophone_tree(num_states: Sequence[int]) -> ContextTree:
    """One pdf for each state; ``num_states[phone]`` is 0 for ``<eps>``."""
    first = np.cumsum([0, *num_states])
    return ContextTree(1, [list(range(int(a), int(a) + n)) for a, n in zip(first, num_states)])


def _leaves(node: Node) -> list[int]:
    return [node] if isinstance(node, int) else _leaves(node[2]) + _leaves(node[3])
