#!/usr/bin/env bash
# The training core compared: {random, DBN} start x {SGD, NG-SGD} x {Newbob, exponential}, one worker each.
# Needs stages 0 to 3 of run.sh. Like there, nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=4           # first stage
stop_stage=8      # last stage
jobs=2            # trainings at a time, one thread each
data=data/fotaq   # corpus directory
ali=exp/fotaq     # where tri/ is
exp=exp/fotaq_core # experiments
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

conf=recipes/fotaq/conf
# Of the minibatch's mean gradient. A rate that stands still must be lower: NG-SGD's second epoch at 16 was worse than its first.
declare -A rate=([sgd_newbob]=4 [sgd_exponential]=4 [ngsgd_newbob]=4 [ngsgd_exponential]=16)
declare -A epochs=([newbob]=8 [exponential]=3)

if run_stage 4; then
  $train_cmd asr-parallel pretrain --data "$data" --out "$exp/dbn" --config $conf/pretrain.toml \
    --config $conf/quick_pretrain.toml --threads 1
fi

systems=()
for init in nnet1 dbn; do
  for optim in sgd ngsgd; do
    for schedule in newbob exponential; do systems+=("${init}_${optim}_$schedule"); done
  done
done

if run_stage 5; then
  printf '%s\n' "${systems[@]}" | while IFS=_ read -r init optim schedule; do
    start=(--model.init "$init")
    [ "$init" != dbn ] || start+=(--model.dbn "$exp/dbn")
    echo asr-parallel train --data "$data" --ali "$ali/tri" --out "$exp/${init}_${optim}_$schedule" \
      --config $conf/core.toml "${start[@]}" --optim.name "$optim" --optim.lr "${rate[${optim}_$schedule]}" \
      --schedule.name "$schedule" --schedule.epochs "${epochs[$schedule]}"
  done | xargs -P "$jobs" -L 1 env
fi

for system in "${systems[@]}"; do
  if run_stage 6; then
    $cpu_cmd asr-parallel decode --model "$exp/$system" --graph "$ali/tri/graph" --data "$data" --config $conf/decode_dnn.toml --max_active 3000
  fi
  if run_stage 7; then
    asr-parallel score --model "$exp/$system" --data "$data"
  fi
done

if run_stage 8; then
  asr-parallel results --exp "$exp" --data "$data" --out recipes/fotaq/core/RESULTS.md --title "fotaq, the training core" \
    --command recipes/fotaq/core.sh
fi
