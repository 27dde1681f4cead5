"""Verb ``prepare``: a corpus in one of several forms becomes ``SET/{recordings,supervisions,cuts}.jsonl.gz``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asr_parallel.config import PrepareConfig
from asr_parallel.data import manifests
from asr_parallel.data.audio import Audio
from asr_parallel.files import write_json, write_text
from asr_parallel.log import UserError, logger
from asr_parallel.prepare import forms, sound
from asr_parallel.prepare.check import Checker, clean_id
from asr_parallel.prepare.item import NOT_MEANT, SETS, Fault, Item, utt_of
from asr_parallel.prepare.split import split

log = logger(__name__)

FOUND = "prepare_found.tsv"
SHOWN = 5


def run(config: PrepareConfig) -> None:
    """Leave manifests of all sets, ``prepare.json`` with all counts, and a list of what was left out or mended.

    Raises ``UserError`` if more than ``max_bad`` of the utterances are of no use.
    """
    _check(config)
    form, told = forms.read(config.source, config.form)
    items = list(told)
    paths = sorted({item.audio for item in items if isinstance(item, Item)})
    audio = sound.look(paths, config.num_jobs())
    checker = Checker(config, audio)
    for item in items:
        checker.add(item)
    headers = {item.audio: head for item in checker.kept.values() if isinstance(head := audio[item.audio], Audio)}
    _list_faults(config, checker, len(items))  # here, too, for conversion may take long
    rate = config.rate or sound.usual_rate(headers.values())
    utts = _with_audio(config, checker, headers, rate)
    _list_faults(config, checker, len(items))
    report = {"form": form, "read": len(items), "kept": len(utts), **_counts(checker), "rate": rate}
    shares = {"dev": config.dev, "test": config.test}
    sets, how = split(utts, {utt: item.set for utt, item in checker.kept.items()}, shares, config.seed)
    rows = {name: [utt for utt in utts if sets[utt.id] == name] for name in SETS if name in sets.values()}
    _write(config.out, rows)
    report |= {"split": how, "sets": {name: _summary(members) for name, members in rows.items()}}
    write_json(config.out / "prepare.json", report)
    _show(report, rows)


def _check(config: PrepareConfig) -> None:
    """Raise ``UserError`` for numbers that make no sense."""
    for name in ("dev", "test"):
        if not 0 <= (share := getattr(config, name)) <= 0.5:
            raise UserError(f"--{name} {share:g}: a share of the corpus from 0 to 0.5 is wanted, such as 0.1")
    if config.rate < 0 or config.max_seconds < 0 or not 0 <= config.max_bad <= 1:
        raise UserError("--rate and --max_seconds are not negative, and --max_bad is from 0 to 1")


def _write(out: Path, rows: Mapping[str, Sequence[manifests.Utt]]) -> None:
    """The manifests of all sets; those of sets that an earlier run had and this one has not are removed."""
    for name in SETS:
        if name in rows:
            manifests.write(out / name, rows[name])
        else:
            for path in (out / name).glob("*.jsonl.gz"):
                path.unlink()


def _with_audio(
    config: PrepareConfig, checker: Checker, headers: Mapping[Path, Audio], rate: int
) -> list[manifests.Utt]:
    """What is kept, with audio of one rate; utterances whose audio can't be converted join those that are dropped."""
    kept = checker.kept
    names = _recordings(kept.values(), config.source)
    ready, failed = sound.convert(names, headers, rate, config.out / "audio", config.num_jobs())
    for utt, item in list(kept.items()):
        if item.audio in failed:
            checker.dropped.append(Fault(utt, item.where, "unusable audio", f"{item.audio} {failed[item.audio]}"))
            del kept[utt]
    language = "English" if config.text == "english" else None
    return [_utt(item, names[item.audio], *ready[item.audio], language) for _, item in sorted(kept.items())]


