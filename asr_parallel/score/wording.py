"""How texts become words that are compared: references and hypotheses alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from asr_parallel.log import UserError
from asr_parallel.score.filters import Filter, Side
from asr_parallel.score.network import Words, parse

UnicodeForm = Literal["NFC", "NFKC", "none"]


@dataclass(frozen=True)
class Wording:
    """Unicode to one form, filters one after another, case folded if wanted, then words between blanks of any kind.

    With ``alternates``, braces hold a choice and ``@`` is the empty word (``network.py``).
    """

    unicode: UnicodeForm = "NFC"
    filters: Sequence[Filter] = ()
    fold: bool = False
    alternates: bool = False

    def text(self, text: str, side: Side) -> str:
        """``text`` as it is compared, words separated by single blanks."""
        text = self._form(text)
        for rewrite in self.filters:
            text = rewrite(text, side)
        if self.fold:
            text = self._form(text.casefold())
        return " ".join(text.split())

    def _form(self, text: str) -> str:
        return text if self.unicode == "none" else unicodedata.normalize(self.unicode, text)

    def words(self, text: str, side: Side, where: str) -> Words:
        """Words of ``text``.  UserError names ``where`` on alternates that are none."""
        text = self.text(text, side)
        if not self.alternates:
            return text.split()
        try:
            return parse(text)
        except UserError as e:
            raise UserError(f"{where}: {e}; --alternates no takes braces for words") from None


PLAIN = Wording()
