"""Rewriting rules and words to leave out, read from a file: NIST's global mapping files (GLM).

A rule ``[A] => [B] / [C] __ [D]`` puts B for A where C stands before and D after.  Brackets or single quotes keep
blanks at the ends, the context may be left out, ``;;`` begins a comment.  As in NIST's rfilter1 a text is read from
left to right, at each place the first rule that fits is taken, and contexts are those of the text before any rule.  B
may hold alternates.  Of the settings, ``* CASE_SENSITIVE = "F"`` counts, and one of our own: ``* DROP = "<*> [*]"``
leaves out words of such a shape, ``*`` standing for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asr_parallel.log import UserError
from asr_parallel.score.lines import numbered

Side = Literal["ref", "hyp"]
_SETTING = re.compile(r"\*\W*(\w+)[^\"']*([\"'])(.*?)\2")
_ONLY = re.compile(r";;\s+INPUT_DEPENDENT_APPLICATION\s*=\s*\"([^\"]*)\"", re.IGNORECASE)
_NAMES: dict[Side, tuple[str, str]] = {"ref": ("ref", "stm"), "hyp": ("hyp", "ctm")}  # what NIST calls the sides


@dataclass(frozen=True)
class Rule:
    """``new`` for ``old`` between ``left`` and ``right``, on the ``sides`` where it applies."""

    old: str
    new: str
    left: str
    right: str
    sides: tuple[Side, ...]

    def fits(self, text: str, at: int) -> bool:
        end = at + len(self.old)
        return text.startswith(self.old, at) and text.startswith(self.right, end) and text.endswith(self.left, 0, at)


class Filter:
    """The rules of a file."""

    def __init__(self, rules: list[Rule], drop: list[str], case_sensitive: bool = True):
        self._key = str if case_sensitive else _lower
        self._drop = re.compile("|".join(_shape(self._key(d)) for d in drop)) if drop else None
        self._rules: dict[tuple[Side, str], list[Rule]] = {}
        for r in rules:
            rule = Rule(self._key(r.old), r.new, self._key(r.left), self._key(r.right), r.sides)
            for side in rule.sides:
                self._rules.setdefault((side, rule.old[0]), []).append(rule)

    def __call__(self, text: str, side: Side) -> str:
        """``text`` after the rules; a blank stands before and after it meanwhile."""
        text = f" {' '.join(text.split())} "
        key, parts, at = self._key(text), [], 0
        while at < len(text):
            rule = next((r for r in self._rules.get((side, key[at]), ()) if r.fits(key, at)), None)
            parts.append(rule.new if rule else text[at])
            at += len(rule.old) if rule else 1
        words = "".join(parts).split()
        return " ".join(w for w in words if not (self._drop and self._drop.fullmatch(self._key(w))))


def _lower(text: str) -> str:
    """Lower case without a change of length."""
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)


def _shape(pattern: str) -> str:
    return ".*".join(re.escape(part) for part in pattern.split("*"))


def load_filter(path: Path) -> Filter:
    """Rules of a GLM file.  UserError names the line of what is no rule."""
    rules: list[Rule] = []
    settings: dict[str, str] = {}
    sides: tuple[Side, ...] = ("ref", "hyp")
    for where, text in numbered(path):
        if only := _ONLY.match(text):
            sides = _matching(only[1], where)
        elif text.startswith("*"):
            if not (setting := _SETTING.match(text)):
                raise UserError(f'{where}: want a setting such as * CASE_SENSITIVE = "F"')
            settings[setting[1].upper()] = setting[3]
        elif line := text.partition(";;")[0].strip():
            try:
                rules.append(_rule(line, sides))
            except ValueError as e:
                raise UserError(f"{where}: {e}") from None
    if settings.get("COPY_NO_HIT", "T")[:1].upper() in "FN":
        raise UserError(f"{path}: COPY_NO_HIT = {settings['COPY_NO_HIT']} would drop what no rule names; say T")
    sensitive = settings.get("CASE_SENSITIVE", "T")[:1].upper() not in "FN"
    return Filter(rules, settings.get("DROP", "").split(), sensitive)


def _matching(expression: str, where: str) -> tuple[Side, ...]:
    try:
        found = re.compile(expression, re.IGNORECASE)
    except re.error as e:
        raise UserError(f"{where}: {expression!r} is no regular expression ({e})") from None
    return tuple(side for side, names in _NAMES.items() if any(found.search(name) for name in names))


def _rule(line: str, sides: tuple[Side, ...]) -> Rule:
    """ValueError if ``line`` is no rule."""
    old, rest = _part(line, "=>")
    new, rest = _part(_after("=>", rest), "/")
    left = right = ""
    if rest:
        left, rest = _part(_after("/", rest), "__")
        right, rest = _part(_after("__", rest), "\0")
    if rest or not old:
        raise ValueError("want `A => B` or `A => B / C __ D`, A not empty, brackets in quotes")
    return Rule(old, new, left, right, sides)


def _part(text: str, stop: str) -> tuple[str, str]:
    """A string in brackets or quotes, or all up to ``stop`` without blanks at its ends; and what follows."""
    text = text.lstrip()
    for opening, closing in ("[]", "''"):
        if text.startswith(opening):
            value, found, rest = text[1:].partition(closing)
            if not found:
                raise ValueError(f"`{opening}` without `{closing}`")
            return value, rest.lstrip()
    value, found, rest = text.partition(stop)
    return value.rstrip(), found + rest


def _after(token: str, text: str) -> str:
    if not text.startswith(token):
        raise ValueError(f"want `{token}` before {text!r}: `A => B` or `A => B / C __ D`, brackets in quotes")
    return text.removeprefix(token)