def _recordings(items: Iterable[Item], source: Path) -> dict[Path, str]:
    """An id for each audio file: the corpus' own, that of its only utterance, or one made of its path."""
    items = list(items)
    uses = Counter(item.audio for item in items)
    names: dict[Path, str] = {}
    taken = set[str]()
    for item in sorted(items, key=lambda item: item.utt):
        if item.audio not in names:
            name = item.recording or (item.utt if uses[item.audio] == 1 else utt_of(item.audio, source))
            name = clean_id(name)
            while name in taken:
                name += "_"
            names[item.audio] = name
            taken.add(name)
    return names


def _utt(item: Item, recording: str, path: Path, audio: Audio, language: str | None) -> manifests.Utt:
    """A row of the manifests; times are whole samples."""
    start = round(item.start * audio.rate)
    length = min(round(item.end * audio.rate), audio.frames) - start
    part = (start / audio.rate, length / audio.rate) if (start, length) != (0, audio.frames) else (0.0, None)
    return manifests.Utt(
        *(item.utt, item.speaker, item.text, str(path), audio.rate, audio.frames),
        *(recording, *part, item.channel or 0, audio.channels, language),
    )


def _counts(checker: Checker) -> dict[str, dict[str, int]]:
    dropped, mended = (Counter(f.kind for f in faults) for faults in (checker.dropped, checker.mended))
    return {"dropped": dict(sorted(dropped.items())), "mended": dict(sorted(mended.items()))}


def _list_faults(config: PrepareConfig, checker: Checker, total: int) -> None:
    """Write what was found where; raise ``UserError`` if too much was dropped."""
    rows = [("dropped", fault) for fault in checker.dropped] + [("mended", fault) for fault in checker.mended]
    lines = (f"{what}\t{f.utt}\t{f.where}\t{f.kind}\t{' '.join(f.detail.split())}\n" for what, f in rows)
    write_text(config.out / FOUND, "what\tutt\twhere\tkind\tdetail\n" + "".join(lines))
    bad = [fault for fault in checker.dropped if fault.kind != NOT_MEANT]
    for fault in bad[:SHOWN]:
        log.warning("%s: %s: %s (%s)", fault.where, fault.utt, fault.kind, fault.detail)
    if len(bad) == 0 and not checker.kept:
        raise UserError(f"--from {config.source} has no utterances")
    if len(bad) > config.max_bad * total or not checker.kept:
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(fault.kind for fault in bad).most_common())
        raise UserError(
            f"{len(bad)} of {total} utterances of {config.source} are of no use ({kinds}), listed in "
            f"{config.out / FOUND}, first: {bad[0].where}: {bad[0].utt}: {bad[0].kind} ({bad[0].detail}). "
            f"Mend them, or allow more with --max_bad, now {config.max_bad:g}"
        )


def _summary(utts: Sequence[manifests.Utt]) -> dict[str, Any]:
    return {
        "utts": len(utts),
        "speakers": len({utt.speaker for utt in utts}),
        "minutes": round(sum(utt.duration for utt in utts) / 60, 2),
        "words": sum(len(utt.text.split()) for utt in utts),
    }


def _show(report: dict[str, Any], rows: Mapping[str, Sequence[manifests.Utt]]) -> None:
    """Counts in and out; what a user may not have meant."""
    for what in ("dropped", "mended"):
        kinds = ", ".join(f"{n} {kind}" for kind, n in report[what].items())
        print(f"{what}: {sum(report[what].values())} of {report['read']} utterances{kinds and f' ({kinds})'}")
    print(f"{report['split']}; {report['rate']} Hz")
    for name, s in report["sets"].items():
        print(
            f"{name:<8}{s['utts']:>8} utts{s['speakers']:>7} speakers{s['minutes']:>9.1f} minutes{s['words']:>9} words"
        )
    everyone = [utt for utts in rows.values() for utt in utts]
    if len(everyone) > 1 and all(utt.speaker == utt.id for utt in everyone):
        log.warning("nothing says who speaks: each utterance is a speaker of its own; --speaker folder or one helps")
    known = {utt.text for utt in rows["train"]}
    for name in ("dev", "test"):
        if same := sum(utt.text in known for utt in rows.get(name, [])):
            log.warning("%d of %d texts of %s are in train, too: its WER will flatter", same, len(rows[name]), name)
