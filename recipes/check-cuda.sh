#!/bin/sh
# Says whether the programs beside it can run on this machine's NVIDIA card: what is here, a line
# each, and then one sentence of advice. It changes nothing and needs no network. Exit code 0:
# they can, 1: they cannot, 2: that cannot be told.

. ./check-linux.sh # llpatch puts the text of that file here
. ./check-ask.sh   # and of that one

# What this bundle is; llpatch writes these lines. CAPABILITY:CODE for each kind of card that runs
# it, where compute_... is PTX, which the driver compiles; the newest kind that llpatch knew, where
# it has PTX for newer ones; how to build it for others:
runs_on=''
newest=''
rebuild=''
# The oldest driver, or the CUDA version that nvidia-smi must show at least, for machine code and for PTX:
driver=''
driver_cuda=''
jit_driver=''
jit_cuda=''
# CUDA versions of builds that older drivers serve, VERSION:DRIVER, oldest first; and for PTX:
elders=''
jit_elders=''
# What helps; llpatch doctor says the same:
hint_nvidia=''
hint_libcuda=''
hint_driver=''
hint_nvidia_group=''

# field INDEX NUMBER prints a field of what nvidia-smi says of a card.
field() {
	printf '%s\n' "$rows" | sed -n "/^$1, /p" | cut -d, -f"$2" | sed 's/^ *//; s/ *$//'
}

# code CAPABILITY prints what a card of that kind runs.
code() {
	of "$1" "$runs_on" && return
	test -n "$newest" && older "$newest" "$1" && echo PTX
}

# enough VERSION CUDA: the driver is as new; 2: that cannot be told.
enough() {
	if test -n "$1" && test -n "$version_here"; then
		! older "$version_here" "$1"
	elif test -n "$2"; then
		cuda_here=${cuda_here:-$(ask nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9][0-9.]*\).*/\1/p' | head -n 1)}
		test -n "$cuda_here" || return 2
		! older "$cuda_here" "$2"
	else
		test -z "$1$2" || return 2
	fi
}

# jit CODE: it is PTX, which the driver compiles.
jit() { case $1 in PTX | *compute_*) ;; *) return 1 ;; esac }

# late CODE: the driver is too old to compile that.
late() {
	jit "$1" || return
	enough "$jit_driver" "$jit_cuda"
	test $? = 1
}

# newer VERSION CUDA says which driver serves.
newer() { echo "${1:-one${2:+ for CUDA $2}}${1:+ or newer}"; }

# elder WORDS says which of these builds the driver here serves.
elder() {
	best=
	for pair in $1; do
		test -z "$version_here" || older "$version_here" "${pair#*:}" || best=$pair
	done
	echo "${best:+, or take a build with CUDA ${best%%:*}, which driver ${best#*:} or newer serves}"
}

# nvidia says which driver is here.
nvidia() {
	trouble=
	asks=$driver$driver_cuda
	rows=$(ask nvidia-smi --query-gpu=index,uuid,driver_version,memory.free,memory.total,name --format=csv,noheader,nounits) || trouble=$rows
	rows=$(printf '%s\n' "$rows" | grep '^[0-9][0-9]*, ')
	version_here=$(printf '%s\n' "$rows" | sed -n 's/^[0-9]*, [^,]*, *\([0-9][0-9.]*\) *,.*/\1/p' | head -n 1)
	test -n "$version_here" || version_here=$(known "$root/proc/driver/nvidia/version" | sed -n 's/^NVRM version:.* \([0-9][0-9]*\.[0-9.]*[0-9]\) .*/\1/p' | head -n 1)
	cuda_here=
	if test -z "$version_here" && ! at libcuda.so.1 >/dev/null; then
		say driver "none"
		cannot "There is no NVIDIA driver, and the programs would use the processor alone: $hint_nvidia${asks:+; this build asks for $(newer "$driver" "$driver_cuda")}."
		return 1
	fi
	case $trouble in *version\ mismatch*)
		say driver "not of one version: $(printf '%s\n' "$trouble" | head -n 1)"
		cannot "NVIDIA's driver was renewed and the kernel has the old one: restart the machine."
		return 1
		;;
	esac
	say driver "${version_here:-here, of a version that nothing tells}${asks:+, this build asks for $(newer "$driver" "$driver_cuda")}"
	if within libcuda.so.1 "$lost"; then
		cannot "NVIDIA's driver is here without libcuda.so.1: $hint_libcuda."
		return 1
	fi
	if test -e "$root/dev/nvidiactl" && ! { test -r "$root/dev/nvidiactl" && test -w "$root/dev/nvidiactl"; }; then
		say devices "/dev/nvidiactl is not yours to use"
		cannot "You may not use /dev/nvidiactl: $hint_nvidia_group."
	fi
	enough "$driver" "$driver_cuda"
	case $? in
	1) cannot "Your NVIDIA driver is ${version_here:-for CUDA $cuda_here}, which is too old: $hint_driver, $(newer "$driver" "$driver_cuda")$(elder "$elders")." ;;
	2) say 'not compared' "the driver, whose version nothing tells" ;;
	esac
}

