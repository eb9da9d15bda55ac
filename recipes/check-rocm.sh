#!/bin/sh
# Says whether the programs beside it can run on this machine's AMD card: what is here, a line
# each, and then one sentence of advice. It changes nothing and needs no network. Exit code 0:
# they can, 1: they cannot, 2: that cannot be told.

. ./check-linux.sh # llpatch puts the text of that file here
. ./check-ask.sh   # and of that one

# What this bundle is; llpatch writes these lines. The targets of its device code, the cards that
# run it, and how to build it for others:
gfx=''
runs_on=''
rebuild=''

# What helps; llpatch doctor says the same:
hint_amd=''
hint_amd_group=''

# integrated CARD: it is part of a processor.
integrated() {
	case $1 in gfx90c | gfx1013 | gfx1033 | gfx1035 | gfx1036 | gfx1103 | gfx115?) return 0 ;; esac
	return 1
}

# nodes lists the driver's cards: the folder of each, and its number such as 120001.
nodes() {
	# shellcheck disable=SC2012 # numbers
	for node in $(ls "$root/sys/class/kfd/kfd/topology/nodes" 2>/dev/null | sort -n); do
		n=$(property gfx_target_version "$root/sys/class/kfd/kfd/topology/nodes/$node")
		test "${n:-0}" -gt 0 && echo "$node $n"
	done
}

# property NAME FOLDER prints what the driver says of a node.
property() { known "$2/properties" | sed -n "s/^$1 //p"; }

# cards lists all AMD cards in HIP's order, hidden or not, one name such as gfx1201 a line.
cards() {
	if found=$(unset ROCR_VISIBLE_DEVICES && ask rocminfo | sed -n 's/^  Name: *\(gfx[0-9a-f]*\) *$/\1/p') && test -n "$found"; then
		echo "$found"
		return
	fi
	# What the driver says by itself: 120001 is gfx1201.
	nodes | while read -r _ n; do
		printf 'gfx%d%x%x\n' $((n / 10000)) $((n / 100 % 100)) $((n % 100))
	done
}

# uuids lists the names of the cards in the same order, GPU-0123456789abcdef; GPU-XX has none.
uuids() {
	if found=$(unset ROCR_VISIBLE_DEVICES && ask rocminfo | sed -n 's/^  Uuid: *\(GPU-[0-9a-fX]*\) *$/\1/p') && test -n "$found"; then
		echo "$found"
		return
	fi
	nodes | while read -r node _; do
		n=$(property unique_id "$root/sys/class/kfd/kfd/topology/nodes/$node")
		if test "${n:-0}" = 0; then echo GPU-XX; else printf 'GPU-%016x\n' "$n"; fi
	done
}

# word N WORDS prints the Nth of them, from 0 on.
word() {
	# shellcheck disable=SC2086 # a list
	set -- "$1" $2
	test $# -gt "$1" && shift $(($1 + 1)) && echo "${1:-}"
}

# pick LIST NUMBERS prints those of the numbers that HIP_VISIBLE_DEVICES or its like leaves, where
# the first entry that is no card ends the list. Where no card's name is known, a list with
# names leaves them all.
pick() {
	called=
	case $1 in
	all) echo "$2" && return ;;
	*GPU-*)
		called=$(uuids | tr '\n' ' ')
		case $called in *GPU-[0-9a-f]*) ;; *) echo "$2" && return ;; esac
		;;
	esac
	picked=
	list=$1,
	while test -n "$list"; do
		entry=${list%%,*}
		list=${list#*,}
		hit=
		k=0
		for number in $2; do
			case $entry in
			'' | *[!0-9]*) test "$entry" != "$(word "$number" "$called")" || hit=$number ;;
			*) test "$entry" -eq $k 2>/dev/null && hit=$number ;;
			esac
			k=$((k + 1))
		done
		test -n "$hit" || break
		picked="${picked:+$picked }$hit"
	done
	echo "$picked"
}

