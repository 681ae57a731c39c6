#!/usr/bin/env bash
# Downloads a release for this runner, checks it, and puts it into PATH.
set -euo pipefail

version="${VERSION#v}"
case "$(uname -s)-$(uname -m)" in
Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
Darwin-arm64) target=aarch64-apple-darwin ;;
Darwin-x86_64) target=x86_64-apple-darwin ;;
*)
  echo "::error::settled has no release for $(uname -s) on $(uname -m)"
  exit 1
  ;;
esac

name="settled-$version-$target"
directory="${RUNNER_TOOL_CACHE:-${RUNNER_TEMP:?}}/settled/$version/$target"
if [[ ! -x "$directory/$name/settled" ]]; then
  mkdir -p "$directory"
  cd "$directory"
  gh release download "v$version" --repo "$REPOSITORY" --pattern "$name.tar.gz" --pattern SHA256SUMS --clobber
  grep " $name.tar.gz\$" SHA256SUMS >"$name.sha256"
  if command -v sha256sum >/dev/null; then sha256sum -c "$name.sha256"; else shasum -a 256 -c "$name.sha256"; fi
  tar -xzf "$name.tar.gz"
fi
ln -sf "$directory/$name/settled" "$directory/$name/kubectl-settled"
echo "$directory/$name" >>"${GITHUB_PATH:?}"
echo "path=$directory/$name/settled" >>"${GITHUB_OUTPUT:?}"
"$directory/$name/settled" --version
