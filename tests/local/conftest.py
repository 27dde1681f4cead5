"""The scripts of `local/` are no package: make them importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "local"))
