"""Growing the decision tree from statistics of phones in context (Young, Odell and Woodland 1994).

Each (left, phone, right, state) has the statistics of one diagonal Gaussian.  Questions are sets of phones
made from the data: the clusters of an agglomerative clustering of phones.  Starting from one root for each
(phone, state), the leaf and question with the highest gain of likelihood are split next.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_parallel.align.tree import EPS_PHONE, ContextTree, Node


@dataclass(frozen=True)
class ContextStats:
    """Statistics of single Gaussians, one row for each (left, phone, right, state) that was seen."""

    context: np.ndarray  # int [N, 4]: left, phone, right, state
    count: np.ndarray  # float64 [N]
    moments: np.ndarray  # float64 [N, 2 D]: sums of x and x^2

    @classmethod
    def of(cls, context: np.ndarray, feats: np.ndarray, rows: np.ndarray) -> ContextStats:
        """From ``context`` [N, 4] of the frames ``feats[rows]`` [N, D]."""
        seen, row = unique_rows(context)
        order = np.argsort(row, kind="stable")
        edges = np.searchsorted(row[order], np.arange(len(seen) + 1))
        order = rows[order]
        moments = np.empty((len(seen), 2 * feats.shape[1]))
        for i, (a, b) in enumerate(itertools.pairwise(edges)):
            x = feats[order[a:b]].astype(np.float64)
            moments[i] = np.concatenate([x.sum(0), np.square(x).sum(0)])
        return cls(seen, np.diff(edges).astype(np.float64), moments)


def unique_rows(context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of ``context`` [frames, 4], sorted, and the index of each frame's row among them."""
    c = context.astype(np.int64)
    keys = ((c[:, 0] << 16 | c[:, 1]) << 16 | c[:, 2]) << 8 | c[:, 3]
    distinct, row = np.unique(keys, return_inverse=True)
    parts = [distinct >> 40, distinct >> 24 & 0xFFFF, distinct >> 8 & 0xFFFF, distinct & 0xFF]
    return np.stack(parts, axis=1), row


