# firstlight: measures one server with its own `vllm bench serve`, on its host, so that it ends whether or not anybody
# watches. POSIX sh, run from a file as probes/operate/steps.sh is.
#
#   sh bench.sh ACTION UNIT - WHO
#
# Environment: FL_ID; FL_STAGE (the folder of this file); FL_LOG (what is said and all that vLLM prints); FL_RESULTS (a
# folder for what is measured, fetched afterwards); FL_DIR (the same as vLLM sees it); FL_LIMIT (seconds for the whole).
# Files in FL_STAGE: command, python, inside (words, one a line: what runs `vllm`, a Python that can reach the server,
# and what goes before a command where the server is in a container); folder (where the server was started: what is
# relative in its command is so from there); environment (NAME=VALUE); page.py, end.py;
# levels/NN (need or want TAB option TAB value …, one option a line).
#
# Output: @firstlight TAB id TAB number TAB time TAB step TAB outcome TAB words, between the lines of vLLM.
# SIGUSR1: cancel.
set -u
umask 077
unit=$2
tab=$(printf '\t')
newline='
'
number=0 child='' outcome=unknown words='it was ended from outside' stopped='' full=''
reserve=$FL_RESULTS/reserve
exec 3>&1 >>"$FL_LOG" 2>&1

one_line() { printf %s "$1" | tr '\n\t\r' '   '; }
say() {
  number=$((number + 1))
  line="@firstlight$tab$FL_ID$tab$number$tab$(date +%s.%N)$tab$1$tab$2$tab$(one_line "$3")"
  printf '\n%s\n' "$line"
  printf '%s\n' "$line" >&3
}
fail() {
  outcome=failed words=$1
  crowded
  [ -z "$full" ] || words="$1: the host's disk is full"
  exit 1
}
crowded() { # what is kept free for our own words is given up where a disk is full, or they would not be heard
  [ -e "$reserve" ] || return 0
  free=$(df -Pk -- "$FL_RESULTS" 2>/dev/null | awk 'NR == 2 { print $4 }')
  case $free in
  '' | *[!0-9]*) ;;
  *) [ "$free" -ge 64 ] || full=yes ;;
  esac
  [ -z "$full" ] || rm -f -- "$reserve"
}
last() {
  rm -f -- "$reserve"
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
  [ ! -s "$FL_STAGE/inside" ] || inside rm -rf -- "$FL_DIR" >/dev/null 2>&1
  say end "$outcome" "$words"
  rm -rf -- "$FL_STAGE"
}
halt() { # whatever runs now is ended; whoever waits for it goes on
  stopped=$1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
  [ ! -s "$FL_STAGE/inside" ] || python "$FL_STAGE/end.py" >/dev/null 2>&1
}
trap last EXIT
trap 'halt ended' TERM INT HUP
trap 'halt cancelled' USR1
stop_here() {
  case $stopped in
  '') return ;;
  cancelled) outcome=cancelled words="cancelled, as asked" ;;
  esac
  exit 1
}

