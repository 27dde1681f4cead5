#!/usr/bin/env bash
# From audio to a WER table on FOTAQ: 4.5 h of acted English dialogue from a Debian package.
# Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=sat               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
steps=false              # also decode the GMMs on the way to that one, each against the one before
features=fbank           # what networks see: fbank, mfcc_hires or fmllr (adapted to each speaker)
realign=false            # a second round of training, on labels by the first parallel network
init=random              # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
source=""                # queen.1c or the Debian package, if you have it already
quick=false              # a subset, to see the whole chain in minutes
data=""                  # corpus directory, data/fotaq by default
exp=""                   # experiments, exp/fotaq by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

name=fotaq conf=recipes/fotaq/conf subset=() pairs="dev_joe:test_joe dev_new:test_new"
if [ "$quick" = true ] || [ "$quick" = 1 ]; then name+=_quick subset=(--max-train-minutes 25 --max-test-minutes 3); fi
data=${data:-data/$name} exp=${exp:-exp/$name}
. local/stages.sh

if run_stage 0; then
  python3 local/prepare_fotaq.py --out "$data" ${source:+--source "$source"} "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then stage_features; fi
if run_stage 2; then stage_lang; fi
if run_stage 3; then stage_align; fi
if run_stage 4; then stage_pretrain; fi
if run_stage 5; then stage_train; fi
if run_stage 6; then stage_decode; fi
if run_stage 7; then stage_score; fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/fotaq ] || out=RESULTS.md
  command="make demo"
  [ "$steps$features$realign" = falsefbankfalse ] ||
    command+="; recipes/fotaq/run.sh --steps $steps --features $features --realign $realign"
  stage_results --out "$out" --command "$command"
fi
