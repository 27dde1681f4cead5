"""``asr-parallel VERB [--config FILE.toml] [--option value] [--group.option value]``.

Options come from the dataclass of the verb in ``config/``; a TOML file gives defaults for this call,
the command line has the last word.  A verb whose result is fresh does nothing and says so.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import platform
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from asr_parallel import config as C
from asr_parallel import log, stages

VERBS: dict[str, tuple[type[C.VerbConfig], str]] = {
    "prepare": (C.PrepareConfig, "asr_parallel.prepare.run"),
    "validate": (C.ValidateConfig, "asr_parallel.data.validate"),
    "features": (C.FeaturesConfig, "asr_parallel.data.features"),
    "lang": (C.LangConfig, "asr_parallel.lang.run"),
    "align": (C.AlignConfig, "asr_parallel.align.run"),
    "adapt": (C.AdaptConfig, "asr_parallel.align.adapt"),
    "realign": (C.RealignConfig, "asr_parallel.align.realign"),
    "classes": (C.ClassesConfig, "asr_parallel.align.classes"),
    "pretrain": (C.PretrainConfig, "asr_parallel.pretrain.run"),
    "train": (C.TrainConfig, "asr_parallel.train.run"),
    "graph": (C.GraphConfig, "asr_parallel.decode.make_graph"),
    "decode": (C.DecodeConfig, "asr_parallel.decode.decode"),
    "classify": (C.ClassifyConfig, "asr_parallel.decode.classify"),
    "rescore": (C.RescoreConfig, "asr_parallel.decode.rescore"),
    "hypotheses": (C.HypothesesConfig, "asr_parallel.decode.hypotheses"),
    "import-kaldi": (C.ImportKaldiConfig, "asr_parallel.kaldi.import_run"),
    "export-kaldi": (C.ExportKaldiConfig, "asr_parallel.kaldi.export_run"),
    "import-lattices": (C.ImportLatticesConfig, "asr_parallel.decode.import_lattices"),
    "score": (C.ScoreConfig, "asr_parallel.score.run"),
    "compare": (C.CompareConfig, "asr_parallel.score.compare"),
    "results": (C.ResultsConfig, "asr_parallel.results.run"),
    "report": (C.ReportConfig, "asr_parallel.results.report.run"),
    "info": (C.InfoConfig, "asr_parallel.results.info"),
    "project": (C.ProjectConfig, "asr_parallel.results.project"),
    "doctor": (C.DoctorConfig, "asr_parallel.doctor"),
}


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point of the console script; always exits: 0 only when the work is whole."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--version":
        print(f"asr-parallel {metadata.version('asr_parallel')}")
        sys.exit(0)
    if arguments[0] == "--root":
        sys.exit(print_root())
    verb = arguments[0]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, 1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        print(f"asr-parallel: no verb `{verb}`.{hint} `asr-parallel --help` lists them.", file=sys.stderr)
        sys.exit(2)
    log.setup()
    try:
        code = run(verb, parse(verb, arguments[1:]))
        sys.stdout.flush()
        sys.exit(code)
    except log.UserError as error:
        print(f"asr-parallel {verb}: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output has left, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        print(f"asr-parallel {verb}: interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def print_root() -> int:
    """Where the recipes' shell functions are (``local/``), for recipes that were copied elsewhere."""
    root = Path(__file__).parents[1]
    if not (root / "local/stages.sh").exists():
        print("asr-parallel: installed without its recipes; set ASR_PARALLEL_ROOT to a checkout", file=sys.stderr)
        return 1
    print(root)
    return 0


def usage() -> str:
    """Text of ``asr-parallel --help``."""
    lines = ["usage: asr-parallel VERB [--config FILE.toml] [--option value ...]", "", "verbs:"]
    for verb, (config, _) in VERBS.items():
        lines.append(f"  {verb:10s} {(config.__doc__ or '').splitlines()[0]}")
    lines += ["", "`asr-parallel VERB --help` lists the options of a verb with their defaults."]
    return "\n".join(lines)


