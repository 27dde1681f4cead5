#!/usr/bin/env bash
# The experiments of Su & Chen 2015, of EC-DNN and of IST on Switchboard: conf/experiments/NAME.toml on so many workers.
# Needs stages 0 to 4 of run.sh. Like there, nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=5                  # first stage
stop_stage=8             # last stage
experiments=""           # those to run, NAME:WORKERS, of conf/experiments/NAME.toml; by default all that the paper has
backend=auto             # of the exchanges; simulated: all workers in one process
workers=2                # of run.sh
labels=sat               # as in run.sh
features=fmllr           # as in run.sh
init=dbn                 # as in run.sh
tests="eval2000_swb eval2000_ch" # test sets
quick=false              # small models, to see the whole chain
data=""                  # corpus directory, data/swbd by default
exp=""                   # experiments, exp/swbd by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

all="scale:1 scale:2 scale:4 scale:8 scale:16 scale:32 init_random:1 init_random:32 every_20:16
  minibatch_256:1 minibatch_256:16 newbob:1 newbob:16 sgd:1 sgd:16 butterfly:16 butterfly:32 ec:16 ist:16"
experiments=${experiments:-$all}
name=swbd conf=recipes/swbd/conf strategy=single realign=false
if [ "$quick" = true ] || [ "$quick" = 1 ]; then name+=_quick; fi
data=${data:-data/$name} exp=${exp:-exp/$name}
pairs=$(printf 'dev:%s ' $tests)
. local/stages.sh

systems=""
for experiment in $experiments; do systems+=" dnn_${experiment/:/_}"; done

if run_stage 5; then
  for experiment in $experiments; do
    _train "$exp/$labels" "dnn_${experiment/:/_}" --config "$conf/experiments/${experiment%:*}.toml" \
      --workers "${experiment#*:}" --backend "$backend"
  done
fi

if run_stage 6; then stage_decode; fi
if run_stage 7; then stage_score --filter "$conf/marks.glm" "$conf/words.glm" local/filters/english.glm; fi
if run_stage 8; then
  stage_results --out "$exp/EXPERIMENTS.md" --title "swbd, the papers' experiments" --command recipes/swbd/experiments.sh
fi
