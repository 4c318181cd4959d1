# firstlight: one action on one unit, step by step, on the host itself, so that it ends whether or not anybody watches.
# POSIX sh. It is run from a file, never as an argument of systemd-run, since systemd expands $NAME and $$ in arguments.
#
#   sh steps.sh ACTION UNIT FALLBACK WHO    ACTION: start stop restart rollback undo fallback
#
# Environment: FL_ID; FL_STAGE (the folder of this file; for files also new/, verify/, files.txt); FL_CTL (systemctl and
# its words), FL_SHOW (the same where nothing is changed); FL_LOG (write there instead of to standard output); FL_LOCK (a
# file to hold a lock on); FL_KEEP (folder for the files of before); FL_WAIT_MEMORY, FL_WAIT_STOP (seconds);
# FL_ACCEPT_HELD=1 (start though others hold GPU memory); FL_RELOAD=1; FL_EXPECT, FL_RESULT (sha256 of the unit's files
# as the operator saw them, and as they are to be).
#
# Output: @firstlight TAB id TAB number TAB time TAB step TAB outcome TAB words. The last line is of the step "end".
# SIGUSR1: do not wait for the stop, kill now.
set -u
umask 022
export LC_ALL=C SYSTEMD_COLORS=0 SYSTEMD_PAGER=
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin
action=$1 unit=$2 fallback=${3#-} who=${4:-}
ctl=${FL_CTL:-systemctl} show=${FL_SHOW:-${FL_CTL:-systemctl}}
tab=$(printf '\t')
newline='
'
now=begin number=0 undo='' outcome=unknown words='it was ended from outside'
[ -z "${FL_LOG:-}" ] || exec >>"$FL_LOG" 2>&1

say() {
  number=$((number + 1))
  printf '@firstlight\t%s\t%s\t%s\t%s\t%s\t%s\n' "${FL_ID:-0}" "$number" "$(date +%s.%N)" "$1" "$2" "$(one_line "$3")"
}
one_line() { case $1 in *"$newline"* | *"$tab"*) printf %s "$1" | tr '\n\t' '  ' ;; *) printf %s "$1" ;; esac; }
begin() { now=$1; say "$1" begun "$2"; }
finish() { say "$now" "done" "$1"; }
prop() { $show show -p "$1" --value -- "$2" 2>/dev/null; }
fail() { # what happened, what would undo it
  say "$now" failed "$1"
  say "$now" state "$unit is $(prop ActiveState "$unit") ($(prop SubState "$unit"))"
  [ -z "${2:-}" ] || say "$now" undo "$2"
  outcome=failed words=$1
  exit 1
}
last() {
  say end "$outcome" "$words"
  [ -z "${FL_STAGE:-}" ] || rm -rf -- "$FL_STAGE"
}
kill_now=0
trap last EXIT
trap 'exit 1' TERM INT HUP
trap 'kill_now=1' USR1

# ----- processes

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

members=''
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
  alive=''
  for member in $members; do
    b=$(born "${member%%:*}") && [ "$b" = "${member##*:}" ] && alive="$alive ${member%%:*}"
  done
  echo "$alive"
}

names() { for pid in $1; do read -r comm 2>/dev/null <"/proc/$pid/comm" && printf ' %s (%s)' "$pid" "$comm"; done; }

stop_unit() {
  begin stop "stopping $unit"
  remember
  note_memory
  was=$(prop ActiveState "$unit")
  case $was in
    inactive | failed)
      finish "$unit was not running"
      return
      ;;
  esac
  limit=$(prop TimeoutStopUSec "$unit")
  why=$($ctl stop --no-block -- "$unit" 2>&1) || fail "systemctl stop: $why" "$undo"
  waited=0 killed=0
  while :; do
    is=$(prop ActiveState "$unit")
    case $is in inactive | failed) break ;; esac
    if [ $kill_now = 1 ] && [ $killed = 0 ]; then
      say stop note "SIGKILL to all of $unit, as asked"
      $ctl kill -s SIGKILL -- "$unit" 2>/dev/null
      killed=1
    fi
    remember
    say stop wait "$waited s, ends by SIGKILL after ${limit:-?}; still there:$(names "$(living)")"
    [ $waited -lt "${FL_WAIT_STOP:-1800}" ] ||
      fail "$unit did not stop within $waited s" "${undo:-systemctl kill -s SIGKILL $unit ends it at once}"
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
  why=$(kill -TERM $left 2>&1)
  waited=0
  while left=$(living) && [ -n "$left" ]; do
    case $why in *ermitted*) [ $waited -lt 2 ] || fail "these live on and are not ours to end:$(names "$left")" "sudo kill -KILL$left, then start $unit" ;; esac
    # shellcheck disable=SC2086
    [ $waited != 10 ] || kill -KILL $left 2>/dev/null
    [ $waited -lt 40 ] || fail "still alive after SIGKILL:$(names "$left"): stuck in the kernel or the driver" "start $unit again only when they are gone; a reboot of the host ends them"
    sleep 1
    waited=$((waited + 1))
  done
  finish "ended after $waited s"
}

