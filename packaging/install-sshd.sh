#!/usr/bin/env bash
# Unpacks Debian's sshd into the cache, for tests, unless there is one. Nothing is installed, and nothing is started.
set -euo pipefail
[[ ! -x /usr/sbin/sshd ]] || exit 0
directory="${SETTLED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/settled}/openssh-server"
[[ ! -x "$directory/usr/sbin/sshd" ]] || exit 0
mkdir -p "$directory"
cd "$directory"
# A new machine has no package lists yet.
get() { apt-get download -q openssh-server libwrap0; }
get || { apt-get update -q && get; }
for package in *.deb; do
  dpkg-deb --extract "$package" .
done
rm -- *.deb