def parse(verb: str, arguments: list[str]) -> C.VerbConfig:
    """Configuration of ``verb`` from its arguments, those of ``--config`` files first."""
    import tyro

    files, rest = split_config(arguments)
    from_files = [a for f in files for a in toml_arguments(f)]
    try:
        return tyro.cli(
            VERBS[verb][0],
            args=from_files + rest,
            prog=f"asr-parallel {verb}",
            use_underscores=True,
            config=(tyro.conf.PositionalRequiredArgs,),
        )
    except SystemExit as stop:
        if stop.code and files:
            print(f"(options were also read from {', '.join(files)})", file=sys.stderr)
        raise


def split_config(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Take ``--config F`` and ``--config=F`` out of ``arguments``; give the files and the rest."""
    files, rest, waiting = [], [], iter(arguments)
    for a in waiting:
        if a == "--config":
            files.append(next(waiting, ""))
        elif a.startswith("--config="):
            files.append(a.removeprefix("--config="))
        else:
            rest.append(a)
    return files, rest


def toml_arguments(path: str) -> list[str]:
    """The options of a TOML file as command-line arguments: tables become ``--table.key``."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise log.UserError(f"--config {path!r}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise log.UserError(f"--config {path}: {error}") from None

    def flat(prefix: str, value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for k, v in value.items():
                yield from flat(f"{prefix}.{k}" if prefix else k, v)
        elif isinstance(value, bool):
            head, _, name = prefix.rpartition(".")
            yield f"--{head + '.' if head else ''}{'' if value else 'no_'}{name}"
        elif isinstance(value, list):
            yield from (f"--{prefix}", *map(str, value))
        else:
            yield from (f"--{prefix}", str(value))

    return list(flat("", table))


def run(verb: str, config: C.VerbConfig) -> int:
    """Run a verb unless it is fresh; log it, stamp it."""
    if os.environ.get("ASR_PARALLEL_PLAN"):
        reasons = stages.stale(verb, config)
        print(f"  {verb:10s} {'run: ' + '; '.join(reasons[:3]) if reasons else 'fresh'}")
        return 0
    tracked = bool(config.outputs())
    inputs: dict[str, stages.Fingerprint] = {}
    if tracked:
        reasons = ["--force"] if config.force else stages.stale(verb, config)
        if not reasons:
            print(f"{verb}: fresh, nothing to do ({config.home()})", file=sys.stderr)
            return 0
        stages.check_inputs(verb, config)
        inputs = {str(p): stages.fingerprint(p) for p in config.inputs()}
        if rank() == 0:
            print(f"{verb}: {'; '.join(reasons[:5])}", file=sys.stderr)
    function = importlib.import_module(VERBS[verb][1]).run
    if not tracked or rank() != 0:
        return int(function(config) or 0)
    with stage_log(verb, config):
        code = int(function(config) or 0)
    if code == 0:
        stages.stamp(verb, config, inputs)
    return code


def rank() -> int:
    """Rank of this process under a launcher (torchrun, mpirun, srun); 0 without one."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        if name in os.environ:
            return int(os.environ[name])
    return 0


@contextlib.contextmanager
def stage_log(verb: str, config: C.VerbConfig) -> Iterator[None]:
    """Log of a run: begins with command, versions, commit and host; ends with code and duration."""
    import logging

    path = config.home() / "log" / f"{verb}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    begin, code = time.monotonic(), 1
    with open(path, "a", encoding="utf-8") as stream:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("asr_parallel").addHandler(handler)
        stream.write(f"\n# {time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(sys.argv)}\n# {versions()}\n")
        stream.write(f"# commit {commit()}, host {platform.node()}, {C.cores()} cores\n")
        try:
            yield
            code = 0
        except BaseException as error:
            stream.write(f"# {type(error).__name__}: {error}\n")
            raise
        finally:
            logging.getLogger("asr_parallel").removeHandler(handler)
            stream.write(f"# code {code}, {log.duration(time.monotonic() - begin)}\n")


def versions() -> str:
    """Versions of Python and of the packages that results depend on."""
    names = ("asr_parallel", "torch", "torchaudio", "lhotse", "kaldifst", "kaldi-decoder", "numpy")
    found = []
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return f"python {platform.python_version()}, " + ", ".join(found)


def commit() -> str:
    """Git commit of the source tree, ``unknown`` outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return "unknown"
