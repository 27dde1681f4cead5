#!/usr/bin/env bash
# Every strategy of parallel training on K workers: 2 real ones; 4, 8 and 16 simulated.  All see the same frames.
# Needs stages 0 to 3 of run.sh. Like there, nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=5           # first stage
stop_stage=8      # last stage
jobs=2            # trainings of simulated workers at a time, one thread each
workers="2 4 8 16" # numbers of workers
strategies="gradient_average model_average block_momentum elastic_average ensemble ensemble_compression independent_subnets"
data=data/fotaq   # corpus directory
ali=exp/fotaq     # where tri/ is
exp=exp/fotaq_strategies # experiments
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

conf=recipes/fotaq/conf

train() { # NAME WORKERS BACKEND OPTION...: the command, for xargs
  echo asr-parallel train --data "$data" --ali "$ali/tri" --out "$exp/$1" --config $conf/strategies.toml --workers "$2" \
    --backend "$3" "${@:4}"
}

of() { echo --config "$conf/strategies/$1.toml"; }  # the options of a strategy

systems=(single_1 single_bn_1)
for k in $workers; do for strategy in $strategies; do systems+=("${strategy}_$k"); done; done

if run_stage 5; then
  {
    train single_1 1 auto
    train single_bn_1 1 auto $(of independent_subnets) --strategy.name single  # beside which the subnets stand
    for k in $workers; do
      for strategy in $strategies; do
        [ "$k" = 2 ] || train "${strategy}_$k" "$k" simulated $(of "$strategy")
      done
    done
  } | xargs -P "$jobs" -L 1 env
  for strategy in $strategies; do  # real workers, a core each
    [[ " $workers " != *" 2 "* ]] || train "${strategy}_2" 2 auto $(of "$strategy")
  done | xargs -L 1 env
fi

if run_stage 6; then
  for system in "${systems[@]}"; do
    echo asr-parallel decode --model "$exp/$system" --graph "$ali/tri/graph" --data "$data" --config $conf/decode_dnn.toml --max_active 3000 --jobs 1
  done | xargs -P "$jobs" -L 1 env
fi

if run_stage 7; then
  for system in "${systems[@]}"; do
    asr-parallel score --model "$exp/$system" --data "$data"
  done
fi

if run_stage 8; then
  asr-parallel results --exp "$exp" --data "$data" --out recipes/fotaq/strategies/RESULTS.md --title "fotaq, strategies and workers" \
    --command recipes/fotaq/strategies.sh
fi
