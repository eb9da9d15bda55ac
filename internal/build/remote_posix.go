package build

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// posix builds on a machine whose commands are those of POSIX and of Linux.
var posix = remoteSystem{
	os: "linux",
	hello: func(dir string) string {
		return sh(`set -eu
umask 022
mkdir -p -- "$1" && cd -- "$1" || exit `+remoteNoFolder+`
echo "`+helloWord+` $(uname -s) $(uname -m)"
pwd -P`, dir)
	},
	list: func(dir string) string {
		return sh(listFunction+`
umask 022
mkdir -p -- "$1"
cd -- "$1"
if [ -e src ]; then list src; fi
if [ -e plan.sh ]; then list plan.sh; fi`, dir)
	},
	room: func(dir string) string {
		return sh(`df -Pk -- "$1" | awk 'NR == 2 { printf "%.0f\n", $4 * 1024 }'`, dir)
	},
	take: func(dir, run, sum string) string {
		// All that can fail for want of room comes before the first file is changed. What
		// a run left that was killed is an hour old or more: a copy on its way is not. A
		// folder in the place of a file, or a link to one, would get the file into it.
		return sh(`set -eu
umask 022
cd -- "$1"
`+lockRemote+`
take=$PWD/$2
trap 'rm -rf -- "$take" "$take`+archiveEnd+`"' EXIT
trap 'exit 143' HUP INT TERM
find . -maxdepth 1 \( -name 'take*' -o -name 'give*' \) -mmin +60 -exec rm -rf {} +
mkdir "$take"
sum=$(sha256sum <"$take`+archiveEnd+`")
[ "${sum%% *}" = "$3" ] || { echo "the copy arrived damaged" >&2; exit 1; }
tar -xmzf "$take`+archiveEnd+`" --no-same-owner -C "$take"
if [ -e "$take/`+removeFile+`" ]; then xargs -0 rm -rf -- <"$take/`+removeFile+`"; fi
if [ -d src ]; then find src -mindepth 1 -depth -type d -empty -delete; fi
cd "$take"
find . -mindepth 1 -type d -exec sh -c 'set -e
for d; do
	if [ -L "../$d" ] || [ ! -d "../$d" ]; then rm -rf -- "../$d"; fi
	mkdir -p -- "../$d"
done' sh {} +
find . ! -type d ! -path ./`+removeFile+` -exec sh -c 'set -e
for f; do
	if [ -d "../$f" ]; then rm -rf -- "../$f"; fi
	mv -f -- "$f" "../$f"
done' sh {} +`, dir, takeName(run), sum)
	},
	step: func(dir, name, key, compilers string, jobs int) string {
		return sh(stepScript, dir, name, key, compilers, strconv.Itoa(jobs))
	},
	outputs: func(dir string) string {
		return sh(listFunction+`
cd -- "$1/build"
if [ -d bin ]; then list bin; fi`, dir)
	},
	give: func(dir, run string, names []string) string {
		return sh(`set -eu
cd -- "$1"
give=$PWD/$2
shift 2
`+lockRemote+`
trap 'rm -f "$give"; exit 143' HUP INT TERM
tar -czf "$give" -C build -- "$@" || { code=$?; rm -f "$give"; exit $code; }
sha256sum <"$give"`, append([]string{dir, giveName(run) + archiveEnd}, names...)...)
	},
	tidy: func(dir, run string) string {
		return sh(`cd -- "$1" && rm -rf "$2" "$2`+archiveEnd+`" "$3`+archiveEnd+`"`, dir, takeName(run), giveName(run))
	},
}

// sh is a command that has a shell run a script with arguments. The user's shell there,
// which reads it, may be one that takes no quoted line breaks, as csh.
func sh(script string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `exec sh -c 's=$(printf %%s %s | base64 -d) || exit; eval "$s"' sh`,
		base64.StdEncoding.EncodeToString([]byte(script)))
	for _, a := range args {
		b.WriteString(" " + run.Quote(a))
	}
	return b.String()
}

// listFunction defines list NAME...: what listing reads.
const listFunction = `set -eu
echo ` + listWord + `
list() {
	find "$1" -type f -exec sha256sum -b -- {} +
	find "$1" -type f -perm -100 -exec sh -c 'for f; do printf "x %s\n" "$f"; done' sh {} +
	find "$1" -type l -exec sh -c 'for f; do printf "l %s\nto %s\n" "$f" "$(readlink -- "$f")"; done' sh {} +
}`

// lockRemote keeps a second llpatch out of the folder. One that has just lost its
// connection needs a moment to end.
const lockRemote = `if command -v flock >/dev/null; then
	exec 9>>.lock
	tries=0
	until flock -n 9; do
		tries=$((tries + 1))
		[ "$tries" -lt 12 ] || { echo "another llpatch is at work in $PWD" >&2; exit 75; }
		sleep 1
	done
fi`

// stepScript runs plan.sh in a session of its own. When standard input ends, because
// llpatch stops, dies or is cut off, it ends all that runs there. Where the last build
// lies in the future, that machine's clock has gone back, and Ninja would take a source
// that is written now for older than the objects made of it.
const stepScript = `set -u
umask 022
cd -- "$1" || exit 1
` + lockRemote + `
have=$(cat .state 2>/dev/null)
if [ -e build/.ninja_log ]; then
	: >.now || exit 1
	if [ -n "$(find build/.ninja_log -newer .now)" ]; then rm -rf build || exit 1; fi
	rm -f .now
fi
if [ "$have" != "$3 $4" ]; then
	case $have in
	*" $4") rm -rf build/CMakeCache.txt build/CMakeFiles build/build.ninja build/_deps ;;
	*) rm -rf build ;;
	esac || exit 1
	printf '%s\n' "$3 $4" >.state || exit 1
fi
exec 3<&0
STEP=$2 JOBS=$5 setsid sh plan.sh "$PWD/src" "$PWD/build" </dev/null 3<&- &
plan=$!
(
	cat >/dev/null
	kill -TERM "-$plan"
	sleep 10
	kill -KILL "-$plan"
) <&3 >/dev/null 2>&1 9>&- &
watch=$!
wait "$plan"
code=$?
kill "$watch" 2>/dev/null
exit $code`