# cards compares what is in the bundle with each card.
cards() {
	good=
	bad=
	unknown=
	stale=
	free=
	# Drivers before 510 do not know this field.
	kinds=$(ask nvidia-smi --query-gpu=index,compute_cap --format=csv,noheader) || kinds=
	for index in $(printf '%s\n' "$rows" | cut -d, -f1); do
		kind=$(printf '%s\n' "$kinds" | sed -n "s/^$index, *\([0-9][0-9.]*\) *$/\1/p")
		fits=
		if test -z "$kind"; then
			unknown=yes
			what="not known"
		elif ! by=$(code "$kind"); then
			bad="${bad:+$bad }$kind"
			fits=no
			what="$kind, which this build has no code for"
		else
			what="$kind, by $by"
			! jit "$by" || what="$what, which the driver compiles at the first start"
			! late "$by" || { stale=yes && fits=no && what="$what where it is $(newer "$jit_driver" "$jit_cuda")"; }
			test -n "$fits" || good="${good:+$good }$(field "$index" 2)"
		fi
		say "card $index" "$(field "$index" 6-), of compute capability $what"
		has=$(field "$index" 4)
		case $fits$has in '' | *[!0-9]*) continue ;; esac
		if test "${free:--1}" -lt "$has"; then free=$has && total=$(field "$index" 5); fi
	done
	test -z "$rows" || say 'free VRAM' "${free:-not known}${free:+ of $total MiB}"
	test -n "$good$unknown" || none "$bad"
}

# none CAPABILITIES is the advice where no card can run it, of which those have no code.
none() {
	test -z "$stale" || cannot "Your NVIDIA driver is ${version_here:-for CUDA $cuda_here}, which cannot compile this build's PTX for your card: $hint_driver, $(newer "$jit_driver" "$jit_cuda")$(elder "$jit_elders")."
	test -n "$1" || return
	archs=
	for kind in $1; do
		arch=$(echo "$kind" | tr -d .)
		within "$arch" "$archs" || archs="${archs:+$archs }$arch"
	done
	cannot "This build has no code for your card, of compute capability $1: $hint_build${rebuild:+ ($rebuild $(commas "$archs"))}."
}

# hide CARDS is the advice where not all cards can run it, but those.
hide() { but "It can run, with those cards hidden that it has no code for${stale:+, or that the driver is too old for}: export CUDA_VISIBLE_DEVICES=$(commas "$1")"; }

# apart is for a library that is not at its place yet, where no program tells more.
apart() {
	test "$code" = 0 && test -n "$drop" && ! test -e "$program" || return
	if test -z "$good"; then
		unsure "Whether it has code for your card is not known, because nothing tells its compute capability: put $drop beside the programs of the official package of the same tag, where $program --list-devices tells it."
	elif test -n "$bad$stale"; then
		hide "$good"
	fi
}

# seen asks the server which cards it sees, as things are set.
seen() {
	run --list-devices || return
	count=$(printf '%s\n' "$out" | grep -c '^  CUDA[0-9]*: ')
	if test "$count" = 0; then
		say "$program" "sees no card"
		if test -n "${CUDA_VISIBLE_DEVICES+set}"; then
			but "It can run, but CUDA_VISIBLE_DEVICES hides every card: unset CUDA_VISIBLE_DEVICES"
		else
			cannot "The programs would use the processor alone, because they see no card: $(quoted "$where$program") --list-devices says why."
		fi
		return
	fi
	fit=
	foreign=
	stale=
	right=
	number=0
	for kind in $(printf '%s\n' "$out" | sed -n 's/.*compute capability \([0-9][0-9.]*\).*/\1/p'); do
		number=$((number + 1))
		if ! by=$(code "$kind"); then
			foreign="$foreign $kind"
		elif late "$by"; then
			stale="$stale $kind"
		else
			fit="$fit $kind"
			# It sees what the variable leaves, in its order.
			one=$((number - 1))
			test -z "${CUDA_VISIBLE_DEVICES:-}" || one=$(printf '%s\n' "$CUDA_VISIBLE_DEVICES" | cut -d, -f"$number" | tr -d ' ')
			right="${right:+$right }$one"
		fi
	done
	kinds=$fit$stale$foreign
	kinds=${kinds# }
	say "$program" "sees $count, of compute capability ${kinds:-that it does not tell}"
	right=${good:-$right}
	if test -n "$foreign$stale" && test -n "$right"; then
		hide "$right"
	elif test -n "$foreign$stale"; then
		none "${foreign# }"
	elif test -z "$kinds$good"; then
		unsure "Whether it has code for your card is not known, because nothing tells its compute capability: try $(quoted "$where$program") -m MODEL.gguf -ngl 99"
	fi
	test -z "$free" || test "$free" -ge 2048 ||
		but "It can run, but other programs hold most of the card's memory: end them, or load fewer layers, as with -ngl 20."
}

begin
nvidia && cards
if trial; then seen; else apart; fi
finish ' -ngl 99'