# ----- the GPUs' memory

smi() { timeout 15 nvidia-smi "$@" --format=csv,noheader,nounits 2>&1; }

is_ours() { case " $members " in *" $1:"*) return 0 ;; esac; return 1; }

# Which GPUs the unit's processes hold, and who else was there before: a neighbour with whom it lived is no obstacle.
gpus='' neighbours='' noted=''
note_memory() {
  command -v nvidia-smi >/dev/null 2>&1 || return 0
  rows=$(smi --query-compute-apps=pid,gpu_uuid) || return 0
  noted=1
  oldifs=$IFS IFS=$newline
  for row in $rows; do
    IFS=$oldifs
    pid=${row%%,*} gpu=${row##*, }
    case $pid in '' | *[!0-9]*) continue ;; esac
    if is_ours "$pid"; then
      case " $gpus " in *" $gpu "*) ;; *) gpus="$gpus $gpu" ;; esac
    else
      neighbours="$neighbours $pid"
    fi
  done
  IFS=$oldifs
  [ -n "$gpus" ] || neighbours=''
}

free_memory() {
  begin memory "waiting until the GPUs are free"
  if ! command -v nvidia-smi >/dev/null 2>&1; then
    say memory skipped "there is no nvidia-smi on this host"
    return
  fi
  waited=0 before=''
  while :; do
    rows=$(smi --query-compute-apps=pid,gpu_uuid,used_memory,process_name)
    status=$?
    if [ $status = 124 ]; then
      fail "nvidia-smi does not answer: the driver is stuck" "reboot the host; then start $unit"
    elif [ $status != 0 ]; then
      case $rows in
        *mismatch*) fail "the driver was upgraded under the running kernel module: $rows" "a start would fail now; reboot the host, then start $unit" ;;
      esac
      say memory skipped "nvidia-smi: $rows"
      return
    fi
    ours='' others='' same=''
    oldifs=$IFS IFS=$newline
    for row in $rows; do
      IFS=$oldifs
      pid=${row%%,*} rest=${row#*, }
      gpu=${rest%%,*}
      case $pid in '' | *[!0-9]*) continue ;; esac
      if is_ours "$pid"; then
        ours="$ours $pid (${rest#*, })"
        continue
      fi
      [ -z "$gpus" ] || case " $gpus " in *" $gpu "*) ;; *) continue ;; esac
      case " $neighbours " in
        *" $pid "*) same="$same $pid" ;;
        *) others="$others $pid (${rest#*, })" ;;
      esac
    done
    IFS=$oldifs
    used=0
    for row in $(smi --query-gpu=uuid,memory.used | tr -d ' '); do
      [ -z "$gpus" ] || case " $gpus " in *" ${row%%,*} "*) ;; *) continue ;; esac
      case ${row##*,} in '' | *[!0-9]*) ;; *) used=$((used + ${row##*,})) ;; esac
    done
    if [ -z "$ours" ] && [ -z "$others" ]; then
      # the driver may list nobody while memory is still on its way back: wait until it no longer falls
      [ -n "$before" ] && [ "$used" -ge "$before" ] && break
    elif [ -z "$ours" ]; then
      if [ "${FL_ACCEPT_HELD:-}" = 1 ]; then
        say memory skipped "held by others, as accepted:$others"
        return
      fi
      [ $waited -lt 5 ] || fail "GPU memory is held by others (MiB, name):$others" "end those processes or move them; then start $unit"
    fi
    before=$used
    say memory wait "$waited s, $used MiB in use$ours$others"
    [ $waited -lt "${FL_WAIT_MEMORY:-180}" ] || fail "GPU memory did not come back within $waited s ($used MiB in use)$ours" "wait for it, or reboot the host; then start $unit"
    sleep 1
    waited=$((waited + 1))
  done
  finish "free after $waited s ($used MiB in use${same:+, shared with$same as before})"
}

# ----- start

