#!/usr/bin/env bash
# Prints the compiler's options of packages as CARGO_ENCODED_RUSTFLAGS: packaging/flags.sh x86_64-unknown-linux-gnu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target="${1:?usage: packaging/flags.sh TARGET}"
flags=()
case "$target" in
*-linux-gnu) flags+=(-C target-feature=+crt-static) ;;
esac
# The linker that Rust brings for this target can fold code that is the same for several types, and pack relocations: a tenth less.
if [[ "$target" == x86_64-unknown-linux-gnu ]]; then
  flags+=(-C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs)
fi
# What profile.sh has written, if it has.
profile="target/profile/$target.profdata"
if [[ -f "$profile" ]]; then
  flags+=(-C "profile-use=$PWD/$profile")
fi
# A separator that no path has.
IFS=$'\x1f'
echo "${flags[*]:-}"
