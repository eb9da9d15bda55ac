#!/bin/sh
# b8833 for linux-cpu: fetches, patches and builds it without llpatch.
#
#   sh plan.sh [SRC [BUILD]]
#
# SRC is the patched source; where it is not there it is made. BUILD gets the
# programs in BUILD/bin. CMAKE, NINJA, CC and CXX may be
# set to absolute paths, JOBS to a number, STEP to configure or build: only that.
# patched tree 0316a899e18942722a1afe8ac97a0a9dc7fdcf17
# plan 4f0ea93ac8d5ad63f64f11ee5ab81a03d8a48790c37cd39f1c4d77d2493ee16f
set -eu

SRC=${1:-llama.cpp-45cac7ca7-llp1}
BUILD=${2:-build-b8833-linux-cpu}
CMAKE=${CMAKE:-/usr/bin/cmake}
NINJA=${NINJA:-/usr/bin/ninja}
CC=${CC:-/usr/bin/gcc}
CXX=${CXX:-/usr/bin/g++}
JOBS=${JOBS:-8}
TOOLS=${CMAKE%/*}:${NINJA%/*}:${CC%/*}:${CXX%/*}:/usr/bin:/bin

die() {
	echo "plan.sh: $*" >&2
	exit 1
}

# Every step's whole environment.
clean() {
	env -i ${CCACHE_DIR+CCACHE_DIR="$CCACHE_DIR"} \
	GIT_DIR=/dev/null \
	${HOME+HOME="$HOME"} \
	LANG=C \
	LC_ALL=C \
	NINJA_STATUS='[%f/%t] ' \
	PATH="$TOOLS" \
	SOURCE_DATE_EPOCH=1776442631 \
	TZ=UTC \
	"$@"
}

tmp=
part=
cleanup() {
	if [ -n "$tmp" ]; then rm -rf "$tmp"; fi
	if [ -n "$part" ]; then rm -rf "$part"; fi
	tmp= part=
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# git keeps its own files out of the source: llama.cpp would ask them for a version.
source_git() {
	GIT_DIR=$tmp/git GIT_WORK_TREE=$SRC GIT_INDEX_FILE=$tmp/index \
	git -c core.autocrlf=false -c core.safecrlf=false -c core.fileMode=true -c core.attributesFile=/dev/null "$@"
}

if [ ! -e "$SRC" ]; then
	tmp=$(mktemp -d)
	rm -rf "$SRC.part"
	mkdir -p "$SRC.part"
	part=$(cd "$SRC.part" && pwd)
	SRC=$part
	git init -q --bare "$tmp/git"
	source_git fetch -q --depth 1 -- https://example.com/llama.cpp refs/tags/b8833
	tree=$(source_git rev-parse 'FETCH_HEAD^{tree}')
	[ "$tree" = 0316a899e18942722a1afe8ac97a0a9dc7fdcf17 ] || die "b8833 has tree $tree, not 0316a899e18942722a1afe8ac97a0a9dc7fdcf17: it was moved, or this is another repository"
	source_git read-tree FETCH_HEAD
	source_git checkout-index -a -f -u
	cat >"$tmp/0001.patch" <<'END_OF_PATCH'
diff --git a/x b/x
END_OF_PATCH
	(cd "$SRC" && source_git apply --index --whitespace=nowarn "$tmp/0001.patch")
	tree=$(source_git write-tree)
	[ "$tree" = 0316a899e18942722a1afe8ac97a0a9dc7fdcf17 ] || die "the patched tree is $tree, not 0316a899e18942722a1afe8ac97a0a9dc7fdcf17"
	SRC=${part%.part}
	mv "$part" "$SRC"
	part=
	cleanup
fi
SRC=$(cd "$SRC" && pwd -P)
mkdir -p "$BUILD"
BUILD=$(cd "$BUILD" && pwd -P)
case $SRC$BUILD in
*[!A-Za-z0-9_./+,@%-]*) die "the folders $SRC and $BUILD must have plain names" ;;
esac

cd "$SRC"
case ${STEP:=all} in
all | configure)
	clean "$CMAKE" \
	-G \
	Ninja \
	-S \
	"$SRC" \
	-B \
	"$BUILD" \
	-DBUILD_SHARED_LIBS=ON \
	-DCMAKE_BUILD_TYPE=Release \
	-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
	-DCMAKE_CXX_COMPILER="$CXX" \
	-DCMAKE_CXX_FLAGS=-ffile-prefix-map="$SRC"'=. -ffile-prefix-map='"$BUILD"'=build' \
	-DCMAKE_C_COMPILER="$CC" \
	-DCMAKE_C_FLAGS=-ffile-prefix-map="$SRC"'=. -ffile-prefix-map='"$BUILD"'=build' \
	'-DCMAKE_INSTALL_RPATH=$ORIGIN' \
	-DGGML_BACKEND_DL=ON \
	-DGGML_CCACHE=OFF \
	-DGGML_CPU_ALL_VARIANTS=ON \
	-DGGML_NATIVE=OFF \
	-DGGML_OPENMP=OFF \
	-DLLAMA_BUILD_COMMIT=45cac7ca7-llp1 \
	-DLLAMA_BUILD_EXAMPLES=OFF \
	-DLLAMA_BUILD_NUMBER=8833 \
	-DLLAMA_BUILD_TESTS=OFF \
	-DLLAMA_BUILD_WEBUI=ON \
	-DLLAMA_OPENSSL=ON
	;;
esac
case $STEP in
all | build)
	clean "$NINJA" \
	-C \
	"$BUILD" \
	-j \
	"$JOBS" \
	llama-server \
	llama-cli \
	llama-bench \
	llama-quantize
	echo "$BUILD/bin"
	;;
targets | deps | cleandead) # what Ninja knows
	if [ "$STEP" = targets ]; then set -- targets all; else set -- "$STEP"; fi
	clean "$NINJA" -C "$BUILD" -t "$@"
	;;
configure) ;;
*) die "STEP is $STEP: it must be all, configure or build" ;;
esac
