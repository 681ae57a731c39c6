#!/usr/bin/env bash
# Unpacks Debian's QEMU, a kernel for virtual machines and a static busybox into the cache, for tests, unless they are there. Nothing is installed. Prints
# the directory, for SETTLED_QEMU_ROOT.
set -euo pipefail
directory="${SETTLED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/settled}/qemu"
if [[ ! -f "$directory/complete" ]]; then
  rm -rf "$directory"
  mkdir -p "$directory"
  cd "$directory"
  # What of their dependencies is not installed. A new machine has no package lists yet.
  missing() {
    apt-get install -q --simulate --reinstall --no-install-recommends qemu-system-x86 linux-image-cloud-amd64 busybox-static |
      awk '$1 == "Inst" { print $2 }'
  }
  packages="$(missing)" || { apt-get update -q && packages="$(missing)"; } >&2
  # shellcheck disable=SC2086 # one word for each package
  apt-get download -q $packages >&2
  for package in *.deb; do
    dpkg-deb --extract "$package" .
  done
  rm -- *.deb
  touch complete
fi
printf '%s\n' "$directory"
