#!/bin/sh
# Says whether the programs beside it can run on this machine's AMD card: what is here, a
# line each, and then one sentence of advice. It changes nothing. Exit code 0: they can.

# What this bundle is; llpatch writes these lines.
gfx="gfx1201"
libs="libamdhip64.so.6 libhipblas.so.2 librocblas.so.4"
glibc=""

root=${CHECK_ROOT:-} # where /sys, /dev and /opt are looked for, for tests

say() { printf '%-14s %s\n' "$1:" "$2"; }
advise() {
	echo
	echo "$2"
	exit "$1"
}

# older A B: version A is before version B.
older() {
	test "$1" != "$2" && test "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$1"
}

# runs CARD: this bundle has code for it.
runs() {
	for target in $gfx; do
		case ${target%%:*} in
		"$1") return 0 ;;
		gfx9-generic) case $1 in gfx900 | gfx902 | gfx904 | gfx906 | gfx909 | gfx90c) return 0 ;; esac ;;
		gfx9-4-generic) case $1 in gfx94? | gfx950) return 0 ;; esac ;;
		gfx10-1-generic) case $1 in gfx101?) return 0 ;; esac ;;
		gfx10-3-generic) case $1 in gfx103?) return 0 ;; esac ;;
		gfx11-generic) case $1 in gfx110? | gfx115?) return 0 ;; esac ;;
		gfx12-generic) case $1 in gfx120?) return 0 ;; esac ;;
		esac
	done
	return 1
}

# integrated CARD: it is part of a processor.
integrated() {
	case $1 in gfx90c | gfx1013 | gfx1033 | gfx1035 | gfx1036 | gfx1103 | gfx115?) return 0 ;; esac
	return 1
}

# ask PROGRAM...: what one of ROCm's tools says, which may hang where the driver does.
ask() {
	command -v timeout >/dev/null 2>&1 && command -v "$1" >/dev/null 2>&1 && timeout -s KILL 10 "$@" 2>/dev/null
}

# nodes lists the driver's cards: the folder of each, and its number such as 120001.
nodes() {
	for node in $(ls "$root/sys/class/kfd/kfd/topology/nodes" 2>/dev/null | sort -n); do
		node=$root/sys/class/kfd/kfd/topology/nodes/$node
		n=$(sed -n 's/^gfx_target_version //p' "$node/properties" 2>/dev/null)
		test "${n:-0}" -gt 0 && echo "$node $n"
	done
}

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
		n=$(sed -n 's/^unique_id //p' "$node/properties" 2>/dev/null)
		test "${n:-0}" = 0 && echo GPU-XX || printf 'GPU-%016x\n' "$n"
	done
}

# pick LIST NUMBERS prints those of the numbers that HIP_VISIBLE_DEVICES or its like leaves, where
# the first entry that is no card ends the list. Where no card's name is known, a list with
# names leaves them all.
pick() {
	names=
	case $1 in
	all) echo "$2" && return ;;
	*GPU-*)
		names=$(echo $(uuids))
		case $names in *GPU-[0-9a-f]*) ;; *) echo "$2" && return ;; esac
		;;
	esac
	echo "$2" | awk -v list="$1" -v names="$names" '{
		split(names, name, " ")
		n = split(list, want, ",")
		for (i = 1; i <= n; i++) {
			at = 0
			for (k = 1; k <= NF; k++)
				if (want[i] ~ /^[0-9]+$/ ? want[i] == k - 1 : want[i] == name[$k + 1]) at = k
			if (!at) break
			printf "%s ", $at
		}
	}'
}

# within NUMBER NUMBERS: it is one of them.
within() {
	case " $2 " in *" $1 "*) return 0 ;; esac
	return 1
}

# memory DEVICE prints "free total" in MiB, as the driver knows them.
memory() {
	cat "$1/mem_info_vram_used" "$1/mem_info_vram_total" 2>/dev/null |
		awk '{ n[NR] = $1 } END { if (NR == 2) printf "%d %d\n", (n[2] - n[1]) / 1048576, n[2] / 1048576 }' | grep .
}

# vram NUMBER COUNT prints "free total" in MiB for that card of so many, or nothing.
vram() {
	node=$(nodes | sed -n "$(($1 + 1))s/ .*//p")
	minor=$(sed -n 's/^drm_render_minor //p' "$node/properties" 2>/dev/null)
	test -n "$minor" && memory "$root/sys/class/drm/renderD$minor/device" && return
	ask amd-smi metric --mem-usage | awk -v gpu="$1" '
		function mib() {
			if ($2 !~ /^[0-9]+([.][0-9]+)?$/) return -1
			return $3 ~ /^Mi?B$/ ? $2 : $3 ~ /^Gi?B$/ ? $2 * 1024 : -1
		}
		BEGIN { total = used = -1 }
		$1 == "GPU:" { at = $2 }
		$1 == "TOTAL_VRAM:" && at == gpu { total = mib() }
		$1 == "USED_VRAM:" && at == gpu { used = mib() }
		END { if (total > 0 && used >= 0) printf "%d %d\n", total - used, total }' | grep . && return
	# By their order alone, where each card has its device.
	set -- "$1" "$2" $(for dir in "$root"/sys/class/drm/card*/device; do test -r "$dir/mem_info_vram_total" && echo "$dir"; done)
	test $# -eq $(($2 + 2)) || return
	shift $(($1 + 2))
	memory "$1"
}

