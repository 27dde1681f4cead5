#!/usr/bin/env bash
# From audio to a WER table on Mini LibriSpeech: 5 h of read English books, 460 MB from openslr.org.
# Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=sat               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
features=fbank           # what networks see: fbank, mfcc_hires or fmllr (adapted to each speaker)
realign=false            # a second round of training, on labels by the first parallel network
init=random              # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
source=downloads         # folder that holds LibriSpeech/ or its archives; what it lacks is fetched into it
parts="train-clean-5 dev-clean-2" # parts of LibriSpeech; those that are not for training are test sets
text=""                  # texts for the language model, a sentence a line; without, that of openslr.org/11 if it can be had
with=""                  # set of another corpus to train on as well, such as data/fotaq/train
rate=16000               # sampling rate in Hz; that of the other corpus, if there is one
quick=false              # a subset, to see the whole chain in minutes
data=""                  # corpus directory, data/mini_librispeech by default
exp=""                   # experiments, exp/mini_librispeech by default
plan=false               # only say what would be done
. local/parse_options.sh
. local/path.sh
. local/cmd.sh

name=mini_librispeech subset=() lang=() pairs=""
conf=recipes/$name/conf base_conf=recipes/fotaq/conf
if [ "$quick" = true ] || [ "$quick" = 1 ]; then name+=_quick subset=(--max-train-minutes 25 --max-test-minutes 3); fi
data=${data:-data/$name} exp=${exp:-exp/$name}
for part in $parts; do  # the speakers of dev are taken out of the training parts
  case $part in train-*) ;; *) pairs+=" dev:${part//-/_}" ;; esac
done
. local/stages.sh

if run_stage 0; then
  python3 local/prepare_librispeech.py --out "$data" --source "$source" --parts $parts --hold-out 0.1 --rate "$rate" \
    ${with:+--with "$with"} ${text:+--language own} "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then stage_features; fi

if run_stage 2; then
  [ ! -e "$data/local/lm.arpa.gz" ] || lang=(--lexicon "$data/local/lexicon.txt" --lm "$data/local/lm.arpa.gz")
  stage_lang "${lang[@]}" ${text:+--text $text}
fi

if run_stage 3; then stage_align; fi
if run_stage 4; then stage_pretrain; fi
if run_stage 5; then stage_train; fi
if run_stage 6; then stage_decode; fi
if run_stage 7; then stage_score; fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/mini_librispeech ] || out=recipes/mini_librispeech/RESULTS.md
  stage_results --out "$out" --title mini_librispeech --command recipes/mini_librispeech/run.sh
fi
