"""What is fresh and what is stale.

A stamp is written in the home of a verb (``VerbConfig.home``) when it has succeeded.  It holds the options that matter,
and the fingerprints of inputs and outputs.  A verb is fresh when all of them are still the same; if not,
``stale`` says what differs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from asr_parallel.config import VerbConfig
from asr_parallel.files import file_hash, read_json, write_json
from asr_parallel.log import UserError

Fingerprint = list  # [size in bytes, modification time in ns, sha256 or ""]
HASHED_BELOW = 1 << 28  # larger files are known by size and time alone


def options(config: VerbConfig) -> dict[str, Any]:
    """The options that the result depends on, flat: ``{"model.layers": 4, ...}``, as JSON values."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for k, v in value.items():
                walk(f"{prefix}.{k}" if prefix else k, v)
        else:
            flat[prefix] = value

    plain = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    walk("", {k: v for k, v in plain.items() if k not in type(config).NOT_HASHED})
    return flat | config.state()


def fingerprint(path: Path) -> Fingerprint:
    """Size, time and (for files that are not huge) content of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, file_hash(path) if status.st_size < HASHED_BELOW else ""]


def unchanged(path: Path, known: Fingerprint) -> bool:
    """Whether ``path`` still is what ``known`` says; the content is read only if the time differs."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != known[0]:
        return False
    return status.st_mtime_ns == known[1] or (bool(known[2]) and file_hash(path) == known[2])


def stamp_path(verb: str, config: VerbConfig) -> Path:
    """Where the stamp of a run of ``verb`` lies: in its home."""
    names = sorted(str(p) for p in config.outputs())
    short = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    return config.home() / ".stamps" / f"{verb}-{short}.json"


def stale(verb: str, config: VerbConfig) -> list[str]:
    """Why ``verb`` has to run; empty when its result is fresh."""
    path = stamp_path(verb, config)
    if not path.exists():
        return ["not done yet"]
    try:
        stamp = read_json(path)
        before = stamp["options"]
        known_inputs, known_outputs = stamp["inputs"], stamp["outputs"]
    except (ValueError, KeyError):
        return [f"stamp {path} is damaged"]
    now = options(config)
    reasons = [f"option {k}: {before.get(k, 'absent')} -> {now.get(k, 'absent')}" for k in changed(config, before)]
    inputs = {str(p) for p in config.inputs()}
    reasons += [f"new input {p}" for p in sorted(inputs - known_inputs.keys())]
    reasons += [f"changed {p}" for p in sorted(inputs & known_inputs.keys()) if not unchanged(Path(p), known_inputs[p])]
    reasons += [f"missing or damaged {p}" for p, known in known_outputs.items() if not unchanged(Path(p), known)]
    return reasons


def changed(config: VerbConfig, before: dict[str, Any]) -> list[str]:
    """Names of the options of ``config`` that differ from those ``before``, sorted.

    An option that there was not yet counts as one that had its default: results outlive a new version of this package.
    """
    now, default = options(config), options(type(config)())
    names = sorted(before.keys() | now.keys())
    return [k for k in names if before.get(k, default.get(k)) != now.get(k)]


def check_inputs(verb: str, config: VerbConfig) -> None:
    """Raise ``UserError`` naming the first inputs that are not there."""
    missing = [str(p) for p in config.inputs() if not p.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            f"{verb} needs {', '.join(missing[:3])}{more}, which earlier stages leave: "
            "run them first (in a recipe: ./run.sh --stage 0, or `make plan` to see what is missing)"
        )


def stamp(verb: str, config: VerbConfig, inputs: dict[str, Fingerprint]) -> None:
    """Record that ``verb`` succeeded on ``inputs`` (fingerprints taken before it ran)."""
    missing = [str(p) for p in config.outputs() if not p.exists()]
    if missing:
        raise UserError(f"{verb} ended without an error but did not leave {', '.join(missing)}: please report this")
    outputs = {str(p): fingerprint(p) for p in config.outputs()}
    write_json(stamp_path(verb, config), {"options": options(config), "inputs": inputs, "outputs": outputs})
