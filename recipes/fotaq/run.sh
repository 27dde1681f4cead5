#!/usr/bin/env bash
# From audio to a WER table on FOTAQ: 4.5 h of acted English dialogue from a Debian package.
# Every stage does nothing when its result is fresh; the same command goes on after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stage=0                  # first stage
stop_stage=8             # last stage
workers=2                # workers of the parallel experiment
strategy=model_average   # how they work together
labels=tri               # GMM whose frame labels networks learn: tri, lda_mllt or sat (adapted to each speaker)
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

name=fotaq subset=() conf=recipes/fotaq/conf lm=() gmm=() rbm=() dnn=()
if [ "$quick" = true ] || [ "$quick" = 1 ]; then
  name=fotaq_quick
  subset=(--max-train-minutes 25 --max-test-minutes 3) rbm=(--config $conf/quick_pretrain.toml)
  lm=(--config $conf/quick_lang.toml) gmm=(--config $conf/quick_align.toml) dnn=(--config $conf/quick_dnn.toml)
fi
data=${data:-data/$name} exp=${exp:-exp/$name}
case $init in
  random) net=dnn ;;
  dbn) net=dnn_dbn dnn=(--config $conf/dnn_dbn.toml "${dnn[@]}" --model.dbn "$exp/dbn") ;;
  *) echo "$0: --init '$init' is neither random nor dbn" >&2; exit 2 ;;
esac
[ "$features" != fmllr ] || labels=sat
case $labels in
  tri) gmms="mono tri" ;; lda_mllt) gmms="mono tri lda_mllt" ;; sat) gmms="mono tri lda_mllt sat" ;;
  *) echo "$0: --labels '$labels' is none of tri, lda_mllt and sat" >&2; exit 2 ;;
esac
case $features in
  fbank) kinds=(mfcc fbank) ;;
  mfcc_hires) kinds=(mfcc mfcc_hires) net+=_hires ;;
  fmllr) kinds=(mfcc) net+=_fmllr ;;
  *) echo "$0: --features '$features' is none of fbank, mfcc_hires and fmllr" >&2; exit 2 ;;
esac
[ "$plan" = true ] && export ASR_PARALLEL_PLAN=1

if run_stage 0; then
  python3 local/prepare_fotaq.py --out "$data" ${source:+--source "$source"} "${subset[@]}"
  asr-parallel validate --data "$data"
fi

if run_stage 1; then $cpu_cmd asr-parallel features --data "$data" --kinds "${kinds[@]}"; fi

if run_stage 2; then asr-parallel lang --data "$data" --out "$data/lang" "${lm[@]}"; fi

if run_stage 3; then
  $cpu_cmd asr-parallel align --data "$data" --lang "$data/lang" --out "$exp" --last "$labels" "${gmm[@]}"
  [ "$labels" != sat ] || $cpu_cmd asr-parallel adapt --model "$exp/sat" --data "$data" --lang "$data/lang"
fi

if run_stage 4; then
  if [ "$init" = dbn ]; then
    $train_cmd asr-parallel pretrain --data "$data" --features "$features" --out "$exp/dbn" --config $conf/pretrain.toml "${rbm[@]}"
  else
    echo "pretrain: networks start at random; --init dbn pretrains" >&2
  fi
fi

train() {  # LABELS NAME [OPTION ...]
  $train_cmd asr-parallel train --data "$data" --ali "$1" --out "$exp/$2" --features "$features" \
    --config $conf/dnn.toml "${dnn[@]}" "${@:3}"
}
parallel=(--workers "$workers" --strategy.name "$strategy") systems="$gmms ${net}_1 ${net}_$workers"
[ "$realign" = true ] && systems+=" ${net}_realigned"
if run_stage 5; then
  train "$exp/$labels" "${net}_1" --workers 1
  train "$exp/$labels" "${net}_$workers" "${parallel[@]}"
  if [ "$realign" = true ]; then
    $cpu_cmd asr-parallel realign --model "$exp/${net}_$workers" --data "$data" --lang "$data/lang" --out "$exp/${net}_ali"
    train "$exp/${net}_ali" "${net}_realigned" "${parallel[@]}"
  fi
fi

if run_stage 6; then
  for system in $systems; do
    case $system in mono) graph=mono beams=mono ;; dnn*) graph=$labels beams=dnn ;; *) graph=$system beams=tri ;; esac
    $cpu_cmd asr-parallel decode --model "$exp/$system" --graph "$exp/$graph/graph" --data "$data" \
      --config $conf/decode_$beams.toml
  done
fi

if run_stage 7; then for system in $systems; do asr-parallel score --model "$exp/$system" --data "$data"; done; fi

if run_stage 8; then
  out=$exp/RESULTS.md
  [ "$exp" != exp/fotaq ] || out=RESULTS.md
  asr-parallel results --exp "$exp" --data "$data" --out "$out"
fi
