#!/usr/bin/env bash
# A stand-in where Speech Commands can't be had: the most frequent words of FOTAQ, cut out by alignment.
# Needs stages 0 to 3 of recipes/fotaq/run.sh. Like there, nothing that is fresh is done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                     # first stage
stop_stage=8                # last stage
words=35                    # how many
data=data/fotaq             # corpus that they are cut from
ali=exp/fotaq/tri           # the model that tells where they are
out=data/fotaq_words        # where clips and their sets go
exp=exp/fotaq_words         # experiments
. local/parse_options.sh
. local/path.sh

if [ ! -e "$out/clips/testing_list.txt" ]; then
  python3 local/cut_words.py --data "$data" --sets train dev_new test_new --lang "$data/lang" --model "$ali" \
    --words "$words" --out "$out/clips"
fi
recipes/speech_commands/run.sh --stage "$stage" --stop-stage "$stop_stage" --source "$out/clips" --data "$out" --exp "$exp" \
  --layers "2 3" --strategy "model_average independent_subnets" --config recipes/speech_commands/conf/fotaq_words.toml \
  --title "35 words of FOTAQ, a stand-in for Speech Commands" --command recipes/speech_commands/fotaq_words.sh \
  --page recipes/speech_commands/RESULTS.md
