#!/usr/bin/env bash
# Classification of one word on Google Speech Commands (35 words): the task of Independent Subnet Training.
# An utterance is one frame with one label, so that each strategy trains as it does on speech frames.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiments; several numbers in quotes: "2 4 8"
strategy=independent_subnets # IST; data parallel: gradient_average, local SGD: model_average; several in quotes
layers=2                 # matrices of the network: 2 or 3; both in quotes: "2 3"
source=""                # the unpacked corpus or its archive, if you have it already
only_whole=false         # leave out clips that are not one second to the sample, as the paper's code does
config=""                # a TOML file of options that go above those in conf/
title="Google Speech Commands" # of the page of results
command=recipes/speech_commands/run.sh # that the page names
page=""                  # where it goes; EXP/RESULTS.md by default
data=data/speech_commands # corpus directory
exp=exp/speech_commands  # experiments
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

conf=recipes/speech_commands/conf
[ "$plan" != true ] || export ASR_PARALLEL_PLAN=1
systems=""
for n in $layers; do
  systems+=" ${n}layer_single_1"
  for k in $workers; do for name in $strategy; do systems+=" ${n}layer_${name}_$k"; done; done
done
for system in $systems; do
  [ -e "$conf/${system%_*}.toml" ] || { echo "$0: there is no $conf/${system%_*}.toml; there are" $conf/* >&2; exit 2; }
done

if run_stage 0; then
  whole=(); [ "$only_whole" != true ] || whole=(--only-whole)
  python3 local/prepare_speech_commands.py --out "$data" ${source:+--source "$source"} "${whole[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then $cpu_cmd asr-parallel features --data "$data" --kinds image; fi

if run_stage 2; then echo "lang: there is none, words are classes" >&2; fi

if run_stage 3; then asr-parallel classes --data "$data" --out "$exp/classes"; fi

if run_stage 4; then echo "pretrain: the paper's networks start at random" >&2; fi

if run_stage 5; then
  for system in $systems; do  # such as 2layer_model_average_4
    $train_cmd asr-parallel train --config $conf/network.toml --config "$conf/${system%_*}.toml" \
      --workers "${system##*_}" --data "$data" --ali "$exp/classes" --out "$exp/$system" ${config:+--config "$config"}
  done
fi

if run_stage 6; then
  for system in $systems; do asr-parallel classify --model "$exp/$system" --data "$data"; done
fi

if run_stage 7; then
  for system in $systems; do  # all against one worker
    one=$exp/${system%%_*}_single_1
    [ "$exp/$system" = "$one" ] || [ "$plan" = true ] || asr-parallel compare "$one" "$exp/$system"
  done
fi

if run_stage 8; then
  asr-parallel results --measure accuracy --exp "$exp" --data "$data" --out "${page:-$exp/RESULTS.md}" --title "$title" \
    --command "$command"
fi
