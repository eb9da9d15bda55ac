#!/bin/sh
# Prints the address of the newest archive here that runs on this machine and nothing else, or on
# standard error one sentence why none does. It changes nothing and needs no network. Exit code 0: there is one, 1: there is none.
# llpatch publish wrote it; what it knows of each archive is what check.sh inside knows.
# shellcheck disable=SC2034 # what only some archives have

set +aefu
LC_ALL=C
export LC_ALL
# For tests: where /proc, /sys and libraries are looked for.
root=${WHICH_ROOT:-}
test -n "$root" || PATH=${PATH:+$PATH:}/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/wsl/lib

# ask PROGRAM...: what a driver's tool says, which may hang where the driver does.
ask() {
	command -v "$1" >/dev/null 2>&1 || return
	if command -v timeout >/dev/null 2>&1; then timeout 20 "$@" 2>/dev/null </dev/null; else "$@" 2>/dev/null </dev/null; fi
}

# older A B: version A is before version B.
older() {
	test "$1" != "$2" && test "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$1"
}

# within WORD WORDS: it is one of them.
within() {
	case " $2 " in *" $1 "*) return 0 ;; esac
	return 1
}

# at LIBRARY prints where it lies.
at() {
	for dir in $(echo "${LD_LIBRARY_PATH:-}" | tr : ' ') /lib /lib64 /usr/lib /usr/lib64 "/lib/$kind-linux-gnu" "/usr/lib/$kind-linux-gnu" /usr/lib/wsl/lib; do
		test -e "$root$dir/$1" && echo "$root$dir/$1" && return
	done
	ask ldconfig -p | sed -n "s|^[[:space:]]*$1 .*=> ||p" | head -n 1 | grep .
}

kernel=$(uname -s)
kind=$(uname -m)
has_flags=$(sed -n 's/^flags[^:]*://p' "$root/proc/cpuinfo" 2>/dev/null | head -n 1)
has_glibc=$(ask getconf GNU_LIBC_VERSION | sed -n 's/^glibc //p')
has_driver=$(ask nvidia-smi --query-gpu=driver_version --format=csv,noheader | grep '^[0-9]' | head -n 1)
# Drivers before 510 do not know this field.
nvidia=$(ask nvidia-smi --query-gpu=compute_cap --format=csv,noheader | grep '^[0-9]' | tr '\n' ' ')
has_cuda=$(ask nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9][0-9.]*\).*/\1/p' | head -n 1)
amd=$(sed -n 's/^gfx_target_version //p' "$root"/sys/class/kfd/kfd/topology/nodes/*/properties 2>/dev/null | while read -r n; do
	test "$n" -eq 0 || printf 'gfx%d%x%x ' $((n / 10000)) $((n / 100 % 100)) $((n % 100))
done)

# enough VERSION CUDA: NVIDIA's driver is as new, as far as it tells.
enough() {
	if test -n "$1" && test -n "$has_driver"; then
		! older "$has_driver" "$1"
	else
		test -z "$2" || test -z "$has_cuda" || ! older "$has_cuda" "$2"
	fi
}

# on_nvidia sets no where none of NVIDIA's cards here runs the archive.
on_nvidia() {
	test -n "$has_driver" || { no="it is for NVIDIA's cards, and no driver of theirs is here" && return; }
	enough "$driver" "$driver_cuda" || { no="it needs NVIDIA's driver ${driver:-for CUDA $driver_cuda} or newer, and this is $has_driver" && return; }
	test -n "$nvidia" || return
	no="it has no code for a card of compute capability ${nvidia% }"
	for cap in $nvidia; do
		by=
		for pair in $runs_on; do
			case $pair in "$cap:"*) by=${pair#*:} ;; esac
		done
		test -n "$by" || test -z "$newest" || ! older "$newest" "$cap" || by=compute_
		case $by in
		'') ;;
		*compute_*)
			if enough "$jit_driver" "$jit_cuda"; then no= && return; fi
			no="it needs NVIDIA's driver ${jit_driver:-for CUDA $jit_cuda} or newer for this card, and this is $has_driver"
			;;
		*) no= && return ;;
		esac
	done
}

on_amd() {
	test -n "$amd" || { no="it is for AMD's cards, and the driver shows none" && return; }
	for gfx in $amd; do
		if within "$gfx" "$runs_on"; then return; fi
	done
	no="it has no code for ${amd% }"
}

# system sets no where this machine or its libraries are not what the archive needs.
system() {
	test "$kernel" = Linux || { no="it is for Linux, and this is $kernel" && return; }
	test -z "$machine" || test "$machine" = "$kind" || { no="it is for $machine, and this machine is $kind" && return; }
	for flag in $flags; do
		test -z "$has_flags" || within "$flag" "$has_flags" || { no="it needs a processor with $flag" && return; }
	done
	if test -n "$glibc"; then
		test -n "$has_glibc" || { no="it needs glibc $glibc, and no glibc is here" && return; }
		! older "$has_glibc" "$glibc" || { no="it needs glibc $glibc or newer, and this system has $has_glibc" && return; }
	fi
}

libraries() {
	for lib in $toolkit; do
		at "$lib" >/dev/null || { no="it needs $lib, which is not here" && return; }
	done
	for pair in $symbols; do
		lies=$(at "${pair%%:*}") || continue
		test ! -f "$lies" || tr -cs 'A-Za-z0-9_.+-' '\n' <"$lies" | grep -qxF -e "${pair#*:}" ||
			{ no="it needs a newer ${pair%%:*}, with ${pair#*:}" && return; }
	done
}

# anew begins an archive; what is known of it follows.
anew() {
	card='' driver='' driver_cuda='' flags='' glibc='' jit_cuda='' jit_driver='' loader='' machine='' newest='' runs_on='' symbols='' toolkit=''
}

# judge NAME ADDRESSES: the first that runs here is the answer; else the first reason that is not
# only the lack of a card is given.
answer=
reason=
cardless=
judge() {
	test -z "$answer" || return
	no=
	system
	case $no$card in
	nvidia) on_nvidia ;;
	amd) on_amd ;;
	esac
	test -n "$no" || libraries
	if test -z "$no"; then
		answer=$2
	elif { test "$card" = nvidia && test -z "$has_driver"; } || { test "$card" = amd && test -z "$amd"; }; then
		cardless=${cardless:-"$1: $no"}
	else
		reason=${reason:-"$1: $no"}
	fi
}

archives-here

if test -z "$answer"; then
	echo "None of the archives here fits. ${reason:-${cardless:-There is none for Linux}}." >&2
	exit 1
fi
# shellcheck disable=SC2086 # a list
printf '%s\n' $answer
test -z "$reason" || test -z "$nvidia$amd$has_driver" || echo "Not for your card: $reason." >&2