# library NAME prints where a library is.
library() {
	for dir in $(echo "${LD_LIBRARY_PATH:-}" | tr : ' ') "$root/opt/rocm/lib" "$root"/opt/rocm-*/lib "$root/usr/lib/x86_64-linux-gnu" "$root/usr/lib64" "$root/usr/lib"; do
		if test -e "$dir/$1"; then
			echo "$dir/$1"
			return
		fi
	done
	test -n "$root" || ldconfig -p 2>/dev/null | sed -n "s|^[[:space:]]*$1 .*=> ||p" | head -n 1
}

have=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }')
say glibc "${have:-unknown}"
if test -n "$glibc" && test -n "$have" && older "$have" "$glibc"; then
	advise 1 "This system has glibc $have and the programs need $glibc or newer: take a newer distribution, or build them on this one."
fi

if ! test -e "$root/dev/kfd"; then
	say driver "none"
	advise 1 "There is no /dev/kfd: no AMD card, or the kernel's amdgpu driver is not loaded (modprobe amdgpu; a container needs --device /dev/kfd --device /dev/dri)."
fi
say driver "amdgpu $(cat "$root/sys/module/amdgpu/version" 2>/dev/null || echo "of Linux $(uname -r)")"
if ! test -r "$root/dev/kfd" || ! test -w "$root/dev/kfd"; then
	advise 1 "You may not use /dev/kfd: sudo usermod -aG render,video $(id -un), then log in anew."
fi

all=$(cards)
say cards "$(echo $all)"
test -n "$all" || advise 1 "The driver is there and shows no card: see dmesg | grep amdgpu."
# By HIP's numbers: the cards that it has code for, a processor's own graphics only where there is
# no other, and those that a program sees as things are set.
numbers=
good=
own=
count=0
for card in $all; do
	if runs "$card"; then
		if integrated "$card"; then own="$own $count"; else good="$good $count"; fi
	fi
	numbers="$numbers $count"
	count=$((count + 1))
done
good=$(echo ${good:-$own})
seen=$(pick "${ROCR_VISIBLE_DEVICES-all}" "$numbers")
seen=$(pick "${HIP_VISIBLE_DEVICES:-${CUDA_VISIBLE_DEVICES:-all}}" "$seen")
number=
igpu=
other=
for index in $seen; do
	card=$(echo "$all" | sed -n "$((index + 1))p")
	if within "$index" "$good"; then
		number=${number:-$index}
	elif integrated "$card"; then
		igpu="$igpu $card"
	else
		other="$other $card"
	fi
done
say "built for" "$gfx"
say "iGPU visible" "${igpu:- none}"
test -n "$good" || advise 1 "These programs are for $gfx and hold nothing for your $(echo $all): take a build for that card (llpatch release TAG rocm-gfx1201 --gfx NAME)."

hidden=no
test -n "$number" || { hidden=yes && number=${good%% *}; }
set -- $(vram "$number" "$count")
say "free VRAM" "${1:-not known}${2:+ of $2 MiB}"
free=${1:-}

blas=
for lib in $libs; do
	at=$(library "$lib")
	say "$lib" "${at:-not found}"
	test -n "$at" || advise 1 "$lib is not installed: on Debian 14 apt install libamdhip64-6 libhipblas2 librocblas4, elsewhere AMD's ROCm of the same major version."
	case $lib in librocblas.*) blas=${at%/*} ;; esac
done

card=$(echo "$all" | sed -n "$((number + 1))p")
ls "$blas/rocblas/library" "$blas"/rocblas/*/library 2>/dev/null | grep -q "$card" && kernels=yes || kernels=no
say "rocBLAS has" "$(test $kernels = yes && echo "kernels for $card" || echo "no kernels for $card")"

right="${ROCR_VISIBLE_DEVICES+unset ROCR_VISIBLE_DEVICES; }export HIP_VISIBLE_DEVICES=$(echo "$good" | tr ' ' ,)"
if test $hidden = yes; then
	advise 0 "It can run, but the environment hides every card that it has code for: $right"
fi
if test -n "$other"; then
	advise 0 "It can run, with those cards hidden that it has no code for,$other: $right"
fi
if test -n "$igpu"; then
	advise 0 "It can run, with the processor's own graphics hidden, which else crash it or slow it down: $right"
fi
if test $kernels = no; then
	advise 0 "It can run quantised models with flash attention; rocBLAS here has no kernels for $card and ends the program where it is asked, so all others need AMD's ROCm 6.4 or newer in its place."
fi
if test -n "$free" && test "$free" -lt 2048; then
	advise 0 "It can run, but other programs hold most of the card's memory: end them, or load fewer layers with -ngl."
fi
advise 0 "It can run here: ./llama-server -m MODEL.gguf -ngl 99"
