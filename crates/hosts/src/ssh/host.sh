# Program that runs on a host, once for each command: settled VERB DIRECTORY SERVER MACHINE ARGUMENT…
#
# POSIX sh, with coreutils (or busybox), flock and setsid. Every verb is idempotent, holds a lock while it runs, and but for `inspect` and `claim`
# does nothing unless the claim in DIRECTORY is that of its caller: a command that arrives late changes nothing. Results are lines of key=value on stdout.
# Exit codes that decide something are those of `ExitCode` in program.rs.
set -eu
umask 077
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
verb=$1 dir=$2 owner="$3 $4"
shift 4

fail() { code=$1; shift; echo "$*" >&2; exit "$code"; }

unit=settled-agent.service
has_systemd() { [ -d /run/systemd/system ]; }

# Kept by the directory above: it outlives a clean, and leaves no file.
parent=${dir%/*}
[ -n "$parent" ] || parent=/
mkdir -p "$parent"
exec 9<"$parent"
flock -w 10 9 || fail 75 "another command still runs on the host"

has_claim() { [ -s "$dir/claim" ] && [ "$(cat "$dir/claim")" = "$owner" ]; }
need_claim() { has_claim || fail 10 "claimed by: $(cat "$dir/claim" 2>/dev/null || echo nobody)"; }
# Renamed into place: whole, or not there.
store() { cat >"$dir/$1.new" && mv "$dir/$1.new" "$dir/$1"; }
current() { cat "$dir/current/$1" 2>/dev/null || true; }
boot() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo none; }
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# Whether the supervisor of the agent lives: the process that was started, in this boot.
is_alive() {
  if has_systemd; then systemctl is-active --quiet "$unit"; return; fi
  [ -s "$dir/run/pid" ] || return 1
  read -r pid since in_boot <"$dir/run/pid" || return 1
  [ "$in_boot" = "$(boot)" ] && [ "$(started "$pid")" = "$since" ]
}
# The version that the agent itself has reported, while it lives.
running() { if is_alive; then cat "$dir/run/ready" 2>/dev/null || true; fi; }

stop_agent() {
  if has_systemd; then
    systemctl disable --now "$unit" >/dev/null 2>&1 || true
    rm -f "/etc/systemd/system/$unit"
    systemctl daemon-reload || true
  elif is_alive; then
    # The supervisor leads a process group of its own.
    kill -TERM "-$pid" 2>/dev/null || true
    # It is a child of this process if it was started by it.
    wait "$pid" 2>/dev/null || true
    waits=0
    while kill -0 "-$pid" 2>/dev/null; do
      waits=$((waits + 1))
      [ "$waits" -ne 250 ] || kill -KILL "-$pid" 2>/dev/null || true
      [ "$waits" -lt 500 ] || fail 15 "the agent does not end"
      sleep 0.02
    done
  fi
  rm -f "$dir/run/pid" "$dir/run/ready" "$dir/run/exits"
}

start_agent() {
  mkdir -p "$dir/run"
  rm -f "$dir/run/ready" "$dir/run/exits"
  runtime=$(current runtime)
  [ -z "$runtime" ] || runtime=", \"containerRuntime\": {\"name\": \"${runtime%@*}\", \"version\": \"${runtime#*@}\"}"
  # What the agent reports of what it does not know itself.
  printf '{"versions": {"kubelet": "%s"%s}, "bootID": "%s"}\n' "$1" "$runtime" "$(boot)" | store state.json
  if has_systemd; then
    cat >"/etc/systemd/system/$unit" <<UNIT
[Unit]
Description=Node agent of settled
After=network-online.target
[Service]
Environment=SETTLED_READY_FILE=$dir/run/ready
ExecStart=$dir/bin/kubelet-$1 kubelet --dir $dir --version $1
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl enable "$unit" >/dev/null 2>&1
    systemctl restart "$unit"
    return
  fi
  # In a session of its own, without the lock. It starts the agent again when it ends.
  SETTLED_READY_FILE=$dir/run/ready setsid sh -c '
    run=$1; shift
    trap exit TERM
    while :; do
      rm -f "$run/ready"
      "$@" & wait $! || true
      echo >>"$run/exits"
      sleep 1
    done' agent "$dir/run" "$dir/bin/kubelet-$1" kubelet --dir "$dir" --version "$1" </dev/null >>"$dir/log" 2>&1 9<&- &
  pid=$!
  printf '%s %s %s\n' "$pid" "$(started "$pid")" "$(boot)" | store run/pid
}

# Waits until the agent reports its version. It gives up early on one that ends again and again.
is_healthy() {
  looks=$(($2 * 50))
  while [ "$looks" -gt 0 ]; do
    [ "$(running)" != "$1" ] || return 0
    [ "$(wc -l 2>/dev/null <"$dir/run/exits" || echo 0)" -lt 3 ] || return 1
    looks=$((looks - 1))
    sleep 0.02
  done
  return 1
}
restart_and_wait() { stop_agent; start_agent "$1"; is_healthy "$1" "$2"; }
excerpt() { tail -n 5 "$dir/log" 2>/dev/null | cut -c1-300 >&2 || true; }

# Puts a version in place. `$3` is a command that returns 0 if it works. Steps back to the version before if it does not.
activate() {
  name=$1 version=$2 check=$3
  [ -x "$dir/bin/$name-$version" ] || fail 16 "$name $version is not installed"
  mkdir -p "$dir/current" "$dir/previous"
  # A switch that was interrupted: what worked before it is still what to step back to.
  if [ -s "$dir/previous/$name" ]; then before=$(cat "$dir/previous/$name"); else before=$(current "$name"); fi
  [ "$before" != "$version" ] || before=
  if [ -n "$before" ]; then echo "$before" | store "previous/$name"; fi
  echo "$version" | store "current/$name"
  if $check "$version"; then
    rm -f "$dir/previous/$name"
    for file in "$dir/bin/$name"-*; do
      case $file in "$dir/bin/$name-$version" | "$dir/bin/$name-$before") ;; *) rm -f "$file" ;; esac
    done
    return 0
  fi
  excerpt
  if [ -z "$before" ] || [ ! -x "$dir/bin/$name-$before" ]; then
    rm -f "$dir/current/$name" "$dir/previous/$name"
    [ "$name" != kubelet ] || stop_agent
    fail 14 "$name $version does not work"
  fi
  echo "$before" | store "current/$name"
  code=12
  $check "$before" || code=13
  rm -f "$dir/previous/$name"
  fail "$code" "$name $version does not work"
}

case $verb in
inspect)
  [ -d "$dir" ] || exit 0
  echo "claim=$(cat "$dir/claim" 2>/dev/null || true)"
  echo "kubelet=$(running)"
  echo "runtime=$(current runtime)"
  echo "wanted=$(current kubelet)"
  [ ! -e "$dir/joined" ] || echo "joined=$(cat "$dir/joined")"
  ;;
claim)
  mkdir -p "$dir"
  if [ -s "$dir/claim" ]; then has_claim || { echo "claim=$(cat "$dir/claim")"; fail 10 "claimed by: $(cat "$dir/claim")"; }
  else echo "$owner" | store claim; fi
  mkdir -p "$dir/bin" "$dir/current" "$dir/run"
  for file in "$dir/bin"/*-*; do [ ! -f "$file" ] || echo "artifact=${file##*/} $(sha256sum <"$file" | cut -d' ' -f1)"; done
  echo "arch=$(uname -m)"
  ;;