start_unit() { # unit
  begin start "starting $1"
  target=$1
  before=$(prop InvocationID "$target")
  [ "$(prop ActiveState "$target")" != failed ] || $ctl reset-failed -- "$target" 2>/dev/null
  why=$($ctl start --no-block -- "$target" 2>&1) || { unit=$target; fail "systemctl start: $why" "$undo"; }
  waited=0
  while [ $waited -lt 6 ]; do
    is=$(prop ActiveState "$target")
    [ "$(prop InvocationID "$target")" != "$before" ] || is=waiting
    [ "$(prop SubState "$target")" != auto-restart ] || is=failed
    case $is in
      failed)
        unit=$target
        fail "$target failed at once ($(prop Result "$target"), status $(prop ExecMainStatus "$target"))" "$undo"
        ;;
      active | activating) [ $waited -lt 3 ] || break ;;
    esac
    sleep 1
    waited=$((waited + 1))
  done
  case $is in
    active | activating | reloading) finish "$target is $is, invocation $(prop InvocationID "$target")" ;;
    waiting)
      unit=$target
      [ -n "$(prop Job "$target")" ] && [ "$(prop Job "$target")" != 0 ] && { finish "$target waits for units that come before it"; return; }
      fail "$target did not start: a condition is not met, or a unit that it needs failed" "$undo"
      ;;
    *)
      unit=$target
      [ "$(prop Type "$target")" = oneshot ] && { finish "$target has run"; return; }
      fail "$target ended at once, with success ($(prop Result "$target"), status $(prop ExecMainStatus "$target"))" "$undo"
      ;;
  esac
}

reload() {
  begin reload "systemctl daemon-reload"
  why=$($ctl daemon-reload 2>&1) || fail "systemctl daemon-reload: $why" "$undo"
  finish "done"
}

# ----- files

listed() { # the unit's files in the order systemd reads them, one a line
  prop FragmentPath "$unit"
  prop DropInPaths "$unit" | tr ' ' '\n'
}

digest() {
  listed | while IFS= read -r file; do [ -z "$file" ] || cat -- "$file"; done 2>/dev/null | sha256sum | cut -d' ' -f1
}

put_back() { # the files of before return; nothing else has happened yet
  while IFS=$tab read -r what path name; do
    real=$path
    [ ! -L "$path" ] || real=$(readlink -f -- "$path")
    rm -f -- "$real.firstlight" 2>/dev/null
    if [ -e "$kept/files$path" ]; then
      cmp -s -- "$kept/files$path" "$real" && continue
      cp -aL -- "$kept/files$path" "$real.firstlight" && mv -f -- "$real.firstlight" "$real"
    else
      rm -f -- "$path"
    fi
  done <"$FL_STAGE/files.txt"
}

