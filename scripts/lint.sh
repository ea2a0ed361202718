#!/usr/bin/env bash
# Runs all static checks of the sources, even after a failure. The exit code reports whether a check failed.
set -uo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

# With a larger heap, staticcheck and the compiler need less processor time.
export GOGC=400

failed=0
check() { # name command…
	local name=$1 out
	shift
	if ! out=$("$@" 2>&1); then
		printf '== %s\n%s\n' "$name" "$(head -n 60 <<<"$out")"
		failed=1
	fi
}

unformatted() {
	local files
	files=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$f" ] || gofmt -l "$f"; done)
	[ -z "$files" ] || { echo "$files"; return 1; }
}

# The page and the JavaScript client. Type-aware rules need the packages of both. Without Node this check is skipped,
# because the Go side does not need it.
scripts_in_js() {
	command -v npm >/dev/null || return 0
	for dir in scripts/js web clients/js; do
		[ "$dir/node_modules/.package-lock.json" -nt "$dir/package-lock.json" ] || npm --prefix "$dir" ci --no-audit --no-fund || return
	done
	npm --prefix scripts/js run --silent lint && npm --prefix web run --silent check && npm --prefix clients/js run --silent check
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The checks of JavaScript use one processor, so they run at the same time as the checks of Go.
(check "eslint, prettier and tsc" scripts_in_js; exit "$failed") >"$tmp/js" &
js=$!

modules="lib lib/keyspace/tools lib/redis/onrueidis lib/redis/ongoredis lib/cache/cacheotel"
packages=$(printf './%s/... ' . $modules bench)

check gofmt unformatted
for module in . $modules bench bench/hazards; do
	check "go mod tidy ($module)" go -C "$module" mod tidy -diff
done
# shellcheck disable=SC2086 # a list
check "go vet" scripts/in-workspace.sh go vet $packages
# shellcheck disable=SC2086
check "staticcheck" scripts/in-workspace.sh go run "$staticcheck" $packages
check "go vet (internal/checkin/hazards)" scripts/in-workspace.sh go vet -tags hazards ./internal/checkin/hazards
check "go vet (bench/hazards)" env GOWORK=off go -C bench/hazards vet ./...
check "staticcheck (bench/hazards)" env -C bench/hazards GOWORK=off go run "$staticcheck" ./...
check "go build (keyvet)" scripts/in-workspace.sh go build -o "$tmp/keyvet" ./lib/keyspace/tools/cmd/keyvet
# As a command of its own, keyvet checks each package once. Under go vet it is a process for each package and its tests.
# shellcheck disable=SC2086
check "keys outside keys.go" scripts/in-workspace.sh "$tmp/keyvet" -test=false ./... $(printf './%s/... ' $modules)
wait "$js" || failed=1
cat "$tmp/js"
exit "$failed"
