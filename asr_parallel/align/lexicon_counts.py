"""Probabilities of pronunciations and of silence between words, learnt from alignments.

Chen, Xu, Povey and Khudanpur (Interspeech 2015), as Kaldi's ``dict_dir_add_pronprobs.sh``.  What was said is read off
the phones of an alignment: each word in the pronunciation that fits, with or without silence after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.labels import Labels
from asr_parallel.lang.lexicon import BOS, EOS, SIL, UNK, Pron
from asr_parallel.lang.lexicon_probs import OTHER, EntryProbs, LexiconProbs
from asr_parallel.log import logger

LOG = logger(__name__)
# What is added to counts, of what would be expected without them (lambda 2 and 3 of the paper).
SILENCE_AFTER, SILENCE_BEFORE = 2.0, 2.0
Entry = tuple[str, Pron]
Prons = Mapping[str, Sequence[Pron]]
Ways = dict[int, tuple[int, Entry, bool]]  # to a place in the phones: from which, by what, and whether with silence
FIRST, LAST = (BOS, ()), (EOS, ())


def learn(hmm: HmmModel, labels: Labels, words: Mapping[str, Sequence[str]], prons: Prons) -> LexiconProbs:
    """Probabilities by the labels of utterances, whose transcripts are ``words``."""
    counts, unread = LexiconCounts(), []
    for utt, phones in phones_said(hmm, labels):
        said = entries_said(words[utt], phones, prons)
        if said is None:
            unread.append(utt)
        else:
            counts.add(said)
    if unread:
        text = "%d utterances have labels that do not fit their words, %s first: not counted"
        LOG.warning(text, len(unread), unread[0])
    return counts.probs(prons)


def phones_said(hmm: HmmModel, labels: Labels) -> Iterator[tuple[str, Pron]]:
    """Each utterance with the names of its phones."""
    starts = hmm.phone_starts(labels.pdfs)
    starts[labels.offsets[:-1][np.diff(labels.offsets) > 0]] = True
    for utt in labels.utts:
        here = slice(*labels.span(utt))
        yield utt, tuple(hmm.phones[p] for p in hmm.tree.pdf_phone[labels.pdfs[here][starts[here]]])


def entries_said(words: Sequence[str], phones: Pron, prons: Prons) -> list[tuple[Entry, bool]] | None:
    """(word, pronunciation) of each of ``words``, and whether silence follows; that of BOS is the first.

    None if the phones are no pronunciation of the words.  If they are in several ways, it is one of them.
    """
    words = [word if word in prons else UNK for word in words]
    ways = [_with_silence({}, phones, 0, 0, FIRST)]
    for word in words:
        after: Ways = {}
        for pron in prons[word]:
            for begin in ways[-1]:
                end = begin + len(pron)
                if phones[begin:end] == pron:
                    _with_silence(after, phones, begin, end, (word, pron))
        ways.append(after)
    return _walked_back(ways, len(phones))


def _with_silence(ways: Ways, phones: Pron, begin: int, end: int, entry: Entry) -> Ways:
    """``ways`` to positions in ``phones``, with those that ``entry`` from ``begin`` to ``end`` leads to."""
    ways.setdefault(end, (begin, entry, False))
    if phones[end : end + 1] == (SIL,):
        ways.setdefault(end + 1, (begin, entry, True))
    return ways


def _walked_back(ways: list[Ways], end: int) -> list[tuple[Entry, bool]] | None:
    if end not in ways[-1]:
        return None
    said = []
    for step in reversed(ways):
        end, entry, silence = step[end]
        said.append((entry, silence))
    return said[::-1]


@dataclass
class LexiconCounts:
    """Of all utterances: C(v w), the pairs of entries, and of them those with silence between, C(v s w)."""

    pairs: Counter[tuple[Entry, Entry]] = field(default_factory=Counter)
    silent: Counter[tuple[Entry, Entry]] = field(default_factory=Counter)

    def add(self, said: Iterable[tuple[Entry, bool]]) -> None:
        """Count an utterance of ``entries_said``."""
        for (before, silence), (after, _) in pairwise([*said, (LAST, False)]):
            self.pairs[before, after] += 1
            self.silent[before, after] += silence

    def probs(self, prons: Prons) -> LexiconProbs:
        """Probabilities of the entries of all words that were said, and those of all others."""
        share = (self.silent.total() + 1) / (self.pairs.total() + 2)
        count, silences = _sums(self.pairs, 0), _sums(self.silent, 0)
        after = {e: (silences[e] + SILENCE_AFTER * share) / (n + SILENCE_AFTER) for e, n in count.items()}
        expected: dict[Entry, float] = defaultdict(float)  # silences before an entry, by the words before it alone
        for (before, entry), n in self.pairs.items():
            expected[entry] += n * after[before]
        arrived, silent = _sums(self.pairs, 1), _sums(self.silent, 1)
        entries: dict[Entry, EntryProbs] = {(OTHER, ()): EntryProbs(silence_after=share)}
        words = sorted({word for word, _ in count} - {BOS})
        for entry in (FIRST, LAST, *((word, pron) for word in words for pron in prons[word])):
            most = max(count[entry[0], pron] for pron in prons.get(entry[0], [()]))
            n, s, e = arrived[entry], silent[entry], expected[entry]
            entries[entry] = EntryProbs(
                (count[entry] + 1) / (most + 1),
                after.get(entry, share),
                (s + SILENCE_BEFORE) / (e + SILENCE_BEFORE),
                (n - s + SILENCE_BEFORE) / (n - e + SILENCE_BEFORE),
                count[entry] or n,
            )
        return LexiconProbs(entries)


def _sums(pairs: Counter[tuple[Entry, Entry]], side: int) -> Counter[Entry]:
    sums: Counter[Entry] = Counter()
    for pair, n in pairs.items():
        sums[pair[side]] += n
    return sums
