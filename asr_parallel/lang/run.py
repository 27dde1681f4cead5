"""``asr-parallel lang``: lexicon, symbol tables, language model, L and G."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kaldifst
import numpy as np

from asr_parallel.config import LangConfig, cuts_path
from asr_parallel.data.manifests import read_jsonl
from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.dictionary import SPECIAL, read_dictionary
from asr_parallel.lang.fst import disambiguated_fst, grammar_fst, lexicon_fst, pairs_of
from asr_parallel.lang.g2p import Pronouncer
from asr_parallel.lang.graphemes import spelt
from asr_parallel.lang.language_model import Lines, Made, language_model, own_text, piece_model, pronounced
from asr_parallel.lang.lexicon import (
    BOS,
    EOS,
    SIL,
    SILENCE_WORD,
    SPN,
    UNK,
    Lexicon,
    Pron,
    check_symbol,
    disambiguate,
    phone_table,
    read_symbols,
    word_table,
    write_symbols,
)
from asr_parallel.lang.ngram import Ngram, perplexity, write_arpa
from asr_parallel.lang.pieces import MODEL, Pieces
from asr_parallel.lang.vocabulary import check_vocabulary
from asr_parallel.log import UserError, logger

log = logger(__name__)
TOP = 20  # unknown words that are shown


def run(config: LangConfig) -> None:
    """Leave the language directory ``config.out``; the texts of the test sets are only counted."""
    check(config)
    texts = {name: read_texts(config.data, name) for name in (config.train, *config.dev, *config.test)}
    said = sorted({word for line in texts[config.train] for word in line})
    write_text(config.out / "vocabulary.txt", "".join(f"{word}\n" for word in said))
    prons = read_dictionary(config.lexicon) if config.lexicon else None
    if pieces := make_pieces(config, texts):
        model, weight, parts = piece_model(config, texts, pieces)
        texts = {name: [pieces.encode(line) for line in lines] for name, lines in texts.items()}
    else:
        model, weight, parts = word_model(config, texts, prons)
    words = [w for w in model.words if w not in (BOS, EOS, UNK, SILENCE_WORD)]
    write_lang(Lexicon(prons) if prons else make_lexicon(config, words, texts[config.train]), config.out)
    write_grammar(model, config.out)
    report = {
        "units": config.units,
        "words": len(model.words) - 2,
        "ngrams": model.sizes(),
        "weight_train": weight,
        "sets": {name: {**set_report(lines, model), **parts.get(name, {})} for name, lines in texts.items()},
    }
    show(report)
    write_json(config.out / "lang.json", report)


def check(config: LangConfig) -> None:
    """Raise UserError for options that contradict each other."""
    if config.lm and config.text:
        raise UserError("--text is for our own language model and --lm is another; give one of the two")
    if config.lexicon and config.units != "phone":
        raise UserError(f"--lexicon has pronunciations, --units {config.units} spells words; give one of the two")
    if config.lm and config.units == "subword":
        raise UserError("--units subword makes its own language model, of its pieces: leave out --lm")
    if config.spelling == "whole" and config.units != "subword":
        raise UserError(f"--spelling whole is for --units subword, not {config.units}: leave it out")
    if config.grapheme_positions and config.units != "grapheme":
        raise UserError(f"--grapheme_positions is for --units grapheme, not {config.units}: leave it out")


def make_pieces(config: LangConfig, texts: Mapping[str, Lines]) -> Pieces | None:
    """Pieces of the words of our texts, written to the language directory; None if words stay whole."""
    (config.out / MODEL).unlink(missing_ok=True)  # of other options
    if config.units != "subword":
        return None
    pieces = Pieces.train((word for line in own_text(config, texts) for word in line), config.pieces)
    pieces.write(config.out)
    return pieces


def word_model(config: LangConfig, texts: Mapping[str, Lines], prons: Mapping[str, Sequence[Pron]] | None) -> Made:
    """The user's model or ours, without words that the user's lexicon lacks."""
    made = (read_arpa(config.lm), 0.0, dict[str, Any]()) if config.lm else language_model(config, texts)
    if prons:
        return pronounced(made[0], prons, config.lm or f"texts of {config.train}"), *made[1:]
    if config.lm:
        check_vocabulary(made[0].words, {UNK, *(w for line in texts[config.train] for w in line)}, config.lm)
    return made


def read_texts(data: Path, name: str) -> Lines:
    """Words of each utterance of a set."""
    path = cuts_path(data, name)
    lines, known = [], set[str]()
    for cut in read_jsonl(path):
        try:
            lines.append([word for s in cut["supervisions"] for word in (s.get("text") or "").split()])
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{path}: cut {cut.get('id')!r} has no supervisions; prepare the set again") from None
        for word in sorted(set(lines[-1]) - known):
            check_symbol(word, f"{path}: cut {cut.get('id')!r}")
        known.update(lines[-1])
    if not any(lines):
        raise UserError(f"{path} has no words; a language model needs text")
    return lines


def make_lexicon(config: LangConfig, words: Sequence[str], train: Lines) -> Lexicon:
    """Lexicon of ``words`` in the units that ``config`` says."""
    if config.units == "phone":
        return phone_lexicon(words, train, config.out)
    if config.spelling == "whole":
        return Lexicon(dict(sorted({**{word: ((word,),) for word in words}, **SPECIAL}.items())))
    return spelt(words, config.grapheme_positions)


def phone_lexicon(words: Sequence[str], train: Lines, out: Path) -> Lexicon:
    """Lexicon of phones; words that no dictionary has are listed in ``oov_g2p.txt``."""
    pronounce = Pronouncer(set(words))
    prons: dict[str, tuple[Pron, ...]] = {SILENCE_WORD: ((SIL,),), UNK: ((SPN,),)}
    guessed = []
    counts = Counter(word for line in train for word in line)
    for word in words:
        prons[word], source = pronounce(word)
        if source != "dictionary":
            guessed.append((-counts[word], word, source))
    lines = [f"{w}\t{-n}\t{source}\t{' '.join(p)}\n" for n, w, source in sorted(guessed) for p in prons[w]]
    write_text(out / "oov_g2p.txt", "word\tcount\tsource\tpronunciation\n" + "".join(lines))
    log.info("lexicon: %d words, %d of them not in the dictionaries (oov_g2p.txt)", len(words), len(guessed))
    return Lexicon(dict(sorted(prons.items())))


def write_lang(lexicon: Lexicon, out: Path) -> None:
    """Write lexicon.txt, phones.txt, words.txt, L.fst and L_disambig.fst."""
    phones, words = phone_table(lexicon.phones, disambiguate(lexicon)[1]), word_table(lexicon.prons)
    lexicon.write(out / "lexicon.txt")
    Lexicon.read(out / "lexicon.txt")  # what it checks must hold for what we wrote
    write_symbols(out / "phones.txt", phones)
    write_symbols(out / "words.txt", words)
    phone_id, word_id = ({s: i for i, s in enumerate(table)} for table in (phones, words))
    plain = lexicon_fst(pairs_of(lexicon.prons), phone_id, word_id)
    for name, fst in (("L.fst", plain), ("L_disambig.fst", disambiguated_fst(lexicon, phones, words))):
        with atomic(out / name) as temporary:
            fst.write(str(temporary))


def write_grammar(model: Ngram, out: Path) -> None:
    """Write lm.arpa.gz and G.fst."""
    write_arpa(model, out / "lm.arpa.gz")
    word_id = {symbol: i for i, symbol in enumerate(read_symbols(out / "words.txt"))}
    fst = grammar_fst(model, word_id).to_fst()
    kaldifst.connect(fst)
    kaldifst.arcsort(fst, "ilabel")
    with atomic(out / "G.fst") as temporary:
        fst.write(str(temporary))


def set_report(lines: Lines, model: Ngram) -> dict[str, Any]:
    """Counts and perplexity of a text, sentence ends counted as words.

    ``perplexity`` leaves unknown words out; ``perplexity_with_oov`` gives each the probability of the least likely
    word that the model knows.
    """
    known = set(model.words)
    words = [word for line in lines for word in line]
    unknown = Counter(word for word in words if word not in known)
    logp = model.score(lines)
    least = model.logp[0][np.isfinite(model.logp[0])].min()
    return {
        "lines": len(lines),
        "words": len(words),
        "oov": sum(unknown.values()),
        "oov_rate": sum(unknown.values()) / len(words),
        "perplexity": perplexity(logp),
        "perplexity_with_oov": perplexity(np.nan_to_num(logp, nan=least)),
        "top_oov": dict(unknown.most_common(TOP)),
    }


def show(report: dict[str, Any]) -> None:
    for name, s in report["sets"].items():
        counts = f"{name}: {s['words']} words, {s['oov']} ({100 * s['oov_rate']:.2f} %) unknown"
        log.info("%s, perplexity %.1f without and %.1f with them", counts, s["perplexity"], s["perplexity_with_oov"])
        if "perplexity_train_part" in s:
            parts = [s[f"perplexity_{key}"] for key in ("train_part", "general_part", "before_pruning")]
            log.info("  training texts alone %.1f, general English alone %.1f, mixture before pruning %.1f", *parts)
        if s["top_oov"]:
            log.info("  unknown: %s", " ".join(f"{word}:{n}" for word, n in s["top_oov"].items()))