# memory DEVICE prints "free total" in MiB, as the driver knows them.
memory() {
	used=$(known "$1/mem_info_vram_used") && total=$(known "$1/mem_info_vram_total") &&
		echo "$(((total - used) / 1048576)) $((total / 1048576))"
}

# mib NUMBER UNIT prints so much in MiB, or nothing where it is no number.
mib() {
	case $2 in
	MB | MiB) factor=1 ;;
	GB | GiB) factor=1024 ;;
	*) return ;;
	esac
	case $1 in '' | .* | *. | *[!0-9.]* | *.*.*) return ;; esac
	part=000
	case $1 in *.*) part=$(printf %.3s "${1#*.}000") ;; esac
	echo $((factor * ${1%%.*} + factor * (1$part - 1000) / 1000))
}

# vram NUMBER COUNT prints "free total" in MiB for that card of so many, or nothing.
vram() {
	minor=$(minor "$1")
	test -n "$minor" && memory "$root/sys/class/drm/renderD$minor/device" && return
	ask amd-smi metric --mem-usage | {
		gpu=
		used=
		total=
		while read -r key value unit; do
			case $gpu$key in
			*GPU:) gpu=$value, ;;
			"$1,TOTAL_VRAM:") total=$(mib "$value" "$unit") ;;
			"$1,USED_VRAM:") used=$(mib "$value" "$unit") ;;
			esac
		done
		test -n "$used" && test -n "$total" && echo "$((total - used)) $total"
	} && return
	# By their order alone, where each card has its device.
	number=$1
	count=$2
	set --
	for dir in "$root"/sys/class/drm/card*/device; do
		test ! -r "$dir/mem_info_vram_total" || set -- "$@" "$dir"
	done
	test $# -eq "$count" && shift "$number" && memory "$1"
}

# minor NUMBER prints what is behind renderD in the name of a card's device.
minor() {
	node=$(nodes | sed -n "$(($1 + 1))s/ .*//p")
	test -z "$node" || property drm_render_minor "$root/sys/class/kfd/kfd/topology/nodes/$node" | grep -v '^0$'
}

# usable DEVICE: it is there and the user's to use.
usable() {
	test -e "$root/dev/$1" || return 2
	test -r "$root/dev/$1" && test -w "$root/dev/$1"
}

# rights looks at the device of card NUMBER, or at any where the driver does not tell it.
rights() {
	minor=$(minor "$1")
	set -- "$root/dev/dri/renderD"*
	device=dri/renderD${minor:-${1##*/dri/renderD}}
	usable "$device"
	case $? in
	0) say device "/dev/$device" ;;
	2)
		say device "no /dev/dri/renderD${minor:-*}"
		cannot "There is no /dev/dri/renderD${minor:-*}, which the card is used by: a container needs --device /dev/kfd --device /dev/dri, and a machine its amdgpu driver anew (dmesg | grep amdgpu)."
		;;
	*)
		say device "/dev/$device is not yours to use"
		join "/dev/$device"
		;;
	esac
}

join() { cannot "You may not use $1: $hint_amd_group."; }

