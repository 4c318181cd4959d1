"""What runs on the host for an action, beside the steps themselves. POSIX sh; nothing in it comes from a server."""

from __future__ import annotations

from importlib.resources import files

STEPS = files("probes.operate").joinpath("steps.sh").read_text(encoding="utf-8")

PLACES = r"""
kind=$1 id=$2 unit=$3 runner=$4
base= keep= ctl=systemctl show=systemctl log= lock=
case $kind in
system)
  base=/run/firstlight keep=/var/lib/firstlight lock=/tmp/.$runner ;;
user)
  : "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
  export XDG_RUNTIME_DIR
  base=$XDG_RUNTIME_DIR/firstlight keep=${XDG_STATE_HOME:-$HOME/.local/state}/firstlight/kept
  ctl='systemctl --user' show='systemctl --user' log=$base/$id.log ;;
sudo|polkit|login)
  # not in XDG_RUNTIME_DIR: that goes with the last session of the login
  base=${XDG_CACHE_HOME:-$HOME/.cache}/firstlight log=$base/$id.log lock=/tmp/.$runner
  ctl='sudo -n systemctl'
  [ "$kind" = sudo ] || ctl='systemctl --no-ask-password' ;;
esac
# the output of programs goes on one line for ever, which a journal would hold back
[ "$steps" = steps.sh ] || log=$base/$id.log
results=$base/$id.results
others() {
  $show show -p ActiveState -p Description -- "$runner" 2>/dev/null
  [ "$kind" = user ] || ps -e -ww -o pid=,args= | while read -r pid shell file doing on rest; do
    [ "$shell" = /bin/sh ] && [ "$on" = "$unit" ] || continue
    case $file in /*/firstlight/*/"$steps") echo "Runner=$pid $file $doing $on $rest" ;; esac
  done
  return 0
}
"""
"""``steps``, the name of the file of steps, is set before it (``asked.argv``). Kinds: the transient unit of the
system's or the user's manager, or (with the right to systemctl only, or none) a process of the login's own.
``others``: who acts on the unit now."""

LAUNCH = (
    PLACES
    + r"""
action=$5 fallback=$6 who=$7
shift 7
umask 077
mkdir -p -- "$base" || exit 70
# what runners left that were killed, and what was said to nobody who came back
alive=$(ps -e -ww -o args=)
for old in $(find "$base" -mindepth 1 -maxdepth 1 -mmin +5 -name '*.[0-9]*' 2>/dev/null); do
  case $alive in *"$old/"*) ;; *) rm -rf -- "$old" ;; esac
done
find "$base" -mindepth 1 -maxdepth 1 -mtime +7 '(' -name '*.log' -o -name '*.results' ')' \
  -exec rm -rf -- {} + 2>/dev/null
# of this attempt alone: one that a lost link broke off may still be going away
stage=$base/$id.$$
mkdir -- "$stage" || exit 70
settings= options= as=
while [ "$1" != -- ]; do
  case $1 in
  --uid=*) ! id -u -- "${1#--uid=}" >/dev/null 2>&1 || { as=${1#--uid=} options="$options $1"; } ;;
  -*) options="$options $1" ;;
  *) settings="$settings $1" ;;
  esac
  shift
done
shift
while [ $# -ge 2 ]; do
  why=$({ mkdir -p -- "$(dirname -- "$stage/$1")" && head -c "$2" >"$stage/$1"; } 2>&1) || {
    rm -rf -- "$stage"
    echo "cannot write to $base: ${why##*: }" >&2
    exit 73
  }
  [ "$(wc -c <"$stage/$1")" -eq "$2" ] || { rm -rf -- "$stage"; exit 71; }
  shift 2
done
[ -z "$log" ] || : >"$log"
if [ "$steps" != steps.sh ]; then
  mkdir -p -- "$results"
  if [ "$kind" = system ] && [ -n "$as" ]; then
    chmod 711 -- "$base"
    chown -R -- "$as" "$stage" "$log" "$results"
  fi
fi
case $kind in
system|user)
  [ "$kind" = system ] && scope=--system || scope=--user
  set --
  for option in $options; do set -- "$@" "$option"; done
  for setting in $settings; do set -- "$@" "--setenv=$setting"; done
  said=$(systemd-run $scope --no-ask-password --quiet --collect --unit="$runner" \
    --description="firstlight: $action of $unit by $who, $id" \
    --property=SyslogIdentifier="firstlight-$id" \
    --setenv=FL_ID="$id" --setenv=FL_STAGE="$stage" --setenv=FL_CTL="$ctl" --setenv=FL_SHOW="$show" \
    --setenv=FL_LOG="$log" --setenv=FL_LOCK="$lock" --setenv=FL_KEEP="$keep" "$@" \
    --setenv=FL_RESULTS="$results" \
    /bin/sh "$stage/$steps" "$action" "$unit" "$fallback" "$who" 2>&1) && exit 0
  rm -rf -- "$stage"
  printf '%s\n' "$said" >&2
  case $said in *"already loaded"*|*"already exists"*|*"lready active"*) others; exit 72 ;; esac
  exit 73 ;;
*)
  case $(others) in *Runner=*|*ActiveState=active*) others; rm -rf -- "$stage"; exit 72 ;; esac
  FL_ID=$id FL_STAGE=$stage FL_CTL=$ctl FL_SHOW=$show FL_LOG=$log FL_LOCK=$lock FL_KEEP=$keep FL_RESULTS=$results
  export FL_ID FL_STAGE FL_CTL FL_SHOW FL_LOG FL_LOCK FL_KEEP FL_RESULTS
  for setting in $settings; do export "${setting?}"; done
  # a session of its own: what the link's end ends is the session of the link
  setsid sh -c 'exec /bin/sh "$@" </dev/null >/dev/null 2>&1' sh \
    "$stage/$steps" "$action" "$unit" "$fallback" "$who" </dev/null >/dev/null 2>&1 &
  # until it stands on its own: with this shell ends whatever is still in its process group
  tries=0
  while [ $tries -lt 50 ]; do
    [ ! -s "$log" ] || exit 0
    sleep 0.1
    tries=$((tries + 1))
  done
  echo 'the steps did not begin' >&2
  exit 73 ;;
esac
"""
)
"""Arguments: kind id unit runner action fallback who, settings NAME=VALUE and options of systemd-run, ``--``, then
name and size of each file whose bytes come on standard input. Status 72: another acts on the unit; 71: the link broke
before all had come."""

