#!/usr/bin/env bash
# Put headless Chromium (Debian's package chromium-headless-shell) and what it needs into a folder, without root, and
# print the program. usage: local/tools/get_chromium.sh [FOLDER]; by default a folder in the user's cache.
# Nothing is done if it is there; a chromium that the system has is taken first.
set -euo pipefail
for known in chromium chromium-headless-shell chromium-browser google-chrome; do
  if [ $# = 0 ] && command -v $known; then exit; fi
done
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/asr_parallel/chromium}
program=$folder/chromium

if [ ! -x "$program" ]; then
  for need in apt-get apt-cache dpkg-deb; do
    command -v $need >/dev/null || { echo "get_chromium: $need is needed (Debian, Ubuntu)" >&2; exit 1; }
  done
  mkdir -p "$folder"
  scratch=$(mktemp -d "$folder/.get.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  own=(-o "Dir::State::Lists=$scratch/lists" -o "Dir::Cache=$scratch/cache" -o Debug::NoLocking=1)
  cd "$scratch"
  mkdir -p lists/partial cache/archives/partial debs root
  apt-get -qq "${own[@]}" update >&2
  # what an installation would bring onto this machine, and no more
  apt-get -qq "${own[@]}" -s --no-install-recommends install chromium-headless-shell fonts-dejavu-core \
    | awk '$1 == "Inst" {print $2}' >packages
  (cd debs && xargs apt-get -qq "${own[@]}" download <../packages >&2)
  for package in debs/*.deb; do dpkg-deb -x "$package" root; done
  mv -T root "$folder/root" || [ -x "$program" ] # another may have been faster
  cat >"$program.$$" <<EOF
#!/bin/sh
root=$folder/root
export LD_LIBRARY_PATH=\$(echo \$root/usr/lib/*-linux-gnu \$root/usr/lib/*-linux-gnu/pulseaudio \$root/lib/*-linux-gnu | tr ' ' ':')
exec \$root/usr/lib/chromium/chromium-headless-shell "\$@"
EOF
  chmod +x "$program.$$"
  mv "$program.$$" "$program"
fi
echo "$program"
