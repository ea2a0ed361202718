#!/usr/bin/env bash
# Shows whether the outcome of a test depends on the machine. It runs "make test-all" RUNS times (8),
# every second time on a machine that stalls. There, three loops keep the processors busy, and every
# few seconds all processes of the tests are stopped for 0.3 s. One line reports how a run ended; the
# logs of red runs stay. The exit code is 1 if any run was red.
#
# HARSH=1 finds the same faults in minutes, one package at a time. In every run, all processes are
# stopped for 0.55 s, longer than a server's timeouts, after each 0.1 to 0.5 s.
#
#	scripts/test-stability.sh [package…]
set -uo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-8} harsh=${HARSH:-} pause=0.3
[ -z "$harsh" ] || pause=0.55
packages=${*:-./...}
logs=$(mktemp -d "${TMPDIR:-/tmp}/stoa-stability-XXXXXX")

tests='' others=()
clear_up() {
	if [ "${#others[@]}" -gt 0 ]; then
		kill "${others[@]}" && wait "${others[@]}"
		others=()
	fi
	if [ -n "$tests" ]; then
		kill -CONT -- "-$tests"
		kill -TERM -- "-$tests"
		tests=''
	fi
	rmdir "$logs" # it fails if the folder has a log
} 2>/dev/null
trap clear_up EXIT
trap 'exit 130' INT TERM HUP

busy() { while :; do :; done; }

# stall stops and continues the processes of a session until it is killed. It skips servers that a test has stopped,
# because they would continue too early. So it first stops the tests, and then lists the servers that still run.
stall() {
	local testers servers
	while :; do
		if [ -n "$harsh" ]; then
			sleep "0.$((1 + RANDOM % 5))"
		else
			sleep "$((1 + RANDOM % 4)).$((RANDOM % 10))"
		fi
		testers=$(ps -s "$1" -o pid=,stat=,comm= | awk '$2 !~ /^[TZ]/ && $3 !~ /^(redis-server|mariadbd|mysqld)/ { print $1 }')
		# shellcheck disable=SC2086 # a list, which may be empty
		kill -STOP $testers
		sleep 0.02
		servers=$(ps -s "$1" -o pid=,stat= | awk '$2 !~ /^[TZ]/ { print $1 }')
		# shellcheck disable=SC2086
		kill -STOP $servers
		sleep "$pause"
		# shellcheck disable=SC2086 # the servers first: a test may stop one as soon as it goes on
		kill -CONT $servers $testers
	done
} 2>/dev/null

red=0
for n in $(seq "$runs"); do
	log="$logs/run-$n.log" beside=''
	SECONDS=0
	# The tests have their own session, so that one signal reaches them and their processes.
	setsid make --no-print-directory test-all PACKAGES="$packages" >"$log" 2>&1 &
	tests=$!
	if [ -n "$harsh" ]; then
		beside=', stopped most of the time'
		stall "$tests" &
		others+=($!)
	elif [ $((n % 2)) -eq 0 ]; then
		beside=', beside busy loops and stopped at random'
		for _ in 1 2 3; do
			busy &
			others+=($!)
		done
		stall "$tests" &
		others+=($!)
	fi
	wait "$tests"
	code=$?
	kill -KILL -- "-$tests" 2>/dev/null # processes that a test may have left
	tests=''
	if [ "${#others[@]}" -gt 0 ]; then
		kill "${others[@]}"
		wait "${others[@]}" 2>/dev/null
		others=()
	fi
	took="$((SECONDS / 60)).$((SECONDS % 60 / 6)) min"
	if [ "$code" -eq 0 ]; then
		echo "run $n of $runs: green, $took$beside"
		rm "$log"
	else
		red=$((red + 1))
		echo "run $n of $runs: RED, $took$beside; the log is $log"
		grep -E '^ *--- FAIL|^FAIL|^panic:|^WARNING: DATA RACE' "$log" | sort -u | head -n 20
	fi
done
[ "$red" -eq 0 ] || echo "$red of $runs runs were red"
exit $((red > 0))
