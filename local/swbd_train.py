"""Switchboard-1 (LDC97S62) with Mississippi State's transcripts: two-channel calls to utterances, and who is held out.

A call is ``sw02001.sph``, mu-law at 8 kHz, speaker A in the first channel and B in the second; its transcripts are
``sw2001A-ms98-a-trans.text`` and ``sw2001B-...``, a line ``ID BEGIN END TEXT`` for each utterance.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swbd_calls import Bad, Call

from asr_parallel.data.manifests import Utt

TRANSCRIPT = re.compile(r"sw(\d{4})([AB])-ms98-a-trans\.text", re.IGNORECASE)
MIN_SECONDS = 0.025  # a window of features


def utterance(call: Call, side: str, begin: float, end: float, said: str) -> Utt:
    """As Kaldi names them: the side of the call, which stands for the speaker, and times in 10 ms."""
    speaker = f"{call.id}-{side}"
    name = f"{speaker}_{int(100 * begin + 0.5):06d}-{int(100 * end + 0.5):06d}"
    return Utt(
        *(name, speaker, said, str(call.audio), call.rate, call.samples, call.id, begin, round(end - begin, 6)),
        channel="AB".index(side),
        channels=2,
    )


def read_transcript(path: Path, call: Call | str, side: str, words: Callable[[str], list[str]]) -> list[Utt | Bad]:
    """Utterances of one side of a call (or all as bad, if ``call`` says why), without those in which nothing is said.

    An end after that of the audio is moved there.  (Lhotse's reader of these files gives both sides to one speaker, and
    fails without a file name on a line that has no text.)
    """
    found: list[Utt | Bad] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        where, fields = f"{path}:{number}", line.split(maxsplit=3)
        if not fields:
            continue
        try:
            begin, end = (float(f) for f in fields[1:3])
        except ValueError:
            found.append(Bad(where, "no times"))
            continue
        if said := words(fields[3] if len(fields) > 3 else ""):
            found.append(checked(call, side, begin, end, " ".join(said), where))
    return found


def checked(call: Call | str, side: str, begin: float, end: float, said: str, where: str) -> Utt | Bad:
    """The utterance, or what is wrong with its audio or its times."""
    if isinstance(call, str):
        return Bad(f"{where}: {call}", "no audio")
    if not 0 <= begin < end:
        return Bad(where, "times that are no stretch")
    end = min(end, call.seconds)
    if end - begin < MIN_SECONDS:
        return Bad(where, "after the end of the audio, or too short")
    return utterance(call, side, begin, end, said)


def read_callers(path: Path) -> dict[str, str]:
    """{side of a call, as ``sw02001-A``: number of the caller} of LDC's ``call_con_tab.csv``."""
    with open(path, encoding="utf-8", newline="") as f:
        rows = [[cell.strip(' "') for cell in row] for row in csv.reader(f, skipinitialspace=True)]
    return {f"sw0{call}-{side}": who for call, side, who, *_ in (r for r in rows if len(r) > 2) if side in ("A", "B")}


def fraction(name: str) -> float:
    """A number in [0, 1) that depends on the name only."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def hold_out(utts: Sequence[Utt], share: float, how: str, callers: Mapping[str, str]) -> tuple[list[Utt], list[Utt]]:
    """Train and dev: the last ``share`` of the utterances by id (``utterances``, as in the paper's code), or speakers.

    Whole callers are held out until the share is reached, in the order of a hash; callers that are not known are the
    calls, with both sides.
    """
    utts = sorted(utts, key=lambda u: u.id)
    wanted = max(1, round(share * len(utts)))
    if how == "utterances":
        return utts[:-wanted], utts[-wanted:]

    def who(utt: Utt) -> str:
        return callers.get(utt.speaker, utt.recording)

    sizes, out, held = Counter(map(who, utts)), set[str](), 0
    for name in sorted(sizes, key=fraction):
        if held >= wanted:
            break
        out.add(name)
        held += sizes[name]
    return [u for u in utts if who(u) not in out], [u for u in utts if who(u) in out]


def without_repeats(utts: Iterable[Utt], most: int) -> list[Utt]:
    """Of equal texts the first ``most`` utterances (0: all); there are ``YEAH`` and ``UH-HUH`` by the thousand."""
    seen = Counter[str]()
    kept = []
    for utt in utts:
        seen[utt.text] += 1
        if not most or seen[utt.text] <= most:
            kept.append(utt)
    return kept
