# Turns `--name value` and `--name=value` into shell variables. Sourced by run.sh after its variables:
# every `name=default  # help` line above the line that sources this file is an option, nothing else is.
# Dashes and underscores mean the same. Stages may be given by number or by name.

stage_names=(prepare features lang align pretrain train decode score results)

_options=$(sed '/parse_options\.sh/q' "$0" | grep -E '^[a-z][a-z0-9_]*=')

_usage() {
  sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
  echo
  echo "usage: $0 [--option value ...]"
  echo "$_options" | sed -E 's/^([a-z0-9_]+)=("[^"]*"|[^ ]*) *#? *(.*)$/  --\1|\3 (default: \2)/' |
    while IFS='|' read -r option text; do printf '%-20s %s\n' "${option//_/-}" "$text"; done
  echo "stages: $(for i in "${!stage_names[@]}"; do printf '%s %s  ' "$i" "${stage_names[$i]}"; done)"
}

_unknown() {
  local nearest
  nearest=$(python3 -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1))' \
    "$1" $(echo "$_options" | cut -d= -f1) 2>/dev/null)
  echo "$0: no option --${1//_/-}${nearest:+; did you mean --${nearest//_/-}?} ($0 --help lists them)" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) _usage; exit 0 ;;
    --*=*) _name=${1#--} _value=${_name#*=} _name=${_name%%=*}; shift ;;
    --*) _name=${1#--} _value=${2-}
         if [ $# -lt 2 ]; then echo "$0: option $1 needs a value" >&2; exit 2; fi
         shift 2 ;;
    *) echo "$0: '$1' is not an option ($0 --help lists them)" >&2; exit 2 ;;
  esac
  _name=${_name//-/_}
  echo "$_options" | grep -q "^$_name=" || _unknown "$_name"
  printf -v "$_name" '%s' "$_value"
done

for _name in stage stop_stage; do
  for _i in "${!stage_names[@]}"; do
    [ "${!_name}" = "${stage_names[$_i]}" ] && printf -v "$_name" '%s' "$_i"
  done
  if ! [[ ${!_name} =~ ^[0-9]+$ ]]; then
    echo "$0: --${_name//_/-} '${!_name}' is neither a number nor one of: ${stage_names[*]}" >&2
    exit 2
  fi
done

# run_stage N: whether stage N was asked for; says so.
run_stage() {
  [ "$1" -ge "$stage" ] && [ "$1" -le "$stop_stage" ] || return 1
  echo "== stage $1: ${stage_names[$1]} ($(date +%H:%M:%S))" >&2
}