swap_files() {
  begin check "are the files as they were shown?"
  [ -z "${FL_EXPECT:-}" ] || [ "$(digest)" = "$FL_EXPECT" ] || fail "the unit's files were changed since they were shown: nothing was done" "look at the new difference and decide again"
  finish "unchanged since"

  begin verify "systemd-analyze verify"
  if [ ! -e "$FL_STAGE/verify/$unit" ]; then
    say verify skipped "nothing to verify"
  elif ! command -v systemd-analyze >/dev/null 2>&1; then
    say verify skipped "there is no systemd-analyze on this host"
  else
    case $ctl in *--user*) scope=--user ;; *) scope=--system ;; esac
    # the trailing colon keeps the other folders, where the units are that this one names
    if ! why=$(SYSTEMD_UNIT_PATH="$FL_STAGE/verify:" systemd-analyze "$scope" --man=no verify "$FL_STAGE/verify/$unit" 2>&1); then
      fail "systemd does not accept the files: $(printf %s "$why" | tr '\n' ' ' | sed "s#$FL_STAGE/verify/##g" | cut -c1-500)" "nothing was changed"
    fi
    finish "accepted"
  fi

  kept=$FL_KEEP/$unit/$FL_ID
  begin save "keeping the files of before in $kept"
  why=$(mkdir -p -- "$kept/files" 2>&1) || fail "cannot make $kept: $why" "nothing was changed"
  chmod 700 "$FL_KEEP" "$FL_KEEP/$unit" "$kept" 2>/dev/null
  while IFS=$tab read -r what path name; do
    case $path in /*) ;; *) fail "$path is no path" "nothing was changed" ;; esac
    if [ -e "$path" ]; then
      why=$({ mkdir -p -- "$kept/files${path%/*}" && cp -aL -- "$path" "$kept/files$path"; } 2>&1) || fail "cannot keep $path: $why" "nothing was changed"
    else
      printf '%s\n' "$path" >>"$kept/absent" || fail "cannot write $kept/absent" "nothing was changed"
    fi
  done <"$FL_STAGE/files.txt"
  printf '%s\t%s\t%s\n' "$(date +%s.%N)" "$action" "$who" >"$kept/info" || fail "cannot write $kept/info" "nothing was changed"
  finish "$kept"

  begin write "writing the files"
  # all of them beside their places first: what cannot be written (a full disk, a read-only /etc) has changed nothing
  while IFS=$tab read -r what path name; do
    real=$path
    [ ! -L "$path" ] || real=$(readlink -f -- "$path")
    case $real in /dev/null) put_back; fail "$path is masked (a link to /dev/null)" "systemctl unmask $unit" ;; esac
    if [ "$what" = remove ]; then
      [ -w "${path%/*}" ] || { put_back; fail "cannot remove $path: ${path%/*} cannot be written" "the files are as they were"; }
      continue
    fi
    why=$(
      { mkdir -p -- "${real%/*}" &&
        { [ ! -e "$real" ] || cp -aL -- "$real" "$real.firstlight"; } &&
        cat -- "$FL_STAGE/new/$name" >"$real.firstlight" &&
        { [ -e "$real" ] || chmod 644 "$real.firstlight"; } &&
        cmp -- "$FL_STAGE/new/$name" "$real.firstlight"; } 2>&1
    ) || {
      put_back
      fail "cannot write $real: ${why##*: }" "the files are as they were"
    }
  done <"$FL_STAGE/files.txt"
  sync
  while IFS=$tab read -r what path name; do
    real=$path
    [ ! -L "$path" ] || real=$(readlink -f -- "$path")
    if [ "$what" = remove ]; then
      why=$(rm -f -- "$path" 2>&1) || { put_back; fail "cannot remove $path: $why" "the files are as they were"; }
    else
      why=$(mv -f -- "$real.firstlight" "$real" 2>&1) || { put_back; fail "cannot write $real: $why" "the files are as they were"; }
    fi
  done <"$FL_STAGE/files.txt"
  finish "written"

  begin reload "systemctl daemon-reload"
  if ! why=$($ctl daemon-reload 2>&1); then
    put_back
    $ctl daemon-reload 2>/dev/null
    fail "systemctl daemon-reload: $why" "the files are as they were"
  fi
  if [ -n "${FL_RESULT:-}" ] && [ "$(digest)" != "$FL_RESULT" ]; then
    read_now=$(listed | tr '\n' ' ')
    put_back
    $ctl daemon-reload 2>/dev/null
    fail "the unit does not read as it was to: a file came between ($read_now)" "the files are as they were; look at the new difference and decide again"
  fi
  finish "the unit reads as wanted"
  undo="the files of before are in $kept: undo brings them back"
}

# ----- the action

say begin begun "$action of $unit${fallback:+, $fallback instead}"
if [ -n "${FL_LOCK:-}" ] && command -v flock >/dev/null 2>&1; then
  # a file of somebody else in a sticky folder cannot be opened with O_CREAT, not even by root: so it is only read
  [ -e "$FL_LOCK" ] || (set -C && : >"$FL_LOCK") 2>/dev/null
  if [ -f "$FL_LOCK" ] && [ ! -L "$FL_LOCK" ] && exec 9<"$FL_LOCK" && ! flock -n 9; then
    outcome=refused words="another action on $unit is under way on this host: nothing was done"
    exit 1
  fi
fi
case $action in
  start) [ "${FL_RELOAD:-}" != 1 ] || reload; remember; free_memory; start_unit "$unit" ;;
  stop) stop_unit; end_leftovers; free_memory ;;
  restart) [ "${FL_RELOAD:-}" != 1 ] || reload; stop_unit; end_leftovers; free_memory; start_unit "$unit" ;;
  rollback | undo) swap_files; stop_unit; end_leftovers; free_memory; start_unit "$unit" ;;
  fallback)
    [ "$(prop LoadState "$fallback")" = loaded ] || fail "$fallback is $(prop LoadState "$fallback") on this host" "nothing was changed"
    stop_unit
    undo="start $unit again"
    end_leftovers
    free_memory
    start_unit "$fallback"
    ;;
  *) fail "unknown action $action" "" ;;
esac
outcome=done words="$action of $unit is done"
exit 0
