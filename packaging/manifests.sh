#!/usr/bin/env bash
# Writes SHA256SUMS, the krew manifest and the Homebrew formula for the archives in dist/:
#   packaging/manifests.sh VERSION BASE_URL [DIRECTORY]
set -euo pipefail
export LC_ALL=C

version="${1:?usage: packaging/manifests.sh VERSION BASE_URL [DIRECTORY]}"
base="${2:?usage: packaging/manifests.sh VERSION BASE_URL [DIRECTORY]}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dist="${3:-$here/../dist}"
cd "$dist"

sum() {
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# The checksum of a target's archive; a manifest that misses one must not be published.
archive_sum() {
  local archive="settled-$version-$1.tar.gz"
  if [[ ! -f "$archive" ]]; then
    echo "$dist has no $archive: run packaging/build.sh $1" >&2
    return 1
  fi
  sum "$archive" | cut -d' ' -f1
}

linux_amd64="$(archive_sum x86_64-unknown-linux-gnu)"
linux_arm64="$(archive_sum aarch64-unknown-linux-gnu)"
darwin_amd64="$(archive_sum x86_64-apple-darwin)"
darwin_arm64="$(archive_sum aarch64-apple-darwin)"

fill() {
  sed -e "s|@VERSION@|$version|g" -e "s|@BASE_URL@|$base|g" \
    -e "s|@HOMEPAGE@|${base%/releases/download/*}|g" \
    -e "s|@LINUX_AMD64@|$linux_amd64|g" -e "s|@LINUX_ARM64@|$linux_arm64|g" \
    -e "s|@DARWIN_AMD64@|$darwin_amd64|g" -e "s|@DARWIN_ARM64@|$darwin_arm64|g" "$1"
}

sum "settled-$version-"*.tar.gz >SHA256SUMS
fill "$here/krew/settled.yaml" >settled.krew.yaml
fill "$here/homebrew/settled.rb" >settled.rb
echo "wrote SHA256SUMS, settled.krew.yaml and settled.rb in $PWD"
