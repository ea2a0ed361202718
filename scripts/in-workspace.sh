#!/usr/bin/env bash
# Runs a command in a workspace of this repository's modules, but for that of the hazards, which
# needs other versions of what both require. There, each package is compiled once; a module that
# requires another one would compile that one's packages anew, from another path. Nothing but
# tests and checks needs it: every module is whole by itself.
set -euo pipefail
if [ -n "${GOWORK:-}" ]; then
	exec "$@"
fi
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOWORK=$dir/go.work
(cd "$root" && go work init . ./lib ./lib/redis/onrueidis ./lib/redis/ongoredis ./lib/cache/cacheotel ./bench)
"$@"
