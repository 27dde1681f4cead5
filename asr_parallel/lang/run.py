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
from asr_parallel.data.text import normalise
from asr_parallel.files import atomic, write_json, write_text
from asr_parallel.lang import general, mix
from asr_parallel.lang.arpa import read_arpa
from asr_parallel.lang.dictionary import read_dictionary
from asr_parallel.lang.fst import grammar_fst, lexicon_fst, pairs_of
from asr_parallel.lang.g2p import Pronouncer
from asr_parallel.lang.lexicon import (
    BOS,
    EOS,
    SIL,
    SILENCE_WORD,
    SPN,
    UNK,
    Lexicon,
    Pron,
    disambiguate,
    phone_table,
    read_symbols,
    word_table,
    write_symbols,
)
from asr_parallel.lang.ngram import Ngram, kneser_ney, perplexity, write_arpa
from asr_parallel.lang.vocabulary import check_vocabulary
from asr_parallel.log import UserError, logger

log = logger(__name__)
TOP = 20  # unknown words that are shown

Lines = list[list[str]]


def run(config: LangConfig) -> None:
    """Leave the language directory ``config.out``; the texts of the test sets are only counted."""
    texts = {name: read_texts(config.data, name) for name in (config.train, *config.dev, *config.test)}
    prons = read_dictionary(config.lexicon) if config.lexicon else None
    if config.lm:
        model, weight, parts = read_arpa(config.lm), 0.0, dict[str, Any]()
    else:
        model, weight, parts = language_model(config, texts)
    if prons:
        model = pronounced(model, prons, config.lm or f"texts of {config.train}")
    elif config.lm:
        check_vocabulary(model.words, {UNK, *(w for line in texts[config.train] for w in line)}, config.lm)
    words = [w for w in model.words if w not in (BOS, EOS, UNK, SILENCE_WORD)]
    lexicon = Lexicon(prons) if prons else make_lexicon(words, texts[config.train], config.out)
    write_lang(lexicon, config.out)
    write_grammar(model, config.out)
    report = {
        "words": len(model.words) - 2,
        "ngrams": model.sizes(),
        "weight_train": weight,
        "sets": {name: {**set_report(lines, model), **parts.get(name, {})} for name, lines in texts.items()},
    }
    show(report)
    write_json(config.out / "lang.json", report)


def read_texts(data: Path, name: str) -> Lines:
    """Words of each utterance of a set."""
    path = cuts_path(data, name)
    lines = []
    for cut in read_jsonl(path):
        try:
            lines.append([word for s in cut["supervisions"] for word in (s.get("text") or "").split()])
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{path}: cut {cut.get('id')!r} has no supervisions; prepare the set again") from None
    if not any(lines):
        raise UserError(f"{path} has no words; a language model needs text")
    return lines


def language_model(config: LangConfig, texts: dict[str, Lines]) -> tuple[Ngram, float, dict[str, Any]]:
    """The model of the graph, the weight of the training texts in it, and the components' perplexities."""
    own = kneser_ney([line for line in texts[config.train] if line], config.order)
    if config.general == "none":
        return own, 1.0, {}
    english = general.read_trie(general.model_dir() / "en-us.lm.bin")
    spelling = vocabulary(own, english, config.vocab_size)
    own = mix.restrict(own, list(spelling), {}, config.order)
    names = {theirs: ours for ours, theirs in spelling.items()}
    english = mix.restrict(english, own.words, names, config.order)
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
        *(source, len(lost), sum(model.sizes()) - sum(small.sizes()), " ".join(lost[:TOP])),
    )
    return small


def vocabulary(own: Ngram, english: Ngram, size: int) -> dict[str, str]:
    """{word: the general model's spelling of it}: training words, then the likeliest general ones up to ``size``.

    Words that our normalisation would never write are left out.  Letters are ``b.`` there and ``B`` here.
    """
    have = {word.upper() for word in english.words}
    words = {word: word for word in own.words}
    for i in np.argsort(-english.logp[0], kind="stable"):
        theirs = english.words[i]
        ours = theirs.upper()
        if len(ours) == 2 and ours[1] == "." and ours[0] not in have:
            ours = ours[0]
        if ours in words or (len(words) < size + 2 and normalise(ours) == ours):
            words[ours] = theirs
    return words


def make_lexicon(words: Sequence[str], train: Lines, out: Path) -> Lexicon:
    """Lexicon of ``words``; those that no dictionary has are listed in ``oov_g2p.txt``."""
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
    marked, highest = disambiguate(lexicon)
    phones, words = phone_table(lexicon.phones, highest), word_table(lexicon.prons)
    lexicon.write(out / "lexicon.txt")
    Lexicon.read(out / "lexicon.txt")  # what it checks must hold for what we wrote
    write_symbols(out / "phones.txt", phones)
    write_symbols(out / "words.txt", words)
    phone_id, word_id = ({s: i for i, s in enumerate(table)} for table in (phones, words))
    plain = lexicon_fst(pairs_of(lexicon.prons), phone_id, word_id)
    disambiguated = lexicon_fst(marked, phone_id, word_id, f"#{highest + 1}")
    for name, fst in (("L.fst", plain), ("L_disambig.fst", disambiguated)):
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
