#!/usr/bin/env bash
# Compares what is generated and kept in the tree with what would be generated
# now: docs/reference, keyspace.lock, and the page in web/dist where there is a Node that can
# build it. The Go side has no need of Node, so its absence fails nothing here.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

go run ./cmd/stoa reference "$tmp/reference" >/dev/null
if ! diff -ru docs/reference "$tmp/reference"; then
	echo "docs/reference is not current: run make generate" >&2
	failed=1
fi

cp keyspace.lock "$tmp/keyspace.lock"
if ! go run ./cmd/stoa keys diff --write "$tmp/keyspace.lock" || ! diff -u keyspace.lock "$tmp/keyspace.lock"; then
	echo "keyspace.lock is not what the program declares: run make generate, see docs/decisions/0011-keyspace-lock.md" >&2
	failed=1
fi

if ! command -v npm >/dev/null; then
	echo "web/dist was not checked: there is no npm"
elif ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a === 20 && b >= 19 || a === 22 && b >= 12 || a > 22 ? 0 : 1)'; then
	echo "web/dist was not checked: node $(node --version) is too old, see web/package.json"
else
	[ web/node_modules/.package-lock.json -nt web/package-lock.json ] || npm --prefix web ci --no-audit --no-fund
	npm --prefix web run --silent build -- --outDir "$tmp/dist" --emptyOutDir --logLevel warn
	if ! diff -rq web/dist "$tmp/dist"; then
		echo "web/dist is not what web/src builds: run npm run build in web" >&2
		failed=1
	fi
fi
exit "$failed"