GOING = PLACES + "others\n"

BEGUN = (
    PLACES
    + r"""
others
if [ -n "$log" ]; then
  [ ! -s "$log" ] || echo Begun=yes
else
  [ -z "$(journalctl -q -o cat -n 1 --no-pager -t "firstlight-$id" 2>/dev/null)" ] || echo Begun=yes
fi
"""
)
"""``others``, and ``Begun=yes`` where this action has said anything yet."""

FOLLOW = (
    PLACES
    + r"""
if [ -n "$log" ]; then
  tail -n +1 -F "$log" </dev/null 2>/dev/null &
else
  journalctl -o cat -a --no-pager --no-tail --follow -u "$runner" -t "firstlight-$id" </dev/null &
fi
reader=$!
{ while kill -0 $reader; do sleep 2; done; kill $$; } </dev/null >/dev/null 2>&1 &
guard=$!
trap 'kill $reader $guard 2>/dev/null; exit 0' TERM HUP
while read -r _; do :; done
kill $reader $guard 2>/dev/null
"""
)
"""The lines of an action from its first on. Ends with its standard input: as another user it could not be ended."""

SAID = (
    PLACES
    + r"""
if [ -n "$log" ]; then
  cat -- "$log" 2>/dev/null
else
  journalctl --sync 2>/dev/null
  journalctl -o cat -a -q --no-pager -u "$runner" -t "firstlight-$id"
fi
exit 0
"""
)
"""All lines of an action that has ended."""

KILL = (
    PLACES
    + r"""
case $kind in
system|user) $ctl kill -s SIGUSR1 --kill-who=main -- "$runner" ;;
*)
  found=1
  for one in $(others | sed -n 's/^Runner=\([0-9]*\) .*/\1/p'); do kill -USR1 "$one" && found=0; done
  [ $found = 0 ] || echo 'it is not ours to signal, or has ended' >&2
  exit $found ;;
esac
"""
)

STATE = (
    PLACES
    + r"""
$show show -p ActiveState -p SubState --value -- "$unit" | tr '\n' ' '
"""
)

SHOW = (
    PLACES
    + r"""
wanted=Id,LoadState,FragmentPath,DropInPaths,NeedDaemonReload,EnvironmentFiles
$show show --no-pager -p "$wanted" -- "$unit"
echo
[ "$kind" = user ] && echo "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user" || echo /etc/systemd/system
"""
)

READ = r"""
for file; do
  real=
  [ ! -L "$file" ] || real=$(readlink -f -- "$file")
  if why=$({ size=$(wc -c <"$file"); } 2>&1) && size=$(wc -c <"$file"); then
    printf 'file\t%s\t%s\t%s\n' "$size" "$file" "$real"
    head -c "$size" -- "$file"
    printf '\n'
  else
    printf 'unread\t0\t%s\t%s\n' "$file" "${why##*: }"
  fi
done
"""
"""Each file: a line ``file TAB size TAB path TAB what a link leads to``, its bytes, a newline."""

SAVED = (
    PLACES
    + r"""
[ -n "$keep" ] || exit 0
cd -- "$keep/$unit" 2>/dev/null || exit 0
for one in */; do
  one=${one%/}
  [ -e "$one/info" ] || continue
  printf 'saved\t0\t%s\t%s\n' "$one" "$keep/$unit/$one"
  printf 'info\t%s\t%s\t\n' "$(wc -c <"$one/info")" "$one"
  cat "$one/info"
  printf '\n'
  if [ -e "$one/absent" ]; then
    while IFS= read -r path; do printf 'absent\t0\t%s\t\n' "$path"; done <"$one/absent"
  fi
  (cd -- "$one/files" && find . -type f) | while IFS= read -r path; do
    printf 'file\t%s\t%s\t\n' "$(wc -c <"$one/files/$path")" "${path#.}"
    cat "$one/files/$path"
    printf '\n'
  done
done
"""
)
