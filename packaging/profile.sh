#!/usr/bin/env bash
# Writes target/profile/TARGET.profdata, which says how often each part of the program runs: packaging/profile.sh x86_64-unknown-linux-gnu
#
# Builds `settled` with counters, and lets it do what its users do. build.sh optimizes packages with the profile, and `cargo xtask bench`
# measures with it. Needs the component `llvm-tools` of the toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target="${1:?usage: packaging/profile.sh TARGET}"
tools="$(rustc --print target-libdir)/../bin"
if [[ ! -x "$tools/llvm-profdata" ]]; then
  echo "error: the toolchain has no llvm-profdata; rustup component add llvm-tools" >&2
  exit 2
fi

work="$PWD/target/profile"
counts="$work/$target"
rm -rf "$counts"
mkdir -p "$counts"
# With a target, so that build scripts and macros have no counters.
CARGO_ENCODED_RUSTFLAGS="-Cprofile-generate=$counts" cargo build --locked --profile dist --package settled --package settled-lab --package settled-allocations \
  --target "$target" --target-dir "$work/build"
# What the build itself counted.
rm -f "$counts"/*.profraw
programs="$work/build/$target/dist"
settled="$programs/settled"

# Verdicts of single objects and of dumps, rules, rehearsals.
"$programs/settled-lab" bench verdict --train
for part in rules status rehearse; do
  "$programs/settled-lab" bench "$part" --smoke
done

# A server, and the client's commands on it.
session="$(mktemp -d)"
"$settled" serve --memory --simulate --nodes 10x64cpu,256Gi --port 0 --data-dir "$session/data" >"$session/serve.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$session"' EXIT
export KUBECONFIG="$session/data/admin.kubeconfig"
until [[ -s "$KUBECONFIG" ]] && "$settled" status -A >/dev/null 2>&1; do
  kill -0 "$server" || { cat "$session/serve.log" >&2; exit 1; }
  sleep 0.1
done
for name in $(seq -f 'load-%g' 40); do
  sed "s/NAME/$name/" >>"$session/load.yaml" <<'EOF'
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: 5
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:1.0
        resources: {requests: {cpu: 100m, memory: 64Mi}}
        ports: [{name: http, containerPort: 8080}]
EOF
done
for file in demo/good/shop.yaml "$session/load.yaml"; do
  "$settled" apply -f "$file" --wait --timeout 120s >/dev/null
  "$settled" wait -f "$file" --timeout 120s >/dev/null
  "$settled" tree -f "$file" >/dev/null
  "$settled" status -A -o json >/dev/null
done
kill -TERM "$server"
wait "$server" || true

"$tools/llvm-profdata" merge --output "$work/$target.profdata" "$counts"
ls -l "$work/$target.profdata"
