# firstlight: one action on one unit, step by step, on the host itself, so that it ends whether or not anybody watches.
# POSIX sh. Runs as the transient unit firstlight-UNIT: while that exists, no other action on the unit can begin.
#
#   sh steps.sh ACTION UNIT [FALLBACK]    ACTION: start stop restart rollback fallback
#
# It is run from a file, never as an argument of systemd-run, since systemd expands $NAME and $$ in arguments.
#
# Environment: FL_CTL (systemctl and its words), FL_WAIT_MEMORY, FL_WAIT_STOP (seconds), FL_ACCEPT_HELD=1 (start though
# others hold GPU memory), FL_RELOAD=1, FL_STAGE (rollback: folder with new/ files.txt unit), FL_BACKUP, FL_EXPECT (sha256
# of the unit's files as the operator saw them).
#
# Standard output: @firstlight TAB step TAB outcome TAB words. Outcomes: begun, wait, done, skipped, failed, undo, state.
# SIGUSR1: do not wait for the stop, kill now.
set -u
export LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin
action=$1 unit=$2 fallback=${3:-}
ctl=${FL_CTL:-systemctl}
tab=$(printf '\t')
now=begin

say() { printf '@firstlight%s%s%s%s%s%s\n' "$tab" "$1" "$tab" "$2" "$tab" "$3"; }
begin() { now=$1; say "$1" begun "$2"; }
finish() { say "$now" "done" "$1"; }
prop() { $ctl show -p "$1" --value -- "$2" 2>/dev/null; }
state() { say "$now" state "$1"; }
fail() { # what happened, what would undo it
  say "$now" failed "$1"
  state "$unit is $(prop ActiveState "$unit") ($(prop SubState "$unit"))"
  [ -z "${2:-}" ] || say "$now" undo "$2"
  exit 1
}

kill_now=0
trap 'kill_now=1' USR1

