package buildenv

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// Containerfile is the same root for podman and docker: it reads packages.lock
// beside it, checks every package as Create does, and unpacks the same files. It builds no
// library, and says so.
// `podman build buildenv/NAME` makes the image; MIRROR is a build argument.
func (d Decl) Containerfile() string {
	lacks := ""
	if d.Library != nil {
		lacks = fmt.Sprintf("# It lacks %s, which llpatch env create builds from a crate.\n", d.Library.Name)
	}
	return fmt.Sprintf(`# Made from env.toml by llpatch env create %s --update-lock; not for editing.
# %s. Reads packages.lock beside it.
%sFROM debian:%s-slim AS unpack
ARG MIRROR=
COPY packages.lock /packages.lock
RUN %s

FROM scratch
COPY --from=unpack /rootfs /
CMD ["/bin/sh"]
`, d.Name, d.Summary, lacks, d.Suite, strings.ReplaceAll(d.unpackScript(), "\n", " \\\n\t"))
}

// unpackScript fills $ROOT with the packages of $LOCK from $MIRROR. Every line
// ends in a semicolon or goes on: a Containerfile joins them.
func (d Decl) unpackScript() string {
	var b strings.Builder
	b.WriteString(`set -eu;
root=${ROOT:-/rootfs}; lock=${LOCK:-/packages.lock}; mirror=${MIRROR:-}; umask 022;
if [ -z "$mirror" ]; then
apt-get update -q;
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(CREATED_BY)|$(REPO_URI)' | sed -n '/^Debian|Debian|Packages|/{s///p;q}');
fi;
mkdir -p "$root"; cd "$root";
mkdir -p ` + strings.Join(layoutFolders, " ") + `;
for l in ` + strings.Join(layoutLinks, " ") + `; do ln -s usr/$l $l; done;
`)
	for _, name := range slices.Sorted(maps.Keys(layoutFiles)) {
		fmt.Fprintf(&b, "printf %s > %s;\n", run.Quote(strings.ReplaceAll(layoutFiles[name], "\n", `\n`)), name)
	}
	b.WriteString(`while read -r name version arch size kib sum file; do
case $name in ''|'#'*|suite) continue ;; esac;
/usr/lib/apt/apt-helper -q download-file "$mirror/$(echo "$file" | sed 's/+/%2b/g; s/~/%7e/g')" "$root/package.deb" "SHA256:$sum";
dpkg-deb --fsys-tarfile package.deb | tar -x --no-same-owner --no-same-permissions --keep-directory-symlink`)
	for _, g := range expand(d.Exclude) {
		b.WriteString(tarPattern(g, "--exclude="))
	}
	b.WriteString(";\n")
	for _, g := range expand(d.Keep) {
		// tar fails where a package has none such.
		fmt.Fprintf(&b, "dpkg-deb --fsys-tarfile package.deb | tar -x --no-same-owner --no-same-permissions "+
			"--keep-directory-symlink --wildcards%s 2>/dev/null || :;\n", tarPattern(g, ""))
	}
	if len(d.Gather) > 0 {
		fmt.Fprintf(&b, `case $name in %s)
dpkg-deb --fsys-tarfile package.deb | tar -t | sed '/\/$/d; s,^\.,,' >> files.alone;; esac;
`, strings.Join(d.alone(), "|"))
	}
	b.WriteString("rm package.deb;\ndone < \"$lock\";\n")
	for _, dir := range slices.Sorted(maps.Keys(d.Gather)) {
		from := d.Gather[dir]
		to, _ := upward(dir, from) // both are absolute
		fmt.Fprintf(&b, `mkdir -p .%s;
sed -n %s files.alone | sort -u | while read -r n; do if [ -e .%s/"$n" ] || [ -L .%[3]s/"$n" ]; then ln -s %[4]s/"$n" .%[1]s/"$n"; fi; done;
`, run.Quote(dir), run.Quote("s,^"+from+`/\([^/]*\).*,\1,p`), run.Quote(from), run.Quote(to))
	}
	if len(d.Gather) > 0 {
		b.WriteString("rm files.alone;\n")
	}
	for _, from := range slices.Sorted(maps.Keys(d.Links)) {
		fmt.Fprintf(&b, "mkdir -p .%s; ln -s %s .%s;\n", run.Quote(path.Dir(from)), run.Quote(d.Links[from]), run.Quote(from))
	}
	b.WriteString(`chmod -R u+rwX "$root"`)
	return b.String()
}

// tarPattern writes a glob for tar, whose star matches a slash or not as it was
// told before.
func tarPattern(g, option string) string {
	how := " --no-wildcards-match-slash "
	if strings.Contains(g, "**") {
		how = " --wildcards-match-slash "
		g = strings.ReplaceAll(g, "**", "*")
	}
	return how + option + run.Quote("./"+g)
}

// expand writes each {a,b} of the globs out; tar knows none.
func expand(globs []string) []string {
	var out []string
	for _, g := range globs {
		before, rest, ok := strings.Cut(g, "{")
		inner, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			out = append(out, g)
			continue
		}
		for word := range strings.SplitSeq(inner, ",") {
			out = append(out, expand([]string{before + word + after})...)
		}
	}
	return out
}
