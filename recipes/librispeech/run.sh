#!/usr/bin/env bash
# From audio to a WER table on LibriSpeech: 100, 460 or 960 h of read English books from openslr.org.
# Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
hours=100                # of training speech: 100, 460 or 960
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=sat               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
features=fbank           # what networks see: fbank, mfcc_hires or fmllr (adapted to each speaker)
realign=false            # a second round of training, on labels by the first parallel network
init=random              # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
source=downloads         # folder that holds LibriSpeech/ or its archives; what it lacks is fetched into it
quick=false              # an hour of train and some minutes of each other set, small models (all is fetched, though)
data=""                  # corpus directory, data/librispeech_HOURS by default
exp=""                   # experiments, exp/librispeech_HOURS by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

parts="dev-clean dev-other test-clean test-other" pairs="dev_clean:test_clean dev_other:test_other"
case $hours in
  100) parts+=" train-clean-100" ;;
  460) parts+=" train-clean-100 train-clean-360" ;;
  960) parts+=" train-clean-100 train-clean-360 train-other-500" ;;
  *) echo "$0: --hours '$hours' is none of 100, 460 and 960" >&2; exit 2 ;;
esac
name=librispeech_$hours conf=recipes/librispeech/conf base_conf=recipes/fotaq/conf subset=() lang=()
if [ "$quick" = true ] || [ "$quick" = 1 ]; then name+=_quick subset=(--max-train-minutes 60 --max-test-minutes 5); fi
data=${data:-data/$name} exp=${exp:-exp/$name}
. local/stages.sh

if run_stage 0; then
  python3 local/prepare_librispeech.py --out "$data" --source "$source" --parts $parts "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then stage_features; fi

if run_stage 2; then
  [ ! -e "$data/local/lm.arpa.gz" ] || lang=(--lexicon "$data/local/lexicon.txt" --lm "$data/local/lm.arpa.gz")
  stage_lang "${lang[@]}"
fi

if run_stage 3; then stage_align; fi
if run_stage 4; then stage_pretrain; fi
if run_stage 5; then stage_train; fi
if run_stage 6; then stage_decode; fi
if run_stage 7; then stage_score; fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/librispeech_100 ] || out=recipes/librispeech/RESULTS.md
  stage_results --out "$out" --title "librispeech, $hours h" --command "recipes/librispeech/run.sh --hours $hours"
fi
