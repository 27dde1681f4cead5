"""Pieces of words by SentencePiece (Kudo & Richardson 2018), of which words never seen can be put together.

A piece that begins a word bears a mark; the others go on with it.  Text is never changed on the way: joining the pieces
of a sentence gives the very words.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from asr_parallel.files import atomic
from asr_parallel.lang.graphemes import graphemes
from asr_parallel.lang.lexicon import SILENCE_WORD, UNK, Lexicon, Pron
from asr_parallel.log import UserError

MARK = "▁"
ALONE = (SILENCE_WORD, UNK)  # words that are no pieces
MODEL = "pieces.model"  # in a language directory


def join(symbols: Sequence[str]) -> list[str]:
    """Words of a hypothesis of pieces; a hypothesis of words is left as it is."""
    return [word for word, _ in joined(symbols, range(len(symbols)))]


def joined(symbols: Sequence[str], values: Iterable[float]) -> list[tuple[str, float]]:
    """The same with the least of the ``values`` of a word's pieces."""
    words: list[tuple[str, float]] = []
    open_word = False
    for symbol, value in zip(symbols, values, strict=True):
        if open_word and not symbol.startswith(MARK) and symbol not in ALONE:
            word, least = words.pop()
            words.append((word + symbol, min(least, value)))
            continue
        open_word = symbol.startswith(MARK)
        words.append((symbol.removeprefix(MARK), value))
    return words


def going_on(symbols: Iterable[str]) -> set[str]:
    """Of the words of a lexicon those that are pieces and do not begin a word; none if it is one of words."""
    symbols = set(symbols)
    if not any(symbol.startswith(MARK) for symbol in symbols):
        return set()
    return {symbol for symbol in symbols if not symbol.startswith(MARK) and symbol not in ALONE}


class Pieces:
    """A trained SentencePiece model."""

    def __init__(self, model: bytes):
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._known: dict[str, list[str]] = {}

    @classmethod
    def train(cls, words: Iterable[str], size: int) -> Pieces:
        """Learn at most ``size`` pieces (a unigram model, Kudo 2018) of the words of a text.

        Raises UserError if a word has the mark in it, or ``size`` is less than the characters need.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_checked(word for word in words if word not in ALONE),
                model_writer=model,
                vocab_size=size,
                hard_vocab_limit=False,
                normalization_rule_name="identity",
                character_coverage=1.0,
                split_by_unicode_script=False,  # 'S may be a piece
                bos_id=-1,
                eos_id=-1,
                num_threads=1,  # others add up in another order
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(f"--pieces {size}: SentencePiece refuses ({error}); give another number") from None
        return cls(model.getvalue())

    @classmethod
    def read(cls, lang_dir: Path) -> Pieces:
        """Read what ``write`` left.  Raises UserError if it is missing or damaged."""
        path = lang_dir / MODEL
        try:
            pieces = cls(path.read_bytes())
            if not pieces.model:
                raise OSError("it is empty")
            return pieces
        except (OSError, RuntimeError) as error:
            raise UserError(f"{path} is missing or damaged ({error}); run 'asr-parallel lang' again") from None

    def write(self, lang_dir: Path) -> None:
        with atomic(lang_dir / MODEL) as temporary:
            temporary.write_bytes(self.model)

    def encode(self, words: Iterable[str]) -> list[str]:
        """Pieces of a sentence.  Every one of a word that has a letter has a letter, so that it can be spelt."""
        return [piece for word in words for piece in self._of(word)]

    def _of(self, word: str) -> list[str]:
        if word not in self._known:
            self._known[word] = [word] if word in ALONE else _with_sound(self._processor.encode(word, out_type=str))
        return self._known[word]

    @cached_property
    def vocabulary(self) -> list[str]:
        """Pieces with a sound, and each of their characters as one that begins a word and as one that goes on."""
        processor, found = self._processor, dict[str, None]()
        for number in range(processor.get_piece_size()):
            piece = processor.id_to_piece(number)
            if processor.is_unknown(number) or not graphemes(piece):
                continue
            chars = [char for char in piece.removeprefix(MARK) if graphemes(char)]
            found.update(dict.fromkeys([piece, *chars, *(MARK + char for char in chars)]))
        return sorted(found)


def _checked(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if MARK in word:
            raise UserError(f"word '{word}' has SentencePiece's mark {MARK} in it: remove it from the texts")
        yield word


def _with_sound(pieces: list[str]) -> list[str]:
    """``pieces`` of a word with those that have no letter, such as the bare mark, put to their neighbours."""
    whole: list[str] = []
    for piece in pieces:
        if whole and not (graphemes(whole[-1]) and graphemes(piece)):
            whole[-1] += piece
        else:
            whole.append(piece)
    return whole


class PieceLexicon(Mapping[str, tuple[Pron, ...]]):
    """Pronunciations of all words whose pieces the ``lexicon`` has, known or not; they are those of the pieces."""

    def __init__(self, pieces: Pieces, lexicon: Lexicon):
        self.pieces, self.lexicon = pieces, lexicon.prons

    def __getitem__(self, word: str) -> tuple[Pron, ...]:
        if word in ALONE:
            return self.lexicon[word]
        return (tuple(phone for piece in self.pieces.encode([word]) for phone in self.lexicon[piece][0]),)

    def __iter__(self) -> Iterator[str]:
        return iter(ALONE)

    def __len__(self) -> int:
        return len(ALONE)


def pronunciations(lang_dir: Path) -> Mapping[str, tuple[Pron, ...]]:
    """{word: pronunciations} for the words of transcripts: the lexicon's, or spelt by way of its pieces."""
    lexicon = Lexicon.read(lang_dir / "lexicon.txt")
    return PieceLexicon(Pieces.read(lang_dir), lexicon) if going_on(lexicon.prons) else lexicon.prons