# amd says which driver and cards are here, and which of them the programs see.
amd() {
	hidden=
	if ! test -e "$root/dev/kfd"; then
		say driver "none"
		cannot "There is no /dev/kfd: $hint_amd where there is an AMD card."
		return
	fi
	say driver "amdgpu $(known "$root/sys/module/amdgpu/version" || echo "of Linux $(uname -r)")"
	usable kfd || join /dev/kfd
	all=$(cards | tr '\n' ' ')
	all=${all% }
	say cards "$all"
	if test -z "$all"; then
		cannot "The driver is there and shows no card: see dmesg | grep amdgpu."
		return
	fi
	# By HIP's numbers: the cards that it has code for, a processor's own graphics only where there is
	# no other, and those that a program sees as things are set.
	numbers=
	good=
	own=
	count=0
	for card in $all; do
		if within "$card" "$runs_on"; then
			if integrated "$card"; then own="${own:+$own }$count"; else good="${good:+$good }$count"; fi
		fi
		numbers="${numbers:+$numbers }$count"
		count=$((count + 1))
	done
	good=${good:-$own}
	chosen=$(pick "${ROCR_VISIBLE_DEVICES-all}" "$numbers")
	chosen=$(pick "${HIP_VISIBLE_DEVICES:-${CUDA_VISIBLE_DEVICES:-all}}" "$chosen")
	number=
	igpu=
	other=
	for index in $chosen; do
		card=$(word "$index" "$all")
		if within "$index" "$good"; then
			number=${number:-$index}
		elif integrated "$card"; then
			igpu="${igpu:+$igpu }$card"
		else
			other="${other:+$other }$card"
		fi
	done
	say "built for" "$gfx"
	say "iGPU visible" "${igpu:-none}"
	if test -z "$good"; then
		cannot "These programs are for $gfx and hold nothing for your $all: $hint_build${rebuild:+ ($rebuild $(commas "$all"))}."
		return
	fi
	test -n "$number" || { hidden=yes && number=${good%% *}; }
	rights "$number"
	card=$(word "$number" "$all")
	room=$(vram "$number" "$count")
	free=${room%% *}
	say "free VRAM" "${free:-not known}${free:+ of ${room#* } MiB}"
	kernels "$card"
	right="${ROCR_VISIBLE_DEVICES+unset ROCR_VISIBLE_DEVICES; }export HIP_VISIBLE_DEVICES=$(commas "$good")"
	if test -n "$hidden"; then
		but "It can run, but the environment hides every card that it has code for: $right"
	elif test -n "$other"; then
		but "It can run, with those cards hidden that it has no code for, $other: $right"
	elif test -n "$igpu"; then
		but "It can run, with the processor's own graphics hidden, which else crash it or slow it down: $right"
	fi
	test $kernels = yes ||
		but "It can run, but only quantised models with flash attention: rocBLAS here has no kernels for $card and ends the program where it is asked, so all others need AMD's ROCm 6.4 or newer in its place."
	test -z "$free" || test "$free" -ge 2048 ||
		but "It can run, but other programs hold most of the card's memory: end them, or load fewer layers with -ngl."
}

# carries LIBRARY NAME CARD: beside the library lie kernels of that name for the card.
carries() {
	for file in "${1%/*}/$2/library/"*"$3"* "${1%/*}/$2"/*/library/*"$3"*; do
		test ! -e "$file" || return 0
	done
	return 1
}

# kernels CARD: whether rocBLAS has some for it, and hipBLASLt, which rocBLAS asks first on some cards:
# what that lacks it does by itself.
kernels() {
	kernels=yes
	for lib in $toolkit; do
		case $lib in librocblas.*) ;; *) continue ;; esac
		blas=$(at "$lib") || return
		carries "$blas" rocblas "$1" || kernels=no
		say "rocBLAS has" "$(test $kernels = yes && echo "kernels for $1" || echo "no kernels for $1")"
	done
	blas=$(printf '%s\n' "$trace" | sed -n 's/^libhipblaslt\.so[^ ]* => //p' | head -n 1)
	case $blas in /*) ;; *) return ;; esac
	if carries "$blas" hipblaslt "$1"; then
		say "hipBLASLt has" "kernels for $1"
	else
		say "hipBLASLt has" "no kernels for $1: lines with 'rocblaslt error' are harmless, and rocBLAS uses its own"
	fi
}

# seen asks the server which cards it sees, as things are set.
seen() {
	test -z "$hidden" && run --list-devices || return
	count=$(printf '%s\n' "$out" | grep -c '^  ROCm[0-9]*: ')
	say "$program" "sees $count $(test "$count" = 1 && echo card || echo cards)"
	test "$count" != 0 || cannot "The programs would use the processor alone, because they see no card: $(quoted "$where$program") --list-devices says why."
}

begin
amd
trial && seen
finish ' -ngl 99'
