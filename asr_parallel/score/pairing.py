"""Which utterances are scored when some have no hypothesis, or no reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from asr_parallel.log import UserError

Mode = Literal["strict", "all", "present"]


@dataclass(frozen=True)
class Pairing:
    """``scored`` ids in the order of the references; those ``missing`` a hypothesis; those with nothing but one."""

    scored: list[str]
    missing: list[str]
    extra: list[str]


def pair(refs: Iterable[str], hyps: Mapping[str, Any], mode: Mode, what: str = "hypotheses") -> Pairing:
    """``strict`` refuses what has no partner, ``all`` scores a missing hypothesis as empty, ``present`` leaves it out.

    Only ``present`` lets hypotheses without reference pass, and leaves them out.  UserError if there is none with.
    """
    known = dict.fromkeys(refs)
    extra = [utt for utt in hyps if utt not in known]
    missing = [utt for utt in known if utt not in hyps]
    if len(missing) == len(known):
        raise UserError(f"{what}: none of the {len(known)} reference utterances has a hypothesis; {_e_g(known, hyps)}")
    if extra and mode != "present":
        raise UserError(
            f"{what}: {len(extra)} of {len(hyps)} utterances have no reference, e.g. {', '.join(extra[:3])}. "
            "Were they decoded from another set or another version of it? --mode present leaves them out"
        )
    if missing and mode == "strict":
        raise UserError(
            f"{what}: {len(missing)} of {len(known)} utterances have no hypothesis, e.g. {', '.join(missing[:3])}. "
            "--mode all scores them as empty, --mode present leaves them out"
        )
    return Pairing([u for u in known if u in hyps] if mode == "present" else list(known), missing, extra)


def _e_g(refs: Mapping[str, Any], hyps: Mapping[str, Any]) -> str:
    if not hyps:
        return "there are no hypotheses at all"
    return f"ids of references look like {next(iter(refs))}, of hypotheses like {next(iter(hyps))}"
