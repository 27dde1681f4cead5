# Where programs are. Sourced by every recipe; edit it for your site.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ -d "$root/.venv/bin" ] && export PATH="$root/.venv/bin:$PATH"
export PYTHONUNBUFFERED=1 LC_ALL=C.UTF-8
if ! command -v asr-parallel >/dev/null; then
  echo "$0: asr-parallel is not installed: run 'make setup' in $root, or activate the environment that has it" >&2
  exit 1
fi
