#!/usr/bin/env bash
# From audio to a WER table on Switchboard-1 (300 h of telephone calls) and NIST's tests, in the manner of Su & Chen 2015.
# The corpora are the LDC's: README.md. Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=sat               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
features=fmllr           # what networks see: fbank, mfcc_hires or fmllr (adapted to each speaker)
realign=false            # a second round of training, on labels by the first parallel network
init=dbn                 # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
source=corpora           # folder with LDC97S62, swb_ms98_transcriptions, LDC2002S09, LDC2002T43 ...: links will do
hold_out=speakers        # what dev is made of: speakers, or utterances as in the paper's code
tests="eval2000_swb eval2000_ch" # test sets; with their corpora also hub5_01_swb, rt03_swb and rt03_fsh
quick=false              # 25 minutes of training speech and small models, to see the whole chain
data=""                  # corpus directory, data/swbd by default
exp=""                   # experiments, exp/swbd by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

name=swbd conf=recipes/swbd/conf subset=() text=()
if [ "$quick" = true ] || [ "$quick" = 1 ]; then name+=_quick subset=(--max-train-minutes 25 --max-test-minutes 5); fi
data=${data:-data/$name} exp=${exp:-exp/$name}
pairs=$(printf 'dev:%s ' $tests)
filters="$conf/marks.glm $conf/words.glm local/filters/english.glm"
. local/stages.sh

if run_stage 0; then
  python3 local/prepare_swbd.py --out "$data" --source "$source" --dev "$hold_out" "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then stage_features; fi

if run_stage 2; then
  [ ! -e "$data/local/fisher.txt" ] || text=(--text "$data/local/fisher.txt")
  stage_lang --lexicon "$data/local/lexicon.txt" "${text[@]}"
fi

if run_stage 3; then stage_align; fi
if run_stage 4; then stage_pretrain; fi
if run_stage 5; then stage_train; fi
if run_stage 6; then stage_decode; fi

if run_stage 7; then
  stage_score --filter $filters
  for system in "$labels" "${net}_1" "${net}_$workers"; do  # as NIST does: by times in the calls
    $cpu_cmd asr-parallel hypotheses --model "$exp/$system" --data "$data" --lang "$data/lang" --sets $tests
    [ "$plan" = true ] || python3 local/score_stm.py --model "$exp/$system" --data "$data" --sets $tests --filter $filters
  done
fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/swbd ] || out=recipes/swbd/RESULTS.md
  stage_results --out "$out" --title swbd --command recipes/swbd/run.sh
fi
