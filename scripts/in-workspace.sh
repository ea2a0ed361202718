#!/usr/bin/env bash
# Runs a command in a workspace of this repository's modules. The hazards module is not in it, because it needs other
# versions of shared dependencies. In the workspace, each package is compiled once. Without it, a module would compile
# the packages of a required module again, under another path. Only tests and checks use it: every module is complete by
# itself.
set -euo pipefail
if [ -n "${GOWORK:-}" ]; then
	exec "$@"
fi
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOWORK=$dir/go.work
(cd "$root" && go work init . ./lib ./lib/keyspace/tools ./lib/redis/onrueidis ./lib/redis/ongoredis ./lib/cache/cacheotel ./bench)
"$@"
