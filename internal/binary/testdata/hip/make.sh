#!/bin/sh
# Makes the bundles of this folder anew, and what LLVM's own tools say of them: with
# clang 21 of Debian (buildenv rocm), or the folder of another in $1.
set -eu
bin=${1:-/usr/lib/llvm-21/bin}
cc="$bin/clang++ -x hip -nogpulib -nogpuinc -nostdinc --cuda-device-only --gpu-bundle-output -O1"
a="--offload-arch=gfx1200 --offload-arch=gfx1201 --offload-arch=gfx12-generic"
f="--offload-arch=gfx90a:sramecc+:xnack- --offload-arch=gfx90a:sramecc+:xnack+ --offload-arch=gfx906"
$cc $a $f scale.hip -o plain.hipfb
$cc --offload-arch=gfx1201 -mcode-object-version=4 scale.hip -o version4.hipfb
for v in 2 3; do
	COMPRESSED_BUNDLE_FORMAT_VERSION=$v $cc $a $f --offload-compress scale.hip -o packed$v.hipfb
done
for b in *.hipfb; do
	for id in $("$bin/clang-offload-bundler" --type=o --input="$b" --list); do
		echo "bundle $id"
		"$bin/clang-offload-bundler" --type=o --input="$b" --targets="$id" --output=object --unbundle
		test ! -s object || "$bin/llvm-readelf" -h object | grep -E 'Machine|ABI Version|Flags'
	done >"${b%.hipfb}.said"
done
rm -f object
