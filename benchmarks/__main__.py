"""``python -m benchmarks [NAME ...]``: run the benchmarks that need no experiment, or those named.

Each is a file of this folder with a command line of its own (``python benchmarks/NAME.py --help``), which prints
ratios measured within one run.  ``decode`` wants a model and is run by name of the file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALONE = ("features", "frames")  # need neither a corpus nor a model


def main() -> int:
    """Run them one after another; the exit code is that of the first to fail."""
    here = Path(__file__).parent
    for name in sys.argv[1:] or ALONE:
        script = here / f"{name}.py"
        if not script.exists():
            known = ", ".join(sorted(p.stem for p in here.glob("[a-z]*.py")))
            print(f"benchmarks: no benchmark {name}; there are: {known}")
            return 2
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, str(script)]).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
