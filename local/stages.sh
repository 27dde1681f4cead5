# Stages 1 to 8, one function each, for recipes that differ in their corpus and in conf/ only. Sourced by run.sh, which says
#   data exp conf pairs                directories of corpus, experiments and *.toml files; DEV:TEST sets
#   base_conf                          directory whose *.toml files stand for those that conf lacks, if there is one
#   workers strategy labels features realign init quick plan    as options
#   steps                              false if GMMs before the one of the labels are not to be decoded
# Options of a verb come from conf/NAME.toml, with --quick also from conf/quick_NAME.toml, where these files are there
# (NAME: lang, align, pretrain, dnn, dnn_dbn, decode_mono, decode_tri, decode_dnn), and from the arguments of its function.
# A stage that a corpus wants otherwise is written out in its run.sh.

_none_of() { echo "$0: --$1 '${!1}' is none of $2" >&2; exit 2; }

dev=$(printf '%s\n' $pairs | cut -d: -f1 | sort -u)   # LM weights are chosen on these
test=$(printf '%s\n' $pairs | cut -d: -f2 | sort -u)  # and nothing on these
[ "$features" != fmllr ] || labels=sat
case $init in
  random) net=dnn ;; dbn) net=dnn_dbn ;;
  *) _none_of init "random and dbn" ;;
esac
case $labels in
  tri) gmms="mono tri" ;; lda_mllt) gmms="mono tri lda_mllt" ;; sat) gmms="mono tri lda_mllt sat" ;;
  *) _none_of labels "tri, lda_mllt and sat" ;;
esac
case $features in
  fbank) kinds="mfcc fbank" ;; mfcc_hires) kinds="mfcc mfcc_hires" net+=_hires ;; fmllr) kinds=mfcc net+=_fmllr ;;
  *) _none_of features "fbank, mfcc_hires and fmllr" ;;
esac
[ "${steps:-true}" = true ] || gmms=$labels
systems="$gmms ${net}_1 ${net}_$workers"
[ "$realign" != true ] || systems+=" ${net}_realigned"
[ "$plan" != true ] || export ASR_PARALLEL_PLAN=1

configs_of() {  # NAME ...: puts --config FILE of those that are there into the array `configs`
  local name folder quick_names=()
  [[ $quick != true && $quick != 1 ]] || quick_names=("${@/#/quick_}")
  configs=()
  for name in "$@" "${quick_names[@]}"; do
    for folder in "$conf" ${base_conf:+"$base_conf"}; do
      if [ -e "$folder/$name.toml" ]; then configs+=(--config "$folder/$name.toml"); break; fi
    done
  done
}

stage_features() { $cpu_cmd asr-parallel features --data "$data" --kinds $kinds "$@"; }

stage_lang() {
  configs_of lang
  asr-parallel lang --data "$data" --out "$data/lang" --dev $dev --test $test "${configs[@]}" "$@"
}

stage_align() {
  configs_of align
  $cpu_cmd asr-parallel align --data "$data" --lang "$data/lang" --out "$exp" --dev $dev --last "$labels" \
    "${configs[@]}" "$@"
  [ "$labels" != sat ] || $cpu_cmd asr-parallel adapt --model "$exp/sat" --data "$data" --lang "$data/lang" --sets $dev $test
}

stage_pretrain() {
  configs_of pretrain
  if [ "$init" = dbn ]; then
    $train_cmd asr-parallel pretrain --data "$data" --dev $dev --features "$features" --out "$exp/dbn" "${configs[@]}" "$@"
  else
    echo "pretrain: networks start at random; --init dbn pretrains" >&2
  fi
}

_train() {  # LABELS NAME [OPTION ...]: one network
  configs_of dnn; if [ "$init" = dbn ]; then configs_of dnn dnn_dbn; configs+=(--model.dbn "$exp/dbn"); fi
  $train_cmd asr-parallel train --data "$data" --dev $dev --ali "$1" --out "$exp/$2" --features "$features" \
    "${configs[@]}" "${@:3}"
}

stage_train() {  # by one worker, by several, and once more on labels by the latter
  local parallel=(--workers "$workers" --strategy.name "$strategy")
  _train "$exp/$labels" "${net}_1" --workers 1 "$@"
  _train "$exp/$labels" "${net}_$workers" "${parallel[@]}" "$@"
  [ "$realign" = true ] || return 0
  $cpu_cmd asr-parallel realign --model "$exp/${net}_$workers" --data "$data" --lang "$data/lang" --dev $dev \
    --out "$exp/${net}_ali"
  _train "$exp/${net}_ali" "${net}_realigned" "${parallel[@]}" "$@"
}

stage_decode() {
  local system graph beams
  for system in $systems; do
    case $system in mono) graph=mono beams=mono ;; dnn*) graph=$labels beams=dnn ;; *) graph=$system beams=tri ;; esac
    configs_of decode_$beams
    $cpu_cmd asr-parallel decode --model "$exp/$system" --graph "$exp/$graph/graph" --data "$data" --sets $dev $test \
      "${configs[@]}" "$@"
  done
}

stage_score() {
  local system
  for system in $systems; do asr-parallel score --model "$exp/$system" --data "$data" --pairs $pairs "$@"; done
}

stage_results() { asr-parallel results --exp "$exp" --data "$data" "$@"; }
