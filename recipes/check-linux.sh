#!/bin/sh
# What check.sh does in every bundle for Linux. A target's script reads this file, and llpatch
# puts the text into it, so that a bundle has one script.
# shellcheck disable=SC2034,SC2317,SC2329 # what only some of them use

# What this bundle is; llpatch writes these lines. The machine as uname names it, and
# instructions that /proc/cpuinfo must name:
machine=''
flags=''
# The programs, what the first one says of its version, the files that are loaded by name, and what
# SHA256SUMS ends with:
programs=''
version=''
roots=''
sums_end=''
# Links, which SHA256SUMS cannot have, and the one library of a bundle that has no programs:
links=''
drop=''
# The loader that the programs ask for, the lowest glibc, LIBRARY:VERSION for what the system's
# libraries must have, those that no package of the system has, and LIBRARY:PACKAGE of Debian:
loader=''
glibc=''
symbols=''
elsewhere=''
debian=''
# A card's libraries, and folders in which they may lie without the loader's knowing:
toolkit=''
folders=''
# Which of those the full bundle has inside and this one has not, and which are ROCm's:
full=''
rocm=''
# What helps; llpatch doctor says the same:
hint_system=''
hint_glibc=''
hint_build=''
hint_full=''
hint_rocm=''

# Where /sys, /dev and the like are looked for, for tests, and how long a program may take.
root=${CHECK_ROOT:-}
long=${CHECK_SECONDS:-60}
short=${CHECK_SECONDS:-10}

