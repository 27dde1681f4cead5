#!/usr/bin/env bash
# What words are made of, side by side: phones of a dictionary, letters, or pieces of words that spell words never seen;
# and letters without alignments (CTC). Needs stages 0 and 1 of run.sh. Like there, nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=2           # first stage
stop_stage=8      # last stage
units="phone grapheme subword"  # systems, of these three, and ctc_grapheme
workers=2         # of each training
data=data/fotaq   # corpus directory
langs=data/fotaq  # where lang_UNITS go
exp=exp/fotaq_units # experiments: UNITS/tri and UNITS/dnn
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

conf=recipes/fotaq/conf
for unit in $units; do
  kind=${unit#ctc_} lang=$langs/lang_${unit#ctc_} at=$exp/$unit
  graph=$at/tri/graph beams=$conf/decode_dnn.toml weights=()
  order=()
  [ "$kind" != subword ] || order=(--order 4)
  if run_stage 2; then asr-parallel lang --data "$data" --out "$lang" --units "$kind" "${order[@]}"; fi
  if [ "$unit" = "$kind" ]; then
    if run_stage 3; then $cpu_cmd asr-parallel align --data "$data" --lang "$lang" --out "$at" --last tri; fi
    if run_stage 5; then
      $train_cmd asr-parallel train --data "$data" --ali "$at/tri" --out "$at/dnn" --config $conf/dnn.toml \
        --workers "$workers" --strategy.name model_average
    fi
  else
    graph=$at/graph beams=$conf/decode_ctc.toml weights=(--lmwt 1 2 3 4 5 6)
    if run_stage 5; then
      $train_cmd asr-parallel train --criterion ctc --data "$data" --lang "$lang" --out "$at/dnn" --config $conf/ctc.toml \
        --workers "$workers" --strategy.name model_average
    fi
    if run_stage 6; then asr-parallel graph --model "$at/dnn" --lang "$lang" --out "$graph"; fi
  fi
  if run_stage 6; then
    $cpu_cmd asr-parallel decode --model "$at/dnn" --graph "$graph" --data "$data" --config "$beams"
  fi
  if run_stage 7; then
    asr-parallel score --model "$at/dnn" --data "$data" --vocabulary "$lang/vocabulary.txt" "${weights[@]}"
  fi
done

if run_stage 8; then python3 benchmarks/units.py --exp "$exp" --units $units; fi
