"""Whether the words of a language model and those of a lexicon are the same words."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from asr_parallel.lang.lexicon import BOS, EOS, UNK
from asr_parallel.log import UserError

UNKNOWN = ("<UNK>", "[UNK]", "[unk]", "<unknown>", "<UNKNOWN>", "<oov>", "<OOV>", "OOV", "UNK", "unk")


def check_vocabulary(words: Collection[str], lexicon: Collection[str], path: Path | str) -> list[str]:
    """Words of the model at ``path`` that have a pronunciation, ``<s>`` and ``</s>`` first; the others are lost.

    Raises UserError if the model names its unknown word otherwise than the lexicon, or writes words in another case.
    """
    for symbol in UNKNOWN:
        if symbol in words and symbol not in lexicon:
            raise UserError(f"{path}: the unknown word is '{symbol}' there and '{UNK}' in the lexicon; rename it")
    own = [w for w in words if w not in (BOS, EOS, UNK)]
    known = [w for w in own if w in lexicon]
    for name, change in (("upper", str.upper), ("lower", str.lower)):
        if sum(change(w) in lexicon for w in own) > 2 * len(known):
            example = next(w for w in own if w not in lexicon and change(w) in lexicon)
            raise UserError(
                f"{path}: only {len(known)} of {len(own)} words are in the lexicon, but most are in {name} case, "
                f"as '{change(example)}' for '{example}'; change one of the two"
            )
    if not known:
        raise UserError(f"{path}: none of its {len(own)} words is in the lexicon")
    return [BOS, EOS, *(w for w in words if w == UNK), *known]
