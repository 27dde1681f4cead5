"""The forms of corpora that can be read, and how to tell which one a folder has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asr_parallel.log import UserError, logger
from asr_parallel.prepare import beside, kaldi_dirs, lhotse_manifests, stm, table
from asr_parallel.prepare.item import Fault, Item

log = logger(__name__)


@dataclass(frozen=True)
class Form:
    """What a form looks like, whether a folder has it, and its reader."""

    looks: str
    claims: Callable[[Path], bool]
    read: Callable[[Path], Iterator[Item | Fault]]


FORMS = {  # in the order in which a folder is asked
    "kaldi": Form("data directories with wav.scp, text, utt2spk", kaldi_dirs.claims, kaldi_dirs.read),
    "lhotse": Form("recordings and supervisions, or cuts (*.jsonl.gz)", lhotse_manifests.claims, lhotse_manifests.read),
    "librispeech": Form("*.trans.txt beside UTT.flac", beside.claims_librispeech, beside.read_librispeech),
    "stm": Form("*.stm and audio files of their names", stm.claims, stm.read),
    "common_voice": Form("clips/ and train.tsv or validated.tsv", table.claims_common_voice, table.read_common_voice),
    "table": Form("*.csv or *.tsv with columns path and text", table.claims_table, table.read_table),
    "files": Form("a.wav and a.txt", beside.claims_files, beside.read_files),
}


def read(source: Path, form: str) -> tuple[str, Iterator[Item | Fault]]:
    """The form that a corpus has, if ``form`` is ``auto``, and its utterances."""
    if not source.exists():
        raise UserError(f"--from {source} is not there")
    if form == "auto":
        claimed = [name for name, known in FORMS.items() if known.claims(source)]
        if not claimed:
            known = "".join(f"\n  {name:13} {known.looks}" for name, known in FORMS.items())
            raise UserError(f"{source} has none of the forms that can be read:{known}")
        form, *others = claimed
        log.info("%s: form %s%s", source, form, f" (--form {' or '.join(others)} could be meant, too)" * bool(others))
    return form, FORMS[form].read(source)
