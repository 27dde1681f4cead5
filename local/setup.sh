#!/usr/bin/env bash
# Make .venv and install the package with its dependencies. Needs no root. usage: local/setup.sh PYTHON
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "setup: Python 3.11 or newer is needed, found: $("$python" --version 2>&1 || echo none)." >&2
  echo "  Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv; or give another: make setup PYTHON=/path/to/python3.11" >&2
  exit 1
fi
free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
if [ "$free" -lt 8 ] && [ ! -x .venv/bin/asr-parallel ]; then
  echo "setup: $free GiB are free here; PyTorch's wheels need about 7 GiB. Make room or clone to another disk." >&2
  exit 1
fi

if [ ! -x .venv/bin/pip ]; then
  rm -rf .venv
  if ! "$python" -m venv .venv 2>.venv.log && ! "$python" -m virtualenv .venv >>.venv.log 2>&1; then
    cat .venv.log >&2
    echo "setup: $python can make no virtual environment. With root: apt-get install python3-venv." >&2
    echo "  Without: $python -m pip install --user virtualenv, then make setup again." >&2
    rm -rf .venv
    exit 1
  fi
  rm -f .venv.log
fi

echo "setup: installing into .venv (PyTorch comes with it: about 3 GB to download the first time)" >&2
.venv/bin/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
echo "setup: compiling the decoder's inner loops (numba keeps them)" >&2
OMP_NUM_THREADS=1 .venv/bin/python -c "import asr_parallel.decode.search, asr_parallel.lang.arrays, asr_parallel.score.align"
touch .venv/.installed
echo "setup: done; 'make doctor' checks it" >&2