def log_likelihood(count: np.ndarray, moments: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Log-likelihood of data under the best diagonal Gaussian: ``count`` [...], ``moments`` [..., 2 D] -> [...].

    -n/2 (sum log var + D (1 + log 2 pi)), with floored variances; 0 where there is no data.
    """
    n = np.maximum(count, 1e-10)[..., None]
    mean, square = np.split(moments / n, 2, axis=-1)
    variance = np.maximum(square - mean**2, floor)
    return -0.5 * count * (np.log(variance).sum(-1) + len(floor) * (1 + np.log(2 * np.pi)))


def make_questions(stats: ContextStats, silence: Sequence[int], floor: np.ndarray) -> list[list[int]]:
    """Sets of phones to ask for: all clusters of speech phones, each silence, all silences, the utterance's edge.

    Phones are clustered bottom-up by the least loss of likelihood, from the statistics of all their states
    together with equal places for each state (a phone is the concatenation of its states' Gaussians).
    """
    silences = sorted(silence)
    speech = [p for p in np.unique(stats.context[:, 1]).tolist() if p not in silences]
    clusters = [[p] for p in speech]
    sums = [_state_sums(stats, p) for p in speech]
    questions = [list(c) for c in clusters]
    while len(clusters) > 2:
        i, j = _closest(np.stack([n for n, _ in sums]), np.stack([m for _, m in sums]), floor)
        merged = (sums[i][0] + sums[j][0], sums[i][1] + sums[j][1])
        joint = sorted(clusters[i] + clusters[j])
        rest = [k for k in range(len(clusters)) if k not in (i, j)]
        clusters = [*(clusters[k] for k in rest), joint]
        sums = [*(sums[k] for k in rest), merged]
        questions.append(joint)
    questions += [[EPS_PHONE], silences, [EPS_PHONE, *silences], *([s] for s in silences)]
    distinct = {tuple(sorted(q)) for q in questions if q}
    return [list(q) for q in sorted(distinct, key=lambda q: (len(q), q))]


def _state_sums(stats: ContextStats, phone: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts [states] and moments [states, 2 D] of a phone's states."""
    states = int(stats.context[:, 3].max()) + 1
    count, moments = np.zeros(states), np.zeros((states, stats.moments.shape[1]))
    rows = stats.context[:, 1] == phone
    np.add.at(count, stats.context[rows, 3], stats.count[rows])
    np.add.at(moments, stats.context[rows, 3], stats.moments[rows])
    return count, moments


def _closest(count: np.ndarray, moments: np.ndarray, floor: np.ndarray) -> tuple[int, int]:
    """The two clusters, i < j, whose union loses the least likelihood; ``count`` [C, states]."""
    own = log_likelihood(count, moments, floor).sum(1)
    i, j = np.triu_indices(len(count), 1)
    joint = log_likelihood(count[i] + count[j], moments[i] + moments[j], floor).sum(1)
    best = int(np.argmin(own[i] + own[j] - joint))
    return int(i[best]), int(j[best])


@dataclass
class _Leaf:
    """A set of rows of the statistics, and its best split."""

    rows: np.ndarray
    gain: float = 0.0
    side: int = 0
    question: int = -1
    yes: np.ndarray | None = None  # [rows]


def build_tree(
    stats: ContextStats,
    num_states: Sequence[int],
    silence: Sequence[int],
    leaves: int,
    floor: np.ndarray,
    min_count: float = 100.0,
) -> ContextTree:
    """A triphone tree with about ``leaves`` leaves, each with ``min_count`` frames or more.

    ``num_states[phone]`` are the HMM states of each phone (0 for ``<eps>``).  Roots of ``silence`` are not
    split; a root without data is one leaf.
    """
    questions = make_questions(stats, silence, floor)
    asked = np.array([np.isin(np.arange(len(num_states)), q) for q in questions])  # [questions, phones]
    nodes: list[list] = []  # [leaf] until it is split, then [side, question, yes, no]
    heap: list[tuple[float, int]] = []  # (-gain, node)

    def add(rows: np.ndarray, splits: bool) -> int:
        leaf = _Leaf(rows)
        if splits:
            _find_split(leaf, stats, asked, floor, min_count)
        nodes.append([leaf])
        if leaf.gain > 0:
            heapq.heappush(heap, (-leaf.gain, len(nodes) - 1))
        return len(nodes) - 1

    by_root = _rows_by_root(stats, num_states)
    roots = [[add(rows, phone not in silence) for rows in states] for phone, states in enumerate(by_root)]
    missing = leaves - len(nodes)
    while missing > 0 and heap:
        node = heapq.heappop(heap)[1]
        leaf = nodes[node][0]
        yes, no = add(leaf.rows[leaf.yes], True), add(leaf.rows[~leaf.yes], True)
        nodes[node] = [leaf.side, leaf.question, yes, no]
        missing -= 1
    return _number(roots, nodes, questions)


def _rows_by_root(stats: ContextStats, num_states: Sequence[int]) -> list[list[np.ndarray]]:
    phone, state = stats.context[:, 1], stats.context[:, 3]
    return [[np.flatnonzero((phone == p) & (state == s)) for s in range(n)] for p, n in enumerate(num_states)]


def _find_split(leaf: _Leaf, stats: ContextStats, asked: np.ndarray, floor: np.ndarray, min_count: float) -> None:
    """Fill in the question with the highest gain that leaves ``min_count`` frames on both sides."""
    count, moments = stats.count[leaf.rows], stats.moments[leaf.rows]
    if count.sum() < 2 * min_count:
        return
    answers = np.concatenate([asked[:, stats.context[leaf.rows, column]] for column in (0, 2)])  # [2 Q, rows]
    yes_count, yes_moments = answers @ count, answers @ moments
    no_count, no_moments = count.sum() - yes_count, moments.sum(0) - yes_moments
    gain = log_likelihood(yes_count, yes_moments, floor) + log_likelihood(no_count, no_moments, floor)
    gain -= log_likelihood(count.sum(), moments.sum(0), floor)
    gain[(yes_count < min_count) | (no_count < min_count)] = -np.inf
    best = int(np.argmax(gain))
    leaf.gain, leaf.yes = float(gain[best]), answers[best]
    leaf.side, leaf.question = divmod(best, len(asked))


def _number(roots: list[list[int]], nodes: list[list], questions: list[list[int]]) -> ContextTree:
    """Nested nodes, leaves numbered in the order of phones, states and answers."""
    numbers = iter(range(len(nodes)))

    def nest(node: int) -> Node:
        if len(nodes[node]) == 1:
            return next(numbers)
        side, question, yes, no = nodes[node]
        return [side, question, nest(yes), nest(no)]

    return ContextTree(3, [[nest(n) for n in states] for states in roots], [list(q) for q in questions])