inside() { # a command where the server is
  while IFS= read -r word; do set -- "$@" "$word"; done <"$FL_STAGE/inside"
  # the words of the file stand behind the command: they are to stand before it
  count=$(wc -l <"$FL_STAGE/inside")
  turn=$(($# - count))
  while [ "$turn" -gt 0 ]; do
    first=$1
    shift
    set -- "$@" "$first"
    turn=$((turn - 1))
  done
  "$@"
}
python() { # runs a file where the server is
  file=$1
  set --
  while IFS= read -r word; do set -- "$@" "$word"; done <"$FL_STAGE/python"
  timeout 20 "$@" - <"$file"
}
await() { # the child's end, whatever signals come
  status=0
  while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null || break
  done
  child=''
}
offered() { grep -qE -e "(^|[[:space:],])$1(\$|[[:space:],=])" "$FL_STAGE/help"; }
complaint() { # the last line that a program said, of a file
  tr '\r' '\n' <"$1" | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-300
}

say begin "done" "benchmark of $unit"
: "${FL_DIR:=$FL_RESULTS}"
printf %131072s "" >"$reserve" || fail "nothing was measured"
mv -- "$FL_STAGE/order.json" "$FL_RESULTS/order.json" || fail "cannot write to $FL_RESULTS"
unset OPENAI_API_KEY # whoever runs this may have one, which is for another server
while IFS= read -r entry; do
  export "${entry?}"
done <"$FL_STAGE/environment"
rm -f -- "$FL_STAGE/environment"
IFS= read -r folder <"$FL_STAGE/folder"
cd -- "${folder:-/}" 2>/dev/null || cd /
export PYTHONUNBUFFERED=1 FL_DIR FL_ID
began=$(date +%s)

say help begun "asking which options this vLLM has"
set --
while IFS= read -r word; do set -- "$@" "$word"; done <"$FL_STAGE/command"
for ask in --help=all --help; do
  timeout 300 "$@" bench serve "$ask" </dev/null >"$FL_STAGE/help" 2>&1 &
  child=$!
  await
  stop_here
  ! offered --random-input-len || break
done
if ! offered --random-input-len; then
  why=$(complaint "$FL_STAGE/help")
  tail -n 20 "$FL_STAGE/help"
  case $status:$(cat "$FL_STAGE/help") in
  124:*) fail "this vLLM did not say which options it has within 300 s" ;;
  126:* | 127:*) fail "$1 cannot be run: $why" ;;
  *"invalid choice: 'bench'"* | *"invalid choice: 'serve'"*) fail "this vLLM has no \`vllm bench serve\`: it came with 0.8.5" ;;
  *"No module named"*) fail "$why: what the benchmark needs beside vLLM is in its extra: pip install 'vllm[bench]'" ;;
  *"No space left on device"*) fail "the host's disk is full: $why" ;;
  *) fail "\`vllm bench serve --help\` ended with status $status: $why" ;;
  esac
fi
say help "done" "the options of its vllm bench serve are known"

parts=$(find "$FL_STAGE/levels" -type f | wc -l)
[ ! -s "$FL_STAGE/inside" ] || inside mkdir -p -- "$FL_DIR"
part=0
for file in "$FL_STAGE"/levels/*; do
  part=$((part + 1))
  name=${file##*/}
  set --
  while IFS= read -r word; do set -- "$@" "$word"; done <"$FL_STAGE/command"
  set -- "$@" bench serve
  while IFS= read -r line; do
    need=${line%%"$tab"*}
    line=${line#*"$tab"}
    if ! offered "${line%%"$tab"*}"; then
      [ "$need" = want ] || fail "this vLLM's \`bench serve\` has no ${line%%"$tab"*}: it is too old for this preset"
      [ $part -gt 1 ] || say help note "this vLLM has no ${line%%"$tab"*}: left out"
      continue
    fi
    oldifs=$IFS IFS=$tab
    set -f
    # shellcheck disable=SC2086
    set -- "$@" $line
    set +f
    IFS=$oldifs
  done <"$file"
  set -- "$@" --result-dir "$FL_DIR" --result-filename "$name.json"
  left=$((FL_LIMIT - $(date +%s) + began))
  [ "$left" -gt 0 ] || fail "its limit of $FL_LIMIT s was reached before run $part of $parts"
  python "$FL_STAGE/page.py" >"$FL_RESULTS/$name.before" 2>/dev/null
  stop_here
  from=$(date +%s.%N)
  say level begun "$part"
  timeout -k 10 "$left" "$@" </dev/null &
  child=$!
  await
  to=$(date +%s.%N)
  crowded
  stop_here
  [ ! -s "$FL_STAGE/inside" ] || inside cat "$FL_DIR/$name.json" >"$FL_RESULTS/$name.json" 2>/dev/null
  python "$FL_STAGE/page.py" >"$FL_RESULTS/$name.after" 2>/dev/null
  printf '%s\t%s\t%s\n' "$from" "$to" "$status" >"$FL_RESULTS/$name.info"
  if [ $status = 124 ]; then
    fail "its limit of $FL_LIMIT s was reached in run $part of $parts"
  elif [ ! -s "$FL_RESULTS/$name.json" ]; then
    say level failed "$part"
    fail "run $part of $parts ended with status $status and left no result"
  elif [ $status != 0 ]; then
    say level failed "$part"
    fail "run $part of $parts ended with status $status"
  fi
  say level "done" "$part"
done
outcome=done words="measured"
exit 0