# What the caller may have set, such as -e by SHELLOPTS; and a crash leaves no core here.
set +aefu
# shellcheck disable=SC3040 # where it is not known, nobody has set it
(set +o pipefail) 2>/dev/null && set +o pipefail
# shellcheck disable=SC3045 # where it is not known, nothing is limited
ulimit -c 0 2>/dev/null
LC_ALL=C
export LC_ALL
test -n "$root" || PATH=${PATH:+$PATH:}/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/wsl/lib:/usr/local/nvidia/bin
from=$(pwd -P)
here=$0
test ! -h "$here" || here=$(readlink -f -- "$here" 2>/dev/null) || here=$0
case $here in
*/*) here=${here%/*}/ ;;
*) here=./ ;;
esac

code=0
advice=
remark=
say() { printf '%-14s %s\n' "$1:" "$2"; }

# stop FACT VALUE CAUSE ends it before anything was looked at.
stop() {
	say "$1" "$2"
	printf '\nWhether it can run is not known, because %s\n' "$3"
	exit 2
}

CDPATH='' cd -- "$here" 2>/dev/null || stop folder "$here, which cannot be entered" "check.sh does not lie in $here: go to its folder, and run sh ./check.sh there."
case $short in *[!0-9]* | 0*) stop CHECK_SECONDS "$short, which is no whole number above 0" "CHECK_SECONDS is $short: unset CHECK_SECONDS, or export CHECK_SECONDS=60" ;; esac
lacks=
for tool in cat cut env grep head id ls sed sleep sort tail tr uname; do
	command -v $tool >/dev/null 2>&1 || lacks="$lacks $tool"
done
test -z "$lacks" || stop tools "not found:$lacks" "check.sh needs programs that are not on the PATH: install$lacks or add their folder to PATH, and run check.sh again."

# cannot, unsure and but keep the first advice of each kind; the worst kind is given.
cannot() { test "$code" = 1 || { code=1 && advice=$1; }; }
unsure() { test "$code" != 0 || { code=2 && advice=$1; }; }
but() { remark=${remark:-$1}; }

# within WORD WORDS: it is one of them.
within() {
	case " $2 " in *" $1 "*) return 0 ;; esac
	return 1
}

# older A B: version A is before version B.
older() {
	test "$1" != "$2" && test "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)" = "$1"
}

# of KEY PAIRS prints what KEY:VALUE among them says.
of() {
	for pair in $2; do
		case $pair in "$1:"*) echo "${pair#*:}" && return ;; esac
	done
	return 1
}

# commas WORDS prints them with commas.
commas() { echo "$1" | tr ' ' ,; }

# quoted PATH prints it as a shell takes it.
quoted() {
	case $1 in
	*[!A-Za-z0-9_./+:-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
	*) printf '%s' "$1" ;;
	esac
}

# known FILE prints it, where it is one: what came out of a pipe in its place would have no end.
known() { test -f "$1" && cat "$1" 2>/dev/null; }

system() {
	kernel=$(uname -s)
	kind=$(uname -m)
	say machine "$kernel $kind"
	test "$kernel" = Linux || cannot "These programs are for Linux: take a build for $kernel."
	test -z "$machine" || test "$kind" = "$machine" ||
		cannot "These programs are for $machine, and this machine is $kind: $hint_build."
	lacks=
	has=$(known "$root/proc/cpuinfo" | sed -n 's/^flags[^:]*://p' | head -n 1)
	for flag in $flags; do
		within "$flag" "$has" || lacks="$lacks $flag"
	done
	test -n "$flags" || return
	if test -z "$has"; then
		say processor "not looked at: /proc/cpuinfo names no flags"
	elif test -n "$lacks"; then
		say processor "lacks$lacks"
		cannot "This processor lacks$lacks, which the programs use: take a build that chooses for itself, as llpatch's linux-cpu does."
	else
		say processor "has $flags"
	fi
}

# files compares the bundle with what was packed.
files() {
	hash=
	for tool in sha256sum 'shasum -a 256' 'openssl dgst -sha256 -r' 'busybox sha256sum'; do
		empty=$($tool </dev/null 2>/dev/null)
		case $empty in e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855*) hash=$tool && break ;; esac
	done
	count=0
	file=
	differs=
	missing=
	closed=
	faults=0
	# No pipe into the loop, which would keep what is counted to itself.
	test -f SHA256SUMS && test -r SHA256SUMS && while IFS= read -r line || test -n "$line"; do
		file=${line#*  }
		count=$((count + 1))
		# So many are not named, and a list of all takes long to write.
		test "$faults" -le 5 || { differs='' && missing='' && closed=''; }
		if ! test -e "$file"; then
			missing="$missing $file"
		elif ! test -f "$file"; then
			differs="$differs $file"
		elif ! test -r "$file"; then
			closed="$closed $file"
		elif test -n "$hash"; then
			sum=$($hash 2>/dev/null <"$file")
			test "${sum%% *}" = "${line%%  *}" && continue
			differs="$differs $file"
		else
			continue
		fi
		faults=$((faults + 1))
	done <SHA256SUMS
	if ! test -r SHA256SUMS; then
		closed=' SHA256SUMS' && faults=1 && count=1
	elif test "$file" != "$sums_end"; then
		differs="$differs SHA256SUMS" && faults=$((faults + 1)) && count=$((count + 1))
	fi
	for file in $links; do
		test -e "$file" || { missing="$missing $file" && faults=$((faults + 1)); }
	done
	stuck=
	for file in $programs; do
		test ! -e "$file" || test -x "$file" || stuck="${stuck:+$stuck }$file"
	done
	if ! test -e SHA256SUMS; then
		say files "not checked: no SHA256SUMS here"
		cannot "Unpack the whole archive into one folder and run check.sh there, because SHA256SUMS is missing."
		return
	fi
	if test "$faults" -gt 5; then
		what="$faults of $count files"
	else
		what="${differs:+, changed:$differs}${missing:+, missing:$missing}${closed:+, not yours to read:$closed}"
		what=${what#, }
	fi
	if test "$faults" -gt 0; then
		say files "not as they were packed: $what"
		cannot "Unpack the archive anew into an empty folder, with tar, for this is not as it was packed: $what; if that comes again, download it anew."
	elif test -z "$hash"; then
		say files "$count are here, not compared: no sha256sum, shasum or openssl"
	else
		say files "$count as they were packed"
	fi
	test -n "$stuck" || return
	say 'not to run' "$stuck"
	case $(ls -ld "./${stuck%% *}") in
	-??x*) barred ;;
	*) cannot "The programs may not be run: chmod +x $stuck" ;;
	esac
}

barred() { cannot "Nothing may be run in this folder, which is another user's or mounted noexec: unpack the archive elsewhere."; }

# words lists those of a library, the versions of its symbols among them.
words() { tr -cs 'A-Za-z0-9_.+-' '\n'; }

# libc says which C library this is, and finds with its loader what the programs load.
libc() {
	trace=
	have=
	if test -x "$root$loader" && known "$root$loader" | words | grep -q '^GLIBC_2'; then
		trace=$(for file in $roots; do
			test ! -f "$file" || heard quiet "$short" env LD_TRACE_LOADED_OBJECTS=1 "$root$loader" "./$file"
		done | sed -n 's/^[[:space:]]*\([^ ]* => .*\)/\1/p' | sed 's/ (0x[0-9a-f]*)$//' | sort -u)
	fi
	lost=$(printf '%s\n' "$trace" | sed -n 's/ => not found.*//p' | tr '\n' ' ')
	lies=$(at libc.so.6)
	have=$(known "$lies" | words | sed -n 's/^GLIBC_\([0-9][0-9.]*\)$/\1/p' | sort -u -t. -k1,1n -k2,2n -k3,3n | tail -n 1)
	test -n "$have" || have=$(ask getconf GNU_LIBC_VERSION | sed -n 's/^glibc //p')
	if test -n "$have"; then
		say glibc "$have${glibc:+, the programs need $glibc}"
		test -z "$glibc" || ! older "$have" "$glibc" ||
			cannot "This system has glibc $have and the programs need $glibc or newer: $hint_system."
	elif test -n "$(ls "$root"/lib/ld-musl-* 2>/dev/null)"; then
		say glibc "none, this system has musl"
		cannot "This system has musl, and the programs need glibc${glibc:+ $glibc or newer}: $hint_glibc."
	elif test -n "$loader" && ! test -x "$root$loader"; then
		say glibc "none: there is no $loader"
		cannot "The programs ask for the loader $loader, which is not here: $hint_glibc."
	else
		say glibc "not known${glibc:+, the programs need $glibc}"
	fi
}

