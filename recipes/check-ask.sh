#!/bin/sh
# How check.sh of a bundle for Linux asks other programs, which may hang, print without an end or
# leave a child behind that holds their output open: it waits for none of that. A target's script
# reads this file after check-linux.sh.
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

quiet() { limit "$@" 2>/dev/null; }

line_end='
'
end=--check.sh--

# heard COMMAND...: the first lines of what it prints, and a last one with its exit code. That one is
# the end, since the output itself has none while a child holds it (busybox's sed wants to see one
# line more). A line without an end has no room, and then there is no last one.
heard() {
	{ "$@"; printf '\n%s%s\n\n' $end $?; } 2>&1 | (
		# shellcheck disable=SC3045 # where it is not known, nothing is limited
		ulimit -v 500000 2>/dev/null
		exec sed -n "/^${end}[0-9]*\$/{p;q;};1,20000p" 2>/dev/null
	) | tr -d '\000-\010\013-\037' | cut -c 1-1000
}

# hear COMMAND...: the same in out, and the exit code in status.
hear() {
	out=$(heard "$@")
	status=$(printf '%s\n' "$out" | tail -n 1)
	case $status in "$end"*) status=${status#"$end"} ;; *) status=137 ;; esac
	out=$(printf '%s\n' "$out" | sed "/^$end/d")
}

# ask PROGRAM...: what a driver's tool says, which may hang where the driver does.
ask() {
	command -v "$1" >/dev/null 2>&1 || return
	hear quiet "$short" "$@"
	printf '%s\n' "$out"
	return "$status"
}
