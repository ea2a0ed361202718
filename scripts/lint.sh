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

check gofmt unformatted
for module in . bench bench/hazards; do
	check "go mod tidy ($module)" go -C "$module" mod tidy -diff
	check "go vet ($module)" go -C "$module" vet ./...
	check "staticcheck ($module)" env -C "$module" go run "$staticcheck" ./...
done
keyvet=$(mktemp -d)
trap 'rm -rf "$keyvet"' EXIT
check "go build (keyvet)" go build -o "$keyvet/keyvet" ./internal/tools/keyvet
check "keys outside keys.go" go vet -vettool="$keyvet/keyvet" ./...
check "go build (bench)" go -C bench build -o /dev/null ./...
exit "$failed"
