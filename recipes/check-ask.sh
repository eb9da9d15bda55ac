#!/bin/sh
# How check.sh of a bundle for Linux asks other programs, which may hang. A target's script reads
# this file after check-linux.sh.
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # what only the others set or use

# limit SECONDS COMMAND...: its exit code, 137 where it had to be ended.
timeout -s KILL 5 true 2>/dev/null && clock=timeout || clock=
limit() {
	if test -n "$clock"; then
		timeout -s KILL "$@" </dev/null
		return
	fi
	left=$1
	shift
	"$@" </dev/null &
	job=$!
	(
		while test "$left" -gt 0; do
			sleep 1
			left=$((left - 1))
		done
		kill -KILL "$job"
	) >/dev/null 2>&1 &
	dog=$!
	wait "$job" 2>/dev/null
	status=$?
	kill "$dog" 2>/dev/null
	wait "$dog" 2>/dev/null
	return "$status"
}

# ask PROGRAM...: what a driver's tool says, which may hang where the driver does.
ask() { command -v "$1" >/dev/null 2>&1 && limit "$short" "$@" 2>/dev/null; }