artifacts)
  need_claim
  for file in "$dir/bin"/*-*; do [ ! -f "$file" ] || echo "artifact=${file##*/} $(sha256sum <"$file" | cut -d' ' -f1)"; done
  echo "arch=$(uname -m)"
  ;;
install) # NAME SHA256
  need_claim
  mkdir -p "$dir/bin"
  trap 'rm -f "$dir/bin/.partial"' EXIT
  cat >"$dir/bin/.partial"
  [ "$(sha256sum <"$dir/bin/.partial" | cut -d' ' -f1)" = "$2" ] || fail 11 "the file is not complete"
  chmod 700 "$dir/bin/.partial"
  sync "$dir/bin/.partial" 2>/dev/null || sync
  mv "$dir/bin/.partial" "$dir/bin/$1"
  ;;
configure) # FILE
  need_claim
  trap 'rm -f "$dir/$file.new"' EXIT
  file=$1
  store "$file"
  ;;
join) # KUBELET SECONDS NODE: starts the agent for the first time
  need_claim
  seconds=$2
  starts() { [ "$(running)" = "$1" ] || restart_and_wait "$1" "$seconds"; }
  activate kubelet "$1" starts
  echo "$3" | store joined
  ;;
kubelet) # VERSION SECONDS
  need_claim
  seconds=$2
  starts() { [ "$(running)" = "$1" ] || restart_and_wait "$1" "$seconds"; }
  activate kubelet "$1" starts
  ;;
runtime) # NAME VERSION SECONDS: as it answers by itself what it is
  need_claim
  seconds=$3
  answers() { timeout "$seconds" "$dir/bin/runtime-$1" --version 2>>"$dir/log" | grep -qF -- "${1#*@}"; }
  before_it=$(current runtime)
  activate runtime "$1@$2" answers
  # The agent reports it.
  if [ -e "$dir/joined" ] && [ "$before_it" != "$1@$2" ] && [ -n "$(current kubelet)" ]; then
    restart_and_wait "$(current kubelet)" "$seconds" || fail 17 "the agent does not start again"
  fi
  ;;
clean)
  [ -d "$dir" ] || exit 0
  if [ -s "$dir/claim" ] && ! has_claim; then fail 10 "claimed by: $(cat "$dir/claim")"; fi
  stop_agent
  # The claim goes last: what is interrupted here goes on with the next command.
  for file in "$dir"/* "$dir"/.[!.]*; do
    case $file in "$dir/claim") ;; *) rm -rf "$file" || fail 15 "$file cannot be removed" ;; esac
  done
  rm -rf "$dir" || fail 15 "$dir cannot be removed"
  ;;
*) fail 64 "unknown verb $verb" ;;
esac
