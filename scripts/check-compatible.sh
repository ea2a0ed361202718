#!/usr/bin/env bash
# Compares the library's exported names with those of its newest version. That is the tag lib/v…, or before the first
# tag the commit in lib/compatible.base. It refuses each change that may stop a program from compiling, unless
# lib/compatible.accepted has apidiff's line for it, without the dash. A removed name must have been deprecated in that
# version. docs/library/versions.md has the rules. The exit code is 1 after a refusal.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off # like the programs that require the library

apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
module=github.com/stoa-dev/stoa/lib

base=$(git describe --tags --abbrev=0 --match 'lib/v*' 2>/dev/null || head -n 1 lib/compatible.base)
if ! git cat-file -e "$base^{commit}" 2>/dev/null; then
	echo "The library's compatibility was not checked: this clone does not have $base."
	exit 0
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git archive "$base" lib | tar -x -C "$tmp"
(cd "$tmp/lib" && go run "$apidiff" -m -w "$tmp/base.export" "$module" 2>"$tmp/said") || { cat "$tmp/said" >&2; exit 1; }
(cd lib && go run "$apidiff" -m -incompatible "$tmp/base.export" "$module" 2>"$tmp/said") >"$tmp/found" || { cat "$tmp/said" >&2; exit 1; }
sed -n 's/^- //p' "$tmp/found" | sort -u >"$tmp/changes"
{ grep -v '^\(#\|$\)' lib/compatible.accepted || true; } | sort >"$tmp/accepted"

failed=0
while read -r change; do
	echo "incompatible with $base, and not in lib/compatible.accepted: $change" >&2
	failed=1
done < <(comm -23 "$tmp/changes" "$tmp/accepted")
while read -r line; do
	echo "lib/compatible.accepted has a line for nothing: $line" >&2
	failed=1
done < <(comm -13 "$tmp/changes" "$tmp/accepted")

# A line about a removed name is "./cache.Name: removed" or "./cache.(*Cache[K, V]).Peek: removed".
while read -r name; do
	package=${name%%.*} what=$(sed 's/^[^.]*\.//; s/^(\*\?\([A-Za-z0-9_]*\))/\1/' <<<"$name")
	if ! (cd "$tmp/lib" && go doc "./$package" "$what" 2>/dev/null) | grep -q 'Deprecated:'; then
		echo "$package.$what goes, and was not deprecated in $base" >&2
		failed=1
	fi
done < <(sed -n 's/: removed$//; T; s/^\.\///; s/\[.*\]//; p' "$tmp/changes" | sort -u)
exit "$failed"
