# In a mount namespace of its own: puts the root together below $top, and runs
# the program there. Arguments: top root tmp dir unshare [FOLDER WHERE-INSIDE]... -- PROGRAM...
set -eu
path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin
top=$1 root=$2 tmp=$3 dir=$4 unshare=$5
shift 5
mount -t tmpfs -o mode=755 llpatch "$top"
for e in "$root"/*; do
	if [ -h "$e" ]; then cp -P "$e" "$top/"; fi
done
for n in etc opt usr; do
	[ -d "$root/$n" ] || continue
	mkdir "$top/$n"
	mount --bind "$root/$n" "$top/$n"
	mount -o remount,bind,ro,nosuid,nodev "$top/$n"
done
mkdir "$top/proc" "$top/dev" "$top/tmp"
mount --rbind /proc "$top/proc"
for n in null zero full random urandom tty; do
	: >"$top/dev/$n"
	mount --bind "/dev/$n" "$top/dev/$n"
done
ln -s /proc/self/fd "$top/dev/fd"
mount --bind "$tmp" "$top/tmp"
while [ "$1" != -- ]; do
	mkdir -p "$top$2"
	mount --bind "$1" "$top$2"
	shift 2
done
shift
PATH=$path
exec "$unshare" --root="$top" --wd="$dir" -- "$@"
