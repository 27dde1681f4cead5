"""Verb ``import-lattices``: lattices that Kaldi has made, to score, rescore and take hypotheses from."""

from __future__ import annotations

from asr_parallel.config import ImportLatticesConfig
from asr_parallel.decode.kaldi_text import read_kaldi, write_hypotheses
from asr_parallel.files import write_json
from asr_parallel.lang.lexicon import read_symbols
from asr_parallel.log import UserError, logger

log = logger(__name__)


def run(config: ImportLatticesConfig) -> None:
    """Leave ``lattices.npz`` and ``hyp.txt``, as ``decode`` would, and ``import.json`` under ``config.out``.

    Raises UserError if words and numbers do not go together, and as ``read_kaldi``.
    """
    if config.lmwt <= 0:
        raise UserError("--lmwt must be positive")
    names = dict(enumerate(read_symbols(config.words))) if config.words else None
    lattices = read_kaldi(config.lattices, names)
    if names is None and (numbers := [w for w in lattices.words if w.isdigit()]) and len(numbers) > 1:
        log.warning("%s has words such as %s: give --words if they are numbers", config.lattices, numbers[0])
    lattices.save(config.out / "lattices.npz")
    hyps = lattices.best_all(config.lmwt, 0.0)
    write_hypotheses(hyps, config.out / "hyp.txt")
    empty = [utt for utt, flag in zip(lattices.utts, lattices.flags) if flag == "empty"]
    write_json(config.out / "import.json", {"utts": len(hyps), "arcs": len(lattices.lattice.src), "empty": empty})
    log.info("%d utterances, %d of them without a path", len(hyps), len(empty))
