#!/usr/bin/env bash
# Fills the templates for archives of known content and compares the result with packaging/expected.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dist="$(mktemp -d)"
trap 'rm -rf "$dist"' EXIT

if "$here/manifests.sh" 1.2.3 https://example.com/settled/releases/download/v1.2.3 "$dist" 2>/dev/null; then
  echo "manifests without archives were written"
  exit 1
fi
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin; do
  printf '%s' "$target" >"$dist/settled-1.2.3-$target.tar.gz"
done
"$here/manifests.sh" 1.2.3 https://example.com/settled/releases/download/v1.2.3 "$dist"
for file in SHA256SUMS settled.krew.yaml settled.rb; do
  if [[ "${UPDATE:-}" == 1 ]]; then cp "$dist/$file" "$here/expected/$file"; fi
  diff -u "$here/expected/$file" "$dist/$file"
done
if grep -n '@[A-Z_0-9]*@' "$dist"/settled.krew.yaml "$dist"/settled.rb; then
  echo "a template has an unknown mark"
  exit 1
fi
echo "packaging: manifests are as expected"
