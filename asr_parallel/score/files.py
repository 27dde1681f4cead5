"""``score --ref R --hyp H``: the rates of a file of hypotheses, whatever made it."""

from __future__ import annotations

import json
from typing import Any

from asr_parallel.config import ScoreConfig
from asr_parallel.files import write_text
from asr_parallel.log import UserError
from asr_parallel.score import report
from asr_parallel.score.oov import load_vocabulary, oov_figures, oov_table
from asr_parallel.score.sources import formats_of, refuse_idle, score_pair, wording_of
from asr_parallel.score.summary import figures, finite, warn, write_details
from asr_parallel.score.wer import SetScore, kaldi_line, kaldi_report


def score_files(config: ScoreConfig) -> None:
    """Print the rates, as text or JSON; with ``config.out`` write the details there."""
    refuse_idle(config, ("model", "data", "pairs", "lmwt", "wip"), "is for lattices, not for --ref and --hyp")
    ref, hyp = config.ref, config.hyp
    if not (ref and hyp):
        raise UserError(f"--{'hyp' if ref else 'ref'} is not given: want --ref and --hyp")
    score = score_pair(config, ref, hyp)
    warn(str(hyp), score)
    said = {"ref": str(ref), "hyp": str(hyp), "mode": config.mode or "strict", "costs": config.costs}
    summary = said | figures(score, config.seed)
    if config.vocabulary:
        known = load_vocabulary(config.vocabulary, wording_of(config, *formats_of(config, ref, hyp)))
        summary |= oov_figures(score, known)
        if config.out:
            write_text(config.out / "oov.tsv", oov_table(score, known))
    if config.out:
        write_details(config.out, score, summary)
        write_text(config.out / "wer", kaldi_report(score.counts, len(score.missing)))
    print(json.dumps(summary, indent=1, ensure_ascii=False) if config.json else in_words(score, summary), flush=True)


def in_words(score: SetScore, summary: dict[str, Any]) -> str:
    """Kaldi's three lines, the character error rate, the interval, and a table of speakers and one of subsets."""
    lines = [kaldi_report(score.counts, len(score.missing)).rstrip()]
    if c := score.chars:
        lines.append(kaldi_line(c).replace("%WER", "%CER"))
    else:
        lines.append("There is no %CER: an utterance is too long to be aligned by its characters.")
    if summary["ci95"]:
        low, high = summary["ci95"]
        lines.append(f"95 % interval of the WER: {low:.2f} to {high:.2f} ({summary['ci95_unit']} were drawn)")
    if summary.get("oov_words"):
        right = f"{summary['oov_right']} of {summary['oov_words']} words that training never had are right"
        lines.append(f"{right} ({summary['oov_recall']:.1f} %); {summary['oov_heard']} such words were heard.")
    if finite(score.counts.wer) is None:
        lines.append("There are no reference words, so that there is no rate.")
    groups = [report.per_spk(score)] if len(score.speakers()) > 1 else []
    groups += [report.per_subset(score)] if score.subsets() else []
    return "\n".join([*lines, *(f"\n{_columns(g)}" for g in groups)])


def _columns(tsv: str) -> str:
    rows = [line.split("\t") for line in tsv.splitlines()]
    wide = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join([r[0].ljust(wide[0]), *map(str.rjust, r[1:], wide[1:])]) for r in rows)
