#!/usr/bin/env bash
# From recordings of your own to a WER table. Copy this folder to where you want to work and change what you like:
# the options here, the files in conf/. Every stage does nothing when its result is fresh; a killed one goes on.
set -euo pipefail
_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
_root=${ASR_PARALLEL_ROOT:-$_here/../..}
[ -e "$_root/local/stages.sh" ] || _root=$(asr-parallel --root) ||
  { echo "$0: activate the environment of asr_parallel, or set ASR_PARALLEL_ROOT to its checkout" >&2; exit 1; }

stage=0                  # first stage
stop_stage=8             # last stage
from=""                  # your audio and transcripts: a folder, or a table (asr-parallel prepare --help has the forms)
words=english            # english: numbers spelt out, upper case; upper: any language, upper case; keep: as they are
units=phone              # words as they sound; grapheme: as they are spelt, for languages without a dictionary; subword
lexicon=""               # dictionary of your own, WORD PHONE PHONE ... a line
lm_text=""               # more text for the language model, a sentence a line
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=tri               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
features=fbank           # what networks see: fbank, mfcc_hires or fmllr (adapted to each speaker)
realign=false            # a second round of training, on labels by the first parallel network
init=random              # networks start at random, or from a DBN (dbn: stage 4 pretrains it, networks are sigmoid)
quick=false              # small models, to see the whole chain in minutes
data=""                  # corpus directory, data/ beside this script by default
exp=""                   # experiments, exp/ beside this script by default
plan=false               # only say what would be done
. "$_root/local/parse_options.sh"
. "$_root/local/path.sh"
. "$_root/local/cmd.sh"

data=${data:-$_here/data} exp=${exp:-$_here/exp} conf=$_here/conf pairs=dev:test
. "$_root/local/stages.sh"

if run_stage 0; then
  [ -n "$from" ] || { echo "$0: --from says where your audio and transcripts are" >&2; exit 2; }
  configs_of prepare
  asr-parallel prepare --from "$from" --out "$data" --text "$words" "${configs[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then configs_of features; stage_features "${configs[@]}"; fi

if run_stage 2; then
  general=(); [ "$words" = english ] || general=(--general none)
  stage_lang --units "$units" "${general[@]}" ${lexicon:+--lexicon "$lexicon"} ${lm_text:+--text "$lm_text"}
fi

if run_stage 3; then stage_align; fi
if run_stage 4; then stage_pretrain; fi
if run_stage 5; then stage_train; fi
if run_stage 6; then stage_decode; fi
if run_stage 7; then stage_score; fi
if run_stage 8; then stage_results --out "$exp/RESULTS.md" --title "$(basename "$_here")" --command "$0"; fi
