#!/bin/sh
# Makes app.exe and helper.dll anew. Needs Debian's gcc-mingw-w64-x86-64.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc="x86_64-w64-mingw32-gcc -O1 -nostdlib -ffreestanding -fno-builtin -s -Wl,--no-insert-timestamp"

# library DLL EXPORT...: an import library for a DLL that need not be there.
library() {
	dll=$1
	shift
	{
		echo "LIBRARY $dll"
		echo EXPORTS
		for e; do echo "	$e"; done
	} >"$tmp/$dll.def"
	x86_64-w64-mingw32-dlltool -d "$tmp/$dll.def" -l "$tmp/lib$dll.a"
}
library helper.dll greet "second @7 NONAME" forwarded forwardedToNothing round left
library KERNEL32.dll Sleep AddDllDirectory CreateFile2 CreateFileMappingFromApp MapViewOfFileFromApp NoSuchFunction
library WS2_32.dll "accept @1 NONAME"
library CRYPT32.dll CertOpenStore
library api-ms-win-core-synch-l1-2-0.dll WaitOnAddress
library api-ms-win-core-heap-l1-1-0.dll HeapAlloc
library api-ms-win-crt-stdio-l1-1-0.dll puts
library nvcuda.dll cuInit
library cudart64_110.dll cudaMalloc

$cc -shared -Wl,-e,DllMain -o helper.dll helper.c helper.def
$cc -Wl,-e,start,--subsystem,console,--major-subsystem-version,6,--minor-subsystem-version,1 -o app.exe app.c "$tmp"/lib*.a
