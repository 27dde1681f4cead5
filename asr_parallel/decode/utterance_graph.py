"""The graph of one utterance for alignment, built without composition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kaldifst import StdArc, StdVectorFst

from asr_parallel.align.hmm import EPS_PHONE, HmmModel
from asr_parallel.lang.lexicon import BOS, EOS, SIL, UNK, Pron, read_symbols
from asr_parallel.lang.lexicon_probs import EVEN, Costs, LexiconProbs
from asr_parallel.lang.pieces import pronunciations
from asr_parallel.log import UserError


def check_phones(lang_dir: Path, symbols: Sequence[str], hmm: HmmModel) -> None:
    """Raise ``UserError`` unless the phones of ``phones.txt`` are the model's."""
    if [symbol for symbol in symbols if not symbol.startswith("#")] != list(hmm.phones):
        raise UserError(f"{lang_dir}/phones.txt and the model have other phones; run 'asr-parallel align' again")


class NumberedProns(Mapping[str, list[list[int]]]):
    """Pronunciations with the numbers of their phones, when they are asked for: a lexicon may have no end of words."""

    def __init__(self, prons: Mapping[str, tuple[Pron, ...]], phone_id: Mapping[str, int]):
        self._prons, self._phone_id = prons, phone_id

    def __getitem__(self, word: str) -> list[list[int]]:
        return [[self._phone_id[phone] for phone in pron] for pron in self._prons[word]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._prons)

    def __len__(self) -> int:
        return len(self._prons)


class TrainingGraphs:
    """Compiles the graph of an utterance: its words, all their pronunciations, optional silence.

    The graph is built directly: a junction (place, left phone, right phone) is a state, and the phones
    between two junctions are chains of HMM states.  No composition or determinisation is needed, and the
    result weighs its paths as H o C o L o (words) with self-loops would.
    """

    def __init__(
        self,
        lang_dir: Path,
        hmm: HmmModel,
        transition_scale: float = 1.0,
        self_loop_scale: float = 0.1,
        probs: LexiconProbs = EVEN,
    ):
        lang_dir = Path(lang_dir)
        check_phones(lang_dir, read_symbols(lang_dir / "phones.txt"), hmm)
        phone_id = {phone: number for number, phone in enumerate(hmm.phones)}
        self.word_id = {word: number for number, word in enumerate(read_symbols(lang_dir / "words.txt"))}
        self.lexicon = pronunciations(lang_dir)
        self.prons = NumberedProns(self.lexicon, phone_id)
        self.probs = probs
        self.silence = phone_id[SIL]
        self.hmm = hmm
        self.hmm_costs = (-hmm.scaled_log_probs(transition_scale, self_loop_scale)).tolist()
        self._pdfs: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def compile(self, words: Sequence[str]) -> StdVectorFst:
        """Graph of an utterance; words that are not in the lexicon count as ``<unk>``."""
        return _UtteranceGraph(self, words).fst

    def pdfs(self, left: int, phone: int, right: int) -> tuple[int, ...]:
        """Pdfs of the HMM states of a phone in context."""
        key = (left, phone, right)
        if key not in self._pdfs:
            states = range(self.hmm.topology.num_states(phone))
            self._pdfs[key] = tuple(self.hmm.tree.pdf(left, phone, right, state) for state in states)
        return self._pdfs[key]


Place = tuple[int, int, int]  # (word, pronunciation, phone) about to come; (word, -1, 0): silence may come first
FREE = Costs(0.0, 0.0, 0.0, 0.0)


class Branch(NamedTuple):
    """A phone and what may follow it: (place, right phone, cost).  A word's first phone has its label and costs."""

    following: list[tuple[Place, int, float]]
    label: int = 0
    costs: Costs = FREE


