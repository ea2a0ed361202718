#!/usr/bin/env bash
# Compares the exported names of the library and of its tools for keys with those of their newest version. That is the
# tag lib/v…, or before the first tag the last commit that changed lib/compatible.base. It refuses each change that may
# stop a program from compiling, unless lib/compatible.accepted has apidiff's line for it, without the dash. A removed
# name must have been deprecated in that version. docs/library/versions.md has the rules. The exit code is 1 after a
# refusal.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off # like the programs that require the library

apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
modules="lib lib/keyspace/tools"

if ! base=$(git describe --tags --abbrev=0 --match 'lib/v*' 2>/dev/null); then
	if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
		echo "The library's compatibility was not checked: this clone is shallow and has no tag of the library."
		exit 0
	fi
	base=$(git log -1 --format=%H -- lib/compatible.base)
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git archive "$base" lib | tar -x -C "$tmp"
for module in $modules; do
	path=github.com/stoa-dev/stoa/$module
	(cd "$tmp/$module" && go run "$apidiff" -m -w "$tmp/base.export" "$path" 2>"$tmp/said") || { cat "$tmp/said" >&2; exit 1; }
	(cd "$module" && go run "$apidiff" -m -incompatible "$tmp/base.export" "$path" 2>"$tmp/said") >"$tmp/found" || { cat "$tmp/said" >&2; exit 1; }
	sed -n "s#^- \./#- ./$module/#; s/^- //p" "$tmp/found"
done | sort -u >"$tmp/changes"
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

# A line about a removed name is "./lib/cache.Name: removed" or "./lib/cache.(*Cache[K, V]).Peek: removed".
while read -r name; do
	package=${name%%.*} what=$(sed 's/^[^.]*\.//; s/^(\*\?\([A-Za-z0-9_]*\))/\1/' <<<"$name")
	if ! (cd "$tmp/$package" && go doc . "$what" 2>/dev/null) | grep -q 'Deprecated:'; then
		echo "$package.$what goes, and was not deprecated in $base" >&2
		failed=1
	fi
done < <(sed -n 's/: removed$//; T; s/^\.\///; s/\[.*\]//; p' "$tmp/changes" | sort -u)
exit "$failed"
