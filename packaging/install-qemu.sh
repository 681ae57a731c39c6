#!/usr/bin/env bash
# Unpacks Debian's QEMU, a kernel for virtual machines and a static busybox into the cache, for tests, unless they are installed. Nothing is installed, and
# nothing is started. Prints where they are, for SETTLED_QEMU_ROOT.
set -euo pipefail
if [[ -x /usr/bin/qemu-system-x86_64 && -x /bin/busybox ]] && compgen -G '/boot/vmlinuz-*cloud*' >/dev/null; then
  echo /
  exit 0
fi
directory="${SETTLED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/settled}/qemu"
if [[ ! -f "$directory/complete" ]]; then
  rm -rf "$directory"
  mkdir -p "$directory"
  cd "$directory"
  # They, and what of their dependencies is not installed.
  packages() {
    apt-get install -q --simulate --reinstall --no-install-recommends \
      qemu-system-x86 linux-image-cloud-amd64 busybox-static | awk '$1 == "Inst" { print $2 }'
  }
  get() { packages | xargs apt-get download -q; }
  # A new machine has no package lists yet.
  { get || { apt-get update -q && get; }; } >&2
  for package in *.deb; do
    dpkg-deb --extract "$package" .
  done
  rm -- *.deb
  touch complete
fi
printf '%s\n' "$directory"