# at LIBRARY prints where the programs find it, or else where it lies.
at() {
	within "$1" "$lost" && return 1
	case $line_end$trace in
	*"$line_end$1 => "*)
		found=${trace#*"$1 => "}
		printf '%s\n' "${found%%"$line_end"*}"
		return
		;;
	esac
	for dir in /lib /lib64 /usr/lib /usr/lib64 "/lib/$machine-linux-gnu" "/usr/lib/$machine-linux-gnu" /usr/lib/wsl/lib; do
		test -e "$root$dir/$1" && echo "$root$dir/$1" && return
	done
	ask ldconfig -p | sed -n "s|^[[:space:]]*$1 .*=> ||p" | head -n 1 | grep .
}

# get LIBRARY...: how they are installed here.
get() {
	packages=
	rest=
	for lib; do
		if command -v apt-get >/dev/null 2>&1; then
			one=$(of "$lib" "$debian") || rest="$rest $lib"
			within "$one" "$packages" || packages="$packages $one"
		else
			packages="$packages '$lib()(64bit)'"
		fi
	done
	packages=${packages# }
	for tool in apt-get dnf zypper; do
		command -v $tool >/dev/null 2>&1 || continue
		echo "${packages:+as root, $tool install $packages}${packages:+${rest:+, and }}${rest:+install the packages that have$rest}"
		return
	done
	echo "install the packages that have $*"
}

# otherwise LIBRARIES: another way to get them.
otherwise() {
	for lib in $1; do
		within "$lib" "$full" && echo ", or $hint_full" && return
		within "$lib" "$rocm" && echo ", or $hint_rocm" && return
	done
}

# folder LIBRARY prints the one of folders that has it.
folder() {
	set -f
	# shellcheck disable=SC2086 # a list of patterns
	set -- "$1" $folders
	set +f
	lib=$1
	shift
	for pattern; do
		for dir in "$root"$pattern; do
			test -e "$dir/$lib" && echo "$dir" && return
		done
	done
	return 1
}

# libraries says which of the system's are missing, or are not the right ones.
libraries() {
	for lib in $toolkit; do
		say "$lib" "$(at "$lib" || echo 'not found')"
	done
	names=
	hidden=
	for lib in $lost; do
		within "$lib" "$elsewhere" && continue
		dir=$(folder "$lib") || { names="${names:+$names }$lib" && continue; }
		case :$hidden: in *":$dir:"*) ;; *) hidden=${hidden:+$hidden:}$dir ;; esac
	done
	if test -z "$trace"; then
		say libraries "not looked for: the loader does not list them"
	elif test -n "$lost"; then
		say libraries "not found: ${lost% }"
	else
		say libraries "all are here"
	fi
	# shellcheck disable=SC2086 # a list
	test -z "$names" ||
		cannot "Libraries are missing ($names): $(get $names)$(otherwise "$names"), and run check.sh again."
	dirs=$(printf '%s' "$hidden" | sed 's/:/ and /g')
	test -z "$hidden" || say 'some are in' "$dirs, where the loader does not look"
	test -z "$hidden" || cannot "The loader does not look into $dirs: export LD_LIBRARY_PATH=$(quoted "$hidden")${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
	old=
	for pair in $symbols; do
		lies=$(at "${pair%%:*}")
		test -f "$lies" && test -r "$lies" || continue
		known "$lies" | words | grep -qxF -e "${pair#*:}" || old="$old, ${pair%%:*} without ${pair#*:}"
	done
	test -z "$old" || say versions "too old, or of another kind: ${old#, }"
	test -z "$old" || cannot "This system has ${old#, }, which the programs need: $hint_system."
}

