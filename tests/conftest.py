"""What tests of several packages share."""

from pathlib import Path

import pytest


@pytest.fixture
def kaldilm_grammar():
    """A function: kaldilm makes ``G.fst`` of ``lm.arpa`` and ``words.txt`` in a folder; gives its path."""
    import kaldilm

    def make(folder: Path, order: int) -> Path:
        symbols = str(folder / "words.txt")
        arpa, out = str(folder / "lm.arpa"), folder / "G.fst"
        kaldilm.arpa2fst(arpa, str(out), disambig_symbol="#0", read_symbol_table=symbols, max_order=order)
        return out

    return make
