"""``python -m benchmarks [NAME ...]``: measure speeds against their targets; print a table and write ``bench.json``.

Each benchmark is a file of this folder with a command line of its own (``python benchmarks/NAME.py --help``), and
prints a JSON line a figure (``figure.py``).  Ratios are measured within one run.  ``decode`` wants the experiments of
``recipes/fotaq`` and is passed over where they are missing.  The exit code is 0 when all have run, whatever the
figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DECODE = ["--model", "exp/fotaq/dnn_1", "--lattice-beam", "4", "--acwt", "0.1", "--max-active", "6000",
          "--default-beam", "10", "--beams", "10", "--utts", "150"]  # fmt: skip
OPTIONS: dict[str, list[str]] = {"features": [], "frames": [], "step": [], "workers": [], "decode": DECODE}


def measure(name: str) -> list[dict[str, Any]]:
    """Run a benchmark, show what it says, give its figures.  Raises CalledProcessError if it fails."""
    print(f"== {name}", flush=True)
    command = [sys.executable, str(HERE / f"{name}.py"), *OPTIONS[name]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def table(figures: list[dict[str, Any]]) -> str:
    """Those with a target first."""
    rows = [("figure", "value", "unit", "target", "holds")]
    for f in sorted(figures, key=lambda f: not f["target"]):
        holds = "" if f["holds"] is None else "yes" if f["holds"] else "NO"
        rows.append((f["name"], f"{f['value']:.3g}", f["unit"], f["target"], holds))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows)


def main() -> int:
    """Run the benchmarks named, or all."""
    if unknown := [name for name in sys.argv[1:] if name not in OPTIONS]:
        print(f"benchmarks: no benchmark {unknown[0]}; there are: {', '.join(OPTIONS)}")
        return 2
    names = sys.argv[1:] or list(OPTIONS)
    if "decode" in names and not Path(DECODE[1], "final.pt").exists():
        print(f"decode needs {DECODE[1]}: run `make demo` first; left out")
        names.remove("decode")
    figures: list[dict[str, Any]] = []
    try:
        for name in names:
            figures += measure(name)
    except subprocess.CalledProcessError as error:
        print(f"benchmarks: {' '.join(map(str, error.cmd))} ended with code {error.returncode}")
        return 1
    Path("bench.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
