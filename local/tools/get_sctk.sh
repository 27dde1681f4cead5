#!/usr/bin/env bash
# Put NIST's sclite, sc_stats and rfilter1 (Debian's package sctk) into a folder, without root, and print the folder.
# usage: local/tools/get_sctk.sh [FOLDER]; by default a folder in the user's cache. Nothing is done if they are there.
set -euo pipefail
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/asr_parallel/sctk}
tools=$folder/usr/lib/sctk/bin

if [ ! -x "$tools/sclite" ]; then
  for need in apt-get dpkg-deb; do
    command -v $need >/dev/null || { echo "get_sctk: $need is needed (Debian, Ubuntu)" >&2; exit 1; }
  done
  mkdir -p "$folder"
  scratch=$(mktemp -d "$folder/.get.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  # a machine whose package lists were never fetched gets them into the scratch folder
  own=(-o "Dir::State::Lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
  cd "$scratch"
  apt-get -qq download sctk >/dev/null 2>&1 || {
    mkdir -p lists/partial cache/archives/partial
    apt-get -qq "${own[@]}" update >&2 && apt-get -qq "${own[@]}" download sctk >&2
  }
  dpkg-deb -x sctk_*.deb package
  mv -T package/usr "$folder/usr" || [ -x "$tools/sclite" ] # another may have been faster
fi
echo "$tools"