born() { # start time of a process in clock ticks: with it a pid is this process and no later one
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  line=${line##*) }
  # shellcheck disable=SC2086
  set -- $line
  [ $# -ge 20 ] || return 1
  [ "$1" != Z ] && [ "$1" != X ] || return 1
  shift 19
  echo "$1"
}

members=
remember() { # the processes of the unit now: "pid:born …"
  group=$(prop ControlGroup "$unit")
  [ -n "$group" ] || return 0
  # unified hierarchy, or systemd's own part of a hybrid or old one
  for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    [ -d "$root$group" ] || continue
    for file in "$root$group/cgroup.procs" "$root$group"/*/cgroup.procs; do
      [ -r "$file" ] || continue
      while read -r pid; do
        [ "$pid" != $$ ] && b=$(born "$pid") || continue
        case " $members " in *" $pid:$b "*) ;; *) members="$members $pid:$b" ;; esac
      done <"$file"
    done
    return
  done
}

living() { # those of them that live on
  alive=
  for member in $members; do
    b=$(born "${member%%:*}") && [ "$b" = "${member##*:}" ] && alive="$alive ${member%%:*}"
  done
  echo "$alive"
}

names() { for pid in $1; do read -r comm 2>/dev/null <"/proc/$pid/comm" && printf ' %s (%s)' "$pid" "$comm"; done; }

stop_unit() {
  begin stop "stopping $unit"
  remember
  was=$(prop ActiveState "$unit")
  if [ "$was" = inactive ] || [ "$was" = failed ]; then
    finish "$unit was not running"
    return
  fi
  limit=$(prop TimeoutStopUSec "$unit")
  $ctl stop --no-block -- "$unit" 2>/tmp/.firstlight.$$ || { why=$(cat /tmp/.firstlight.$$); rm -f /tmp/.firstlight.$$; fail "systemctl stop: $why" ""; }
  rm -f /tmp/.firstlight.$$
  waited=0 killed=0
  while :; do
    is=$(prop ActiveState "$unit")
    case $is in inactive | failed) break ;; esac
    if [ $kill_now = 1 ] && [ $killed = 0 ]; then
      say stop wait "sending SIGKILL, as asked"
      $ctl kill -s SIGKILL -- "$unit" 2>/dev/null
      killed=1
    fi
    say stop wait "$waited s, ends by SIGKILL after ${limit:-?}; still there:$(names "$(living)")"
    [ $waited -ge "${FL_WAIT_STOP:-1800}" ] && fail "$unit did not stop within $waited s" "nothing was changed; systemctl kill -s SIGKILL $unit ends it at once"
    sleep 1
    waited=$((waited + 1))
  done
  finish "$unit stopped after $waited s"
}

end_leftovers() {
  begin leftovers "looking for processes that outlived $unit"
  remember
  left=$(living)
  if [ -z "$left" ]; then
    finish "none"
    return
  fi
  say leftovers wait "ending exactly:$(names "$left")"
  # shellcheck disable=SC2086
  kill -TERM $left 2>/dev/null
  waited=0
  while left=$(living) && [ -n "$left" ]; do
    # shellcheck disable=SC2086
    [ $waited = 10 ] && kill -KILL $left 2>/dev/null
    [ $waited -ge 40 ] && fail "still alive after SIGKILL:$(names "$left"): stuck in the kernel or the driver" "start $unit again only when they are gone; a reboot of the host ends them"
    sleep 1
    waited=$((waited + 1))
  done
  finish "ended after $waited s"
}

holders() { timeout 15 nvidia-smi --query-compute-apps=pid,used_memory,process_name --format=csv,noheader,nounits 2>&1; }

free_memory() {
  begin memory "waiting until the GPUs are free"
  if ! command -v nvidia-smi >/dev/null 2>&1; then
    say memory skipped "there is no nvidia-smi on this host"
    return
  fi
  waited=0 last=
  while :; do
    held=$(holders)
    status=$?
    if [ $status = 124 ]; then
      fail "nvidia-smi does not answer: the driver is stuck" "reboot the host; then start $unit"
    elif [ $status != 0 ]; then
      case $held in
        *mismatch*) fail "the driver was upgraded under the running kernel module: $held" "a start would fail now; reboot the host, then start $unit" ;;
        *) say memory skipped "nvidia-smi: $held"; return ;;
      esac
    fi
    ours= others=
    oldifs=$IFS
    IFS='
'
    for row in $held; do
      pid=${row%%,*}
      case $pid in '' | *[!0-9]*) continue ;; esac
      case " $(IFS=' '; for m in $members; do printf '%s ' "${m%%:*}"; done)" in
        *" $pid "*) ours="$ours $row;" ;;
        *) others="$others $row;" ;;
      esac
    done
    IFS=$oldifs
    used=$(timeout 15 nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | tr '\n' ' ')
    if [ -z "$ours" ] && [ -z "$others" ]; then
      # the driver may list nobody while memory is still on its way back: wait until it no longer falls
      [ "$used" = "$last" ] && break
    elif [ -z "$ours" ]; then
      [ "${FL_ACCEPT_HELD:-}" = 1 ] && { say memory skipped "others hold memory, accepted:$others"; return; }
      [ $waited -ge 5 ] && fail "GPU memory is held by others (pid, MiB, name):$others" "end those processes or move them; then start $unit"
    fi
    last=$used
    say memory wait "$waited s, MiB in use: $used$ours$others"
    [ $waited -ge "${FL_WAIT_MEMORY:-120}" ] && fail "GPU memory did not come back within $waited s (MiB in use: $used)$ours" "wait for it, or reboot the host; then start $unit"
    sleep 1
    waited=$((waited + 1))
  done
  finish "free after $waited s (MiB in use: $used)"
}

start_unit() { # unit
  begin start "starting $1"
  [ "$(prop ActiveState "$1")" = failed ] && $ctl reset-failed -- "$1" 2>/dev/null
  before=$(prop InvocationID "$1")
  if ! why=$($ctl start --no-block -- "$1" 2>&1); then
    unit=$1
    fail "systemctl start: $why" ""
  fi
  waited=0
  while [ $waited -lt 5 ]; do
    is=$(prop ActiveState "$1")
    id=$(prop InvocationID "$1")
    [ "$id" != "$before" ] || is=waiting
    case $is in
      failed)
        unit=$1
        fail "$1 failed at once ($(prop Result "$1"), status $(prop ExecMainStatus "$1"))" "${undo:-}"
        ;;
      active | activating) [ $waited -ge 2 ] && break ;;
    esac
    sleep 1
    waited=$((waited + 1))
  done
  finish "$1 is $(prop ActiveState "$1"), invocation $(prop InvocationID "$1")"
}

reload() {
  begin reload "systemctl daemon-reload"
  why=$($ctl daemon-reload 2>&1) || fail "systemctl daemon-reload: $why" "${undo:-}"
  finish "done"
}

digest() { # of the unit's files as they are now, in the order systemd reads them
  { frag=$(prop FragmentPath "$unit"); [ -z "$frag" ] || cat -- "$frag"; for file in $(prop DropInPaths "$unit"); do cat -- "$file"; done; } 2>/dev/null | sha256sum | cut -d' ' -f1
}

# One line of files.txt: write TAB path TAB staged-name, or remove TAB path
put_back() { # list of "path" swapped so far: their saved copies return
  for path in $swapped; do
    if [ -e "$FL_BACKUP/files$path" ]; then cp -a -- "$FL_BACKUP/files$path" "$path.firstlight" && mv -f -- "$path.firstlight" "$path"; else rm -f -- "$path"; fi
  done
}

swap_files() {
  begin check "are the files as they were shown?"
  [ -z "${FL_EXPECT:-}" ] || [ "$(digest)" = "$FL_EXPECT" ] || fail "the unit's files were changed since they were shown: nothing was done" "look at the new difference and decide again"
  finish "unchanged"

  begin verify "systemd-analyze verify"
  if command -v systemd-analyze >/dev/null 2>&1; then
    verify=$(SYSTEMD_UNIT_PATH="$FL_STAGE/verify:" systemd-analyze ${FL_USER:+--user} --man=no verify "$FL_STAGE/verify/$unit" 2>&1) || fail "systemd does not accept the files: $(printf '%s' "$verify" | tr '\n' ' ' | cut -c1-500)" "nothing was changed"
    finish "accepted"
  else
    say verify skipped "no systemd-analyze here"
  fi

  begin save "keeping the present files in $FL_BACKUP"
  while IFS=$tab read -r what path name; do
    mkdir -p "$FL_BACKUP/files$(dirname "$path")" || fail "cannot make $FL_BACKUP" "nothing was changed"
    if [ -e "$path" ]; then
      cp -a -- "$path" "$FL_BACKUP/files$path" || fail "cannot keep $path" "nothing was changed"
    else
      printf '%s\n' "$path" >>"$FL_BACKUP/absent"
    fi
  done <"$FL_STAGE/files.txt"
  finish "$FL_BACKUP"

  begin write "writing the files"
  swapped=
  while IFS=$tab read -r what path name; do
    real=$path
    [ -L "$path" ] && real=$(readlink -f -- "$path")
    [ "$real" != /dev/null ] || { put_back; fail "$path is masked (a link to /dev/null)" "systemctl unmask $unit"; }
    if [ "$what" = remove ]; then
      rm -f -- "$path" || { put_back; fail "cannot remove $path" "the files are as they were"; }
    else
      mkdir -p "$(dirname "$real")" 2>/dev/null
      { [ ! -e "$real" ] || cp -a -- "$real" "$real.firstlight"; } 2>/dev/null
      if ! why=$({ cat -- "$FL_STAGE/new/$name" >"$real.firstlight" && mv -f -- "$real.firstlight" "$real"; } 2>&1); then
        rm -f -- "$real.firstlight" 2>/dev/null
        put_back
        fail "cannot write $real: $why" "the files are as they were"
      fi
    fi
    swapped="$swapped $path"
  done <"$FL_STAGE/files.txt"
  sync
  finish "written"
  undo="U brings the files of before back from $FL_BACKUP"
  reload
}

undo=
case $action in
  start) [ "${FL_RELOAD:-}" = 1 ] && reload; free_memory; start_unit "$unit" ;;
  stop) stop_unit; end_leftovers; free_memory ;;
  restart) [ "${FL_RELOAD:-}" = 1 ] && reload; stop_unit; end_leftovers; free_memory; start_unit "$unit" ;;
  rollback) swap_files; stop_unit; end_leftovers; free_memory; start_unit "$unit" ;;
  fallback)
    stop_unit; end_leftovers; free_memory
    undo="start $unit again"
    start_unit "$fallback"
    ;;
  *) fail "unknown action $action" "" ;;
esac
now=end
say end "done" "$action of $unit"
