"""References and hypotheses from the files that a user names, in whatever formats they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from asr_parallel.config import CompareWordsConfig, VerbConfig
from asr_parallel.log import UserError, logger
from asr_parallel.score.align import COSTS
from asr_parallel.score.filters import load_filter
from asr_parallel.score.references import hypotheses, references
from asr_parallel.score.timed import by_file, into_segments, read_ctm, read_stm, segments_as_utterances
from asr_parallel.score.transcripts import Format, Utterance, format_of, read, read_utt2spk
from asr_parallel.score.wer import SetScore, score_set
from asr_parallel.score.wording import Wording

log = logger(__name__)
Texts = dict[str, Utterance]


def read_pair(config: CompareWordsConfig, ref: Path, hyp: Path) -> tuple[Texts, Texts]:
    """Utterances of both files by id; words of a CTM go to the segments of an STM by their times."""
    formats = formats_of(config, ref, hyp)
    if formats == ("stm", "ctm"):
        segments = read_stm(ref)
        return segments_as_utterances(ref, segments), into_segments(segments, read_ctm(hyp))
    return _by_id(ref, formats[0]), _by_id(hyp, formats[1])


def formats_of(config: CompareWordsConfig, ref: Path, hyp: Path) -> tuple[Format, Format]:
    """As the options say, else by the names of the files."""
    both = None if config.format == "auto" else config.format
    own = both if config.hyp_format == "auto" else config.hyp_format
    return both or format_of(ref), own or format_of(hyp)


def _by_id(path: Path, kind: Format) -> Texts:
    if kind == "stm":
        return segments_as_utterances(path, read_stm(path))
    if kind == "ctm":
        return by_file(path, read_ctm(path))
    return read(path, kind)


def wording_of(config: CompareWordsConfig, *formats: Format) -> Wording:
    """How texts become words; ``alternates auto`` means where a format or a filter may bring them."""
    filters = [load_filter(path) for path in config.filter]
    auto = bool(filters) or bool({"trn", "stm", "ctm"} & set(formats))
    alternates = auto if config.alternates == "auto" else config.alternates == "yes"
    return Wording(config.unicode, filters, config.fold_case, alternates)


def score_pair(config: CompareWordsConfig, ref: Path, hyp: Path) -> SetScore:
    """Score file ``hyp`` against file ``ref``."""
    texts, heard = read_pair(config, ref, hyp)
    formats = formats_of(config, ref, hyp)
    wording = wording_of(config, *formats)
    refs = references(texts, wording, _speakers(config, ref, formats[0]))
    return score_set(refs, hypotheses(heard, wording), str(hyp), config.mode or "strict", COSTS[config.costs])


def _speakers(config: CompareWordsConfig, ref: Path, kind: Format) -> dict[str, str] | None:
    """From ``--utt2spk``, or from the file of this name beside a Kaldi text."""
    beside = ref.parent / "utt2spk"
    if config.utt2spk is None and kind == "text" and beside.exists():
        log.info("speakers are those of %s", beside)
        return read_utt2spk(beside)
    return read_utt2spk(config.utt2spk) if config.utt2spk else None


def refuse_idle(config: VerbConfig, options: Iterable[str], why: str) -> None:
    """UserError if one of ``options`` was given, which this call would not read."""
    usual = {f.name: f for f in fields(config)}
    for name in options:
        f = usual[name]
        default = f.default_factory() if callable(f.default_factory) else f.default
        if getattr(config, name) != default:
            raise UserError(f"--{name} {why}")
