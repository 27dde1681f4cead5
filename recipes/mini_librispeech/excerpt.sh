#!/usr/bin/env bash
# The recipe on an excerpt of LibriSpeech: 251 training speakers with an utterance each, five test speakers with ten; by itself,
# at FOTAQ's sampling rate, and with FOTAQ's training set. Nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
source=../shared/data/librispeech_excerpt # folder that holds LibriSpeech/ and a text of its kind
fotaq=data/fotaq         # FOTAQ after stage 0 of its recipe
variants="alone alone_8k with_fotaq" # what to do of the three
. local/parse_options.sh
. local/path.sh

for variant in $variants; do
  case $variant in
    alone) more=() ;;
    alone_8k) more=(--rate 8000) ;;
    with_fotaq) more=(--rate 8000 --with "$fotaq/train") ;;
    *) echo "$0: --variants '$variant' is none of alone, alone_8k and with_fotaq" >&2; exit 2 ;;
  esac
  exp=exp/excerpt_$variant data=data/excerpt_$variant last=$((stop_stage < 7 ? stop_stage : 7))
  recipes/mini_librispeech/run.sh --stage "$stage" --stop-stage "$last" --workers "$workers" --data "$data" --exp "$exp" \
    --source "$source" --parts "train-clean-100 test-other" --text "$source/lm_text.train-clean-100.txt.gz" "${more[@]}"
  if run_stage 8; then
    asr-parallel results --exp "$exp" --data "$data" --out "recipes/mini_librispeech/$variant/RESULTS.md" \
      --title "an excerpt of LibriSpeech, $variant" --command "recipes/mini_librispeech/excerpt.sh --variants $variant"
  fi
done