class _UtteranceGraph:
    """State of one compilation.  ``junctions[place, right phone][left phone]`` is a state of the FST."""

    def __init__(self, graphs: TrainingGraphs, words: Sequence[str]):
        self.graphs, self.fst = graphs, StdVectorFst()
        words = [word if word in graphs.prons else UNK for word in words]
        self.prons = [graphs.prons[word] for word in words]
        self.labels = [graphs.word_id.get(word, graphs.word_id[UNK]) for word in words]  # or one made of pieces
        self.costs = [[graphs.probs.of(word, pron).costs for pron in graphs.lexicon[word]] for word in words]
        self.junctions: dict[tuple[Place, int], dict[int, int]] = defaultdict(dict)
        self.fst.start = self.fst.add_state()
        for place, right, cost in self._after(0, graphs.probs.of(BOS).costs):
            self._arc(0, 0, 0, cost, self._junction(place, EPS_PHONE, right))
        for number in range(len(words) + 1):
            self._silence(number)
            if number < len(words):
                self._word(number)
        for left, state in self.junctions[(len(words), 0, 0), EPS_PHONE].items():
            self.fst.set_final(state, self._cost(graphs.probs.of(EOS).costs, left))

    def _cost(self, costs: Costs, left: int) -> float:
        """Of a word that comes after the phone ``left``."""
        return costs.after_silence if left == self.graphs.silence else costs.after_word

    def _after(self, number: int, costs: Costs) -> list[tuple[Place, int, float]]:
        """What may follow before word ``number``: silence, or the word; ``costs`` are those of the word before."""
        silence = ((number, -1, 0), self.graphs.silence, costs.silence)
        return [*self._firsts(number, costs.no_silence), silence]

    def _firsts(self, number: int, cost: float) -> list[tuple[Place, int, float]]:
        """The first phones of word ``number``, or the end."""
        if number < len(self.prons):
            firsts = list(dict.fromkeys(pron[0] for pron in self.prons[number]))
        else:
            firsts = [EPS_PHONE]
        return [((number, 0, 0), first, cost) for first in firsts]

    def _silence(self, number: int) -> None:
        self._phones((number, -1, 0), self.graphs.silence, [Branch(self._firsts(number, 0.0))])

    def _word(self, number: int) -> None:
        starts: dict[int, list[Branch]] = defaultdict(list)  # first phone -> branches that begin with it
        for variant, pron in enumerate(self.prons[number]):
            following, costs = self._following(number, variant, 0), self.costs[number][variant]
            starts[pron[0]].append(Branch(following, self.labels[number], costs))
        for phone, branches in starts.items():
            self._phones((number, 0, 0), phone, branches)
        for variant, pron in enumerate(self.prons[number]):
            for i in range(1, len(pron)):
                self._phones((number, variant, i), pron[i], [Branch(self._following(number, variant, i))])

    def _following(self, number: int, variant: int, i: int) -> list[tuple[Place, int, float]]:
        """What may follow phone ``i`` of a pronunciation: (place, right phone, cost)."""
        pron = self.prons[number][variant]
        if i + 1 == len(pron):
            return self._after(number + 1, self.costs[number][variant])
        return [((number, variant, i + 1), pron[i + 1], 0.0)]

    def _phones(self, place: Place, phone: int, branches: list[Branch]) -> None:
        """Add the HMMs of ``phone`` at ``place``, for each left phone and for the phones that follow."""
        for left, source in self.junctions[place, phone].items():
            chains: list[tuple[Branch, tuple[int, ...], list]] = []
            for branch in branches:
                by_pdfs: dict[tuple[int, ...], list] = defaultdict(list)  # following phones with the same HMM
                for next_place, right, cost in branch.following:
                    exit_state = self._junction(next_place, phone, right)
                    by_pdfs[self.graphs.pdfs(left, phone, right)].append((exit_state, cost))
                chains += [(branch, pdfs, exits) for pdfs, exits in by_pdfs.items()]
            for branch, pdfs, exits in chains:
                first = source
                if branch.label or len(chains) > 1:  # the first HMM state must belong to this chain alone
                    first = self.fst.add_state()
                    self._arc(source, 0, branch.label, self._cost(branch.costs, left), first)
                self._hmm(phone, pdfs, first, exits)

    def _hmm(self, phone: int, pdfs: tuple[int, ...], first: int, exits: list[tuple[int, float]]) -> None:
        states = [first, *(self.fst.add_state() for _ in pdfs[1:])]
        for state, pdf, transitions in zip(states, pdfs, self.graphs.hmm.topology.states[phone]):
            for (destination, _), cost in zip(transitions, self.graphs.hmm_costs[pdf]):
                if destination < len(states):
                    self._arc(state, pdf + 1, 0, cost, states[destination])
                    continue
                for exit_state, exit_cost in exits:
                    self._arc(state, pdf + 1, 0, cost + exit_cost, exit_state)

    def _junction(self, place: Place, left: int, right: int) -> int:
        states = self.junctions[place, right]
        if left not in states:
            states[left] = self.fst.add_state()
        return states[left]

    def _arc(self, source: int, ilabel: int, olabel: int, cost: float, target: int) -> None:
        self.fst.add_arc(source, StdArc(ilabel, olabel, cost, target))
