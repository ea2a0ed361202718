#!/usr/bin/env bash
# Compares the generated files in the tree with newly generated ones: docs/reference, keyspace.lock, and with a suitable
# Node the page in web/dist. With Node, the OpenAPI document is also linted, and a client that is generated from it is
# compiled. Without Node these checks are skipped, because the Go side does not need it.
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

# packages NAME installs the packages of NAME/package-lock.json, if necessary.
packages() { [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ] || npm --prefix "$1" ci --no-audit --no-fund; }

if ! command -v npm >/dev/null; then
	echo "web/dist and the OpenAPI document were not checked: there is no npm"
elif ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a === 20 && b >= 19 || a === 22 && b >= 12 || a > 22 ? 0 : 1)'; then
	echo "web/dist and the OpenAPI document were not checked: node $(node --version) is too old, see web/package.json"
else
	packages web
	npm --prefix web run --silent build -- --outDir "$tmp/dist" --emptyOutDir --logLevel warn
	if ! diff -rq web/dist "$tmp/dist"; then
		echo "web/dist is not what web/src builds: run npm run build in web" >&2
		failed=1
	fi
	packages scripts/openapi
	for check in lint client; do
		if ! npm --prefix scripts/openapi run --silent $check >"$tmp/said" 2>&1; then
			cat "$tmp/said"
			echo "docs/reference/openapi.json is not fit for generators: npm run $check in scripts/openapi" >&2
			failed=1
		fi
	done
fi
exit "$failed"
