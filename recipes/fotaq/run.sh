#!/usr/bin/env bash
# From audio to a WER table on FOTAQ: 4.5 h of acted English dialogue from a Debian package.
# Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
init=random              # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
source=""                # queen.1c or the Debian package, if you have it already
quick=false              # a subset, to see the whole chain in minutes
data=""                  # corpus directory, data/fotaq by default
exp=""                   # experiments, exp/fotaq by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

name=fotaq subset=() conf=recipes/fotaq/conf lm=() gmm=() rbm=() dnn=()
if [ "$quick" = true ] || [ "$quick" = 1 ]; then
  name=fotaq_quick
  subset=(--max-train-minutes 25 --max-test-minutes 3)
  lm=(--config $conf/quick_lang.toml) gmm=(--config $conf/quick_align.toml) dnn=(--config $conf/quick_dnn.toml)
  rbm=(--config $conf/quick_pretrain.toml)
fi
data=${data:-data/$name} exp=${exp:-exp/$name}
case $init in
  random) net=dnn ;;
  dbn) net=dnn_dbn dnn=(--config $conf/dnn_dbn.toml "${dnn[@]}" --model.dbn "$exp/dbn") ;;
  *) echo "$0: --init '$init' is neither random nor dbn" >&2; exit 2 ;;
esac
[ "$plan" = true ] && export ASR_PARALLEL_PLAN=1

if run_stage 0; then
  python3 local/prepare_fotaq.py --out "$data" ${source:+--source "$source"} "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then
  $cpu_cmd asr-parallel features --data "$data"
fi

if run_stage 2; then
  asr-parallel lang --data "$data" --out "$data/lang" "${lm[@]}"
fi

if run_stage 3; then
  $cpu_cmd asr-parallel align --data "$data" --lang "$data/lang" --out "$exp" "${gmm[@]}"
fi

if run_stage 4; then
  if [ "$init" = dbn ]; then
    $train_cmd asr-parallel pretrain --data "$data" --out "$exp/dbn" --config $conf/pretrain.toml "${rbm[@]}"
  else
    echo "pretrain: networks start at random; --init dbn pretrains" >&2
  fi
fi

if run_stage 5; then
  $train_cmd asr-parallel train --data "$data" --ali "$exp/tri" --out "$exp/${net}_1" \
    --config $conf/dnn.toml "${dnn[@]}" --workers 1
  $train_cmd asr-parallel train --data "$data" --ali "$exp/tri" --out "$exp/${net}_$workers" \
    --config $conf/dnn.toml "${dnn[@]}" --workers "$workers" --strategy.name "$strategy"
fi

systems="mono tri ${net}_1 ${net}_$workers"
if run_stage 6; then
  for system in $systems; do
    case $system in mono) graph=mono ;; *) graph=tri ;; esac
    $cpu_cmd asr-parallel decode --model "$exp/$system" --graph "$exp/$graph/graph" --data "$data" \
      --config $conf/decode_${system%%_*}.toml
  done
fi

if run_stage 7; then
  for system in $systems; do
    asr-parallel score --model "$exp/$system" --data "$data"
  done
fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/fotaq ] || out=RESULTS.md
  asr-parallel results --exp "$exp" --data "$data" --out "$out"
fi
