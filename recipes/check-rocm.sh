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

# cards lists the AMD cards in HIP's order, one name such as gfx1201 a line.
cards() {
	if command -v rocminfo >/dev/null 2>&1 && found=$(rocminfo 2>/dev/null | sed -n 's/^  Name: *\(gfx[0-9a-f]*\) *$/\1/p') && test -n "$found"; then
		echo "$found"
		return
	fi
	# What the driver says by itself: 120001 is gfx1201.
	for node in $(ls "$root/sys/class/kfd/kfd/topology/nodes" 2>/dev/null | sort -n); do
		n=$(sed -n 's/^gfx_target_version //p' "$root/sys/class/kfd/kfd/topology/nodes/$node/properties" 2>/dev/null)
		test "${n:-0}" -gt 0 && printf 'gfx%d%x%x\n' $((n / 10000)) $((n / 100 % 100)) $((n % 100))
	done
}

# vram prints "free total" in MiB for the card of the largest memory.
vram() {
	if command -v amd-smi >/dev/null 2>&1; then
		amd-smi metric --mem-usage 2>/dev/null | awk '
			$1 == "TOTAL_VRAM:" { total = $2 }
			$1 == "USED_VRAM:" && total > best { best = total; used = $2 }
			END { if (best) print best - used, best }' | grep . && return
	fi
	for dir in "$root"/sys/class/drm/card*/device; do
		test -r "$dir/mem_info_vram_total" && echo "$(cat "$dir/mem_info_vram_used") $(cat "$dir/mem_info_vram_total")"
	done | sort -k 2,2n | tail -n 1 | awk 'NF == 2 { printf "%d %d\n", ($2 - $1) / 1048576, $2 / 1048576 }'
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
number=-1
index=0
shown=0
igpu=
for card in $all; do
	if integrated "$card"; then
		igpu="$igpu $card"
	elif runs "$card" && test "$number" -lt 0; then
		number=$index
	fi
	shown=$((shown + 1))
	index=$((index + 1))
done
# A build for a processor's own graphics.
if test "$number" -lt 0; then
	index=0
	for card in $all; do
		if runs "$card" && test "$number" -lt 0; then
			number=$index
			igpu=
		fi
		index=$((index + 1))
	done
fi
say "built for" "$gfx"
say "iGPU visible" "${igpu:- none}"
test "$number" -ge 0 || advise 1 "These programs are for $gfx and hold nothing for your $(echo $all): take a build for that card (llpatch release TAG rocm-gfx1201 --gfx NAME)."

set -- $(vram)
say "free VRAM" "${1:-unknown}${2:+ of $2} MiB"
free=${1:-}

for lib in $libs; do
	at=$(library "$lib")
	say "$lib" "${at:-not found}"
	test -n "$at" || advise 1 "$lib is not installed: on Debian 14 apt install libamdhip64-6 libhipblas2 librocblas4, elsewhere AMD's ROCm of the same major version."
done

card=$(echo "$all" | sed -n "$((number + 1))p")
for dir in "$root"/opt/rocm*/lib/rocblas/library "$root"/usr/lib/x86_64-linux-gnu/rocblas/*/library "$root"/usr/lib64/rocblas/library; do
	ls "$dir" 2>/dev/null
done | grep -q "$card" && kernels=yes || kernels=no
say "rocBLAS has" "$(test $kernels = yes && echo "kernels for $card" || echo "no kernels for $card")"

if test -n "$igpu" && test -z "${HIP_VISIBLE_DEVICES:-}${ROCR_VISIBLE_DEVICES:-}"; then
	advise 0 "It can run, with the processor's own graphics hidden, which else crash it or slow it down: export HIP_VISIBLE_DEVICES=$number"
fi
if test $kernels = no; then
	advise 0 "It can run quantised models with flash attention; rocBLAS here has no kernels for $card and ends the program where it is asked, so all others need AMD's ROCm 6.4 or newer in its place."
fi
if test -n "$free" && test "$free" -lt 2048; then
	advise 0 "It can run, but other programs hold most of the card's memory: end them, or load fewer layers with -ngl."
fi
advise 0 "It can run here: ./llama-server -m MODEL.gguf -ngl 99"
