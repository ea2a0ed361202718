#!/usr/bin/env bash
# Everything that can be said about the sources without running them. All
# checks run; the exit code says whether one of them found something.
set -uo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

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

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A module that requires this one compiles all its packages anew, from another path.
# In a workspace with it the benchmarks' module and the adapters of clients take what is there.
# That of the hazards needs five packages, and other versions of what both require.
adapters="redis/onrueidis redis/ongoredis cache/cacheotel"
GOWORK=$tmp/go.work go work init . ./bench $adapters

check gofmt unformatted
for module in . bench bench/hazards $adapters; do
	check "go mod tidy ($module)" go -C "$module" mod tidy -diff
done
check "go vet" env GOWORK="$tmp/go.work" go vet ./... ./bench/... ./redis/onrueidis/... ./redis/ongoredis/... ./cache/cacheotel/...
check "staticcheck" env GOWORK="$tmp/go.work" go run "$staticcheck" ./... ./bench/... ./redis/onrueidis/... ./redis/ongoredis/... ./cache/cacheotel/...
check "go vet (bench/hazards)" go -C bench/hazards vet ./...
check "staticcheck (bench/hazards)" env -C bench/hazards go run "$staticcheck" ./...
check "go build (keyvet)" go build -o "$tmp/keyvet" ./keyspace/keyvet/cmd/keyvet
check "keys outside keys.go" go vet -vettool="$tmp/keyvet" ./...
for module in $adapters; do
	check "keys outside keys.go ($module)" go -C "$module" vet -vettool="$tmp/keyvet" ./...
done
exit "$failed"
