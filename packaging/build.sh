#!/usr/bin/env bash
# Builds `settled` for a target, static and with a profile on Linux, and packs it: packaging/build.sh x86_64-unknown-linux-gnu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target="${1:?usage: packaging/build.sh TARGET}"
version="$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"name":"settled","version":"\([^"]*\)".*/\1/')"
name="settled-$version-$target"

# A program for another system cannot run here. Measuring what runs needs Linux.
if [[ "$target" == *-linux-gnu && "$target" == "$(rustc --print host-tuple)" && ! -f "target/profile/$target.profdata" ]]; then
  packaging/profile.sh "$target"
fi
CARGO_ENCODED_RUSTFLAGS="$(packaging/flags.sh "$target")" cargo build --locked --profile dist --package settled --target "$target"
binary="target/$target/dist/settled"

stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/$name/man" "$stage/$name/completions" dist
cp "$binary" LICENSE README.md "$stage/$name/"
cp crates/manifest/NOTICE "$stage/$name/NOTICE"
# The binary writes its own manual and completions; one for another machine cannot run here.
if "$binary" --version >/dev/null 2>&1; then
  "$binary" man --dir "$stage/$name/man"
  for shell in bash zsh fish; do
    "$binary" completions "$shell" >"$stage/$name/completions/settled.$shell"
  done
fi
# The same archive for the same files: sorted, without times and owners (where tar can).
if tar --version 2>/dev/null | grep -q GNU; then
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$stage" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
else
  tar -C "$stage" -czf "dist/$name.tar.gz" "$name"
fi
ls -l "dist/$name.tar.gz"
