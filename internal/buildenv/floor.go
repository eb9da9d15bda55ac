package buildenv

import "strings"

// Floor is the newest glibc that what is made in the root may need: the limit in [verify], else the
// glibc of the root, as the lock has it; "" where neither is known.
func (d Decl) Floor() string {
	if d.Verify.GlibcMax != "" || d.Lock == nil {
		return d.Verify.GlibcMax
	}
	for _, p := range d.Lock.Packages {
		if p.Name == "libc6" {
			version, _, _ := strings.Cut(p.Version, "-") // without Debian's own part
			return version
		}
	}
	return ""
}
