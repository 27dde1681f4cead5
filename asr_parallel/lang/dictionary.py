"""A dictionary that the user brings: Kaldi's ``lexicon.txt``, with its lists of phones if they lie beside it."""

from __future__ import annotations

from pathlib import Path

from asr_parallel.lang.lexicon import SIL, SILENCE_PHONES, SILENCE_WORD, SPN, UNK, Pron, check_entry, read_text_lines
from asr_parallel.log import UserError

SPECIAL = {SILENCE_WORD: ((SIL,),), UNK: ((SPN,),)}


def read_dictionary(path: Path) -> dict[str, tuple[Pron, ...]]:
    """{word: pronunciations} of ``WORD PHONE PHONE ...`` lines, with ``!SIL SIL`` and ``<unk> SPN`` in any case.

    ``silence_phones.txt`` and ``nonsilence_phones.txt`` in the same folder are checked as well.  Raises UserError
    naming file and line.
    """
    if not path.exists():
        raise UserError(f"--lexicon {path} is not there: give Kaldi's lexicon.txt, WORD PHONE PHONE ... a line")
    found: dict[str, dict[Pron, None]] = {}
    silence, others = (_phones(path.parent / f"{kind}_phones.txt") for kind in ("silence", "nonsilence"))
    _check_sets(path.parent, silence, others)
    for number, line in enumerate(read_text_lines(path), 1):
        word, *pron = line.split()
        where = f"{path}:{number}"
        if not line.replace("\t", " ").isprintable():
            raise UserError(f"{where}: {line!a} has blanks other than spaces and tabs, or control characters; mend it")
        check_entry(word, tuple(pron), where)
        if others:
            for phone in pron:
                if phone not in others and phone not in SILENCE_PHONES:
                    raise UserError(f"{where}: phone '{phone}' is not in nonsilence_phones.txt beside it")
        if tuple(pron) in found.setdefault(word, {}):
            raise UserError(f"{where}: '{line.strip()}' stands twice; remove one")
        if word in SPECIAL and (tuple(pron),) != SPECIAL[word]:
            raise UserError(f"{where}: '{word}' is pronounced '{' '.join(SPECIAL[word][0])}' in this project")
        found[word][tuple(pron)] = None
    if all(pron[0] == "1" for variants in found.values() for pron in variants):
        raise UserError(f"{path}:1: '1' before all pronunciations is a probability, not a phone; remove that column")
    prons = {word: tuple(variants) for word, variants in found.items()} | SPECIAL
    return dict(sorted(prons.items()))


def _phones(path: Path) -> dict[str, int]:
    """{phone: line} of a list of phones; a line may have several variants.  Empty if there is no such file."""
    if not path.exists():
        return {}
    return {phone: n for n, line in enumerate(read_text_lines(path), 1) for phone in line.split()}


def _check_sets(folder: Path, silence: dict[str, int], others: dict[str, int]) -> None:
    for phone, line in silence.items():
        if phone in others:
            raise UserError(
                f"{folder}/nonsilence_phones.txt:{others[phone]}: phone '{phone}' is in silence_phones.txt:{line} too; "
                "a phone is one or the other"
            )
        if phone not in SILENCE_PHONES:
            raise UserError(
                f"{folder}/silence_phones.txt:{line}: '{phone}': silence phones are {SIL} and {SPN} here; "
                f"make noises {SPN}"
            )
    for phone in SILENCE_PHONES:
        if phone in others:
            raise UserError(f"{folder}/nonsilence_phones.txt:{others[phone]}: '{phone}' is a silence phone here")