# run ARGUMENT: the first program's answer in out; it says what comes of it where that is none.
run() {
	hear limit "$long" "./$program" "$1"
	test "$status" = 0 && return
	last=$(printf '%s\n' "$out" | grep . | tail -n 1 | cut -c 1-200)
	case $status in
	137)
		say "$program" "gave no answer within $long s"
		unsure "Whether it can run is not known, because it did not answer within $long s: run $(quoted "$where$program") $1"
		;;
	126)
		say "$program" "may not be run: $last"
		barred
		;;
	132)
		say "$program" "uses an instruction that this processor lacks"
		cannot "This processor lacks instructions that the programs use: take a build that chooses for itself, as llpatch's linux-cpu does."
		;;
	*)
		say "$program" "fails with $1: $last"
		cannot "The programs do not work here: $(quoted "$where$program") $1 says why."
		;;
	esac
	return 1
}

# trial starts the first program, where nothing is in its way.
trial() {
	test "$code" != 1 || return
	if ! test -e "$program"; then
		test -n "$drop" || unsure "Whether it can run is not known, because $program is not here: unpack the whole archive."
		return 1
	fi
	run --version || return
	case $out in
	*"$version"*) say "$program" "starts${version:+, version $version}" ;;
	*)
		say "$program" "starts, and is not version $version"
		cannot "Libraries of another llama.cpp come before these: unset LD_LIBRARY_PATH, and unpack the archive into an empty folder."
		;;
	esac
	test "$code" = 0
}

begin() {
	where=./
	test "$(pwd -P)" = "$from" || where=$(pwd)/
	program=${programs%% *}
	system
	files
	libc
	libraries
}

# finish OPTIONS gives the advice; the options are what llama-server takes to use the card.
finish() {
	if test "$code" = 0; then
		advice=$remark
		if test -n "$drop" && ! test -e "$program"; then
			advice="It can run here: put $drop beside the programs of the official package of the same tag${remark#It can run}"
			test -n "$remark" || advice=$advice.
		fi
		advice=${advice:-"It can run here: $(quoted "$where$program") -m MODEL.gguf$1"}
	fi
	printf '\n%s\n' "$advice"
	exit "$code"
}
