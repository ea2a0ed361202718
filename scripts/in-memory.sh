#!/usr/bin/env bash
# Runs a command with its temporary files in memory, if there is enough memory. The tests kill processes and never the
# machine, so a flush to a disk proves nothing, and takes half of their time. The folder has the same name in each run,
# because Go's cache of test results compares TMPDIR. The last of several runs empties it.
set -euo pipefail

export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} # the build output of Go is large
if [[ -w /dev/shm ]] && (($(df -Pm /dev/shm | awk 'NR == 2 {print $4}') >= 4000)); then
	dir=/dev/shm/stoa-test-$(id -u)
	mkdir -p "$dir"
	exec 9>"$dir.lock"
	flock -s 9
	trap 'if flock -n 9; then rm -rf "$dir"; fi' EXIT
	printf '#!/bin/sh\n' >"$dir/try.$$" && chmod +x "$dir/try.$$"
	if "$dir/try.$$" 2>/dev/null; then # some systems forbid programs there
		export TMPDIR=$dir
	fi
	rm "$dir/try.$$"
fi
"$@" 9>&-
