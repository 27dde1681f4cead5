"""The language model of a graph: texts of the corpus mixed with general English, over words or over pieces of them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asr_parallel.config import LangConfig
from asr_parallel.data.text import normalise
from asr_parallel.lang import general, mix
from asr_parallel.lang.lexicon import BOS, EOS, Pron
from asr_parallel.lang.ngram import Ngram, kneser_ney, perplexity
from asr_parallel.lang.pieces import Pieces
from asr_parallel.lang.sampling import sample
from asr_parallel.lang.vocabulary import check_vocabulary
from asr_parallel.log import UserError, logger

log = logger(__name__)
TELLING = 5  # words from which on a sentence is taken for that of one speaker
GENERAL_ORDER = 3  # of the general model
SHOWN = 20  # words that are left out

Lines = list[list[str]]
Made = tuple[Ngram, float, dict[str, Any]]  # a model, the weight of the corpus in it, figures of its parts for each set


def language_model(config: LangConfig, texts: Mapping[str, Lines]) -> Made:
    """The model of the words of the training texts and of ``--text``, mixed as ``--general`` says."""
    own = kneser_ney(own_text(config, texts), config.order)
    if config.general == "none":
        return own, 1.0, {}
    english = general_english(config, own.words, config.order)
    return _mixed(config, texts, mix.restrict(own, english.words, {}, config.order), english)


def piece_model(config: LangConfig, texts: Mapping[str, Lines], pieces: Pieces) -> Made:
    """The same of pieces; the part of general English is trained on sentences that its model of words has drawn."""
    own = own_text(config, texts)
    drawn: Lines = []
    if config.general != "none":
        words = [BOS, EOS, *sorted({word for line in own for word in line})]
        drawn = sample(general_english(config, words, GENERAL_ORDER), config.general_sentences)
    own, drawn = ([pieces.encode(line) for line in lines] for lines in (own, drawn))
    known = {*pieces.vocabulary, *(piece for lines in (own, drawn) for line in lines for piece in line)}
    model = kneser_ney(own, config.order, known)
    if not drawn:
        return model, 1.0, {}
    texts = {name: [pieces.encode(line) for line in lines] for name, lines in texts.items()}
    return _mixed(config, texts, model, kneser_ney(drawn, config.order, known))


def own_text(config: LangConfig, texts: Mapping[str, Lines]) -> Lines:
    """Lines of the training set and of ``--text`` that are not empty.

    Sentences of ``--text`` that dev or test sets hold as well are left out: they would make the model look better than
    it is.  Those of a few words stay, anyone may say them.
    """
    held = {tuple(line) for name in (*config.dev, *config.test) for line in texts[name] if len(line) >= TELLING}
    more = [line for path in config.text for line in read_lines_of(path)]
    kept = [line for line in more if tuple(line) not in held]
    if len(kept) < len(more):
        log.warning("%d lines of --text stand in dev or test sets and are left out", len(more) - len(kept))
    return [line for line in (*texts[config.train], *kept) if line]


def read_lines_of(path: Path) -> Lines:
    """Words of each line of a text, plain or ``.gz``; words are written as in the transcripts."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"--text {path}: is no text in UTF-8, plain or .gz ({error})") from None
    log.info("%s: %d lines, %d words for the language model", path, len(lines), sum(map(len, lines)))
    return lines


def general_english(config: LangConfig, own: Sequence[str], order: int) -> Ngram:
    """The general model over the words ``own`` and its likeliest, up to ``vocab_size``."""
    english = general.read_trie(general.model_dir() / "en-us.lm.bin")
    spelling = vocabulary(own, english, config.vocab_size)
    names = {theirs: ours for ours, theirs in spelling.items()}
    return mix.restrict(english, list(spelling), names, order)


def _mixed(config: LangConfig, texts: Mapping[str, Lines], own: Ngram, english: Ngram) -> Made:
    """The mixture that suits the dev sets best, pruned."""
    dev = [line for name in config.dev for line in texts[name]]
    p, q = (np.exp(np.nan_to_num(model.score(dev), nan=-np.inf)) for model in (own, english))
    weight = mix.best_weight(*(x[(p > 0) | (q > 0)] for x in (p, q)))
    mixed = mix.interpolate(own, english, weight)
    log.info("language model: weight %.3f for the training texts, %s n-grams", weight, mixed.sizes())
    parts = {
        name: {
            "perplexity_train_part": perplexity(own.score(lines)),
            "perplexity_general_part": perplexity(english.score(lines)),
            "perplexity_before_pruning": perplexity(mixed.score(lines)),
        }
        for name, lines in texts.items()
    }
    return mix.prune(mixed, config.prune), weight, parts


def pronounced(model: Ngram, prons: Mapping[str, Sequence[Pron]], source: Path | str) -> Ngram:
    """The model without words that the user's lexicon lacks; raises UserError as ``check_vocabulary``."""
    known = check_vocabulary(model.words, prons, source)
    lost = sorted(set(model.words) - set(known))
    if not lost:
        return model
    small = mix.restrict(model, known, {}, model.order)
    log.warning(
        "%s: %d words have no pronunciation and are left out with their %d n-grams: %s",
        *(source, len(lost), sum(model.sizes()) - sum(small.sizes()), " ".join(lost[:SHOWN])),
    )
    return small


def vocabulary(own: Sequence[str], english: Ngram, size: int) -> dict[str, str]:
    """{word: the general model's spelling of it}: the words ``own``, then the likeliest general ones up to ``size``.

    Words that our normalisation would never write are left out.  Letters are ``b.`` there and ``B`` here.
    """
    have = {word.upper() for word in english.words}
    words = {word: word for word in own}
    for i in np.argsort(-english.logp[0], kind="stable"):
        theirs = english.words[i]
        ours = theirs.upper()
        if len(ours) == 2 and ours[1] == "." and ours[0] not in have:
            ours = ours[0]
        if ours in words or (len(words) < size + 2 and normalise(ours) == ours):
            words[ours] = theirs
    return words
