package patch

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// What file systems take: bytes of a name, and of a path below the folder that a
// tree is written to.
const (
	maxNameLen = 255
	maxPathLen = 3072
)

// checkPath says why a path must not be touched, or nil. It is asked before any
// tree is looked at, and refuses what is dangerous on any system, because a tree
// that is patched here may be checked out on Windows or macOS.
func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("path is empty")
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("path %q holds a zero byte", p)
	case p[0] == '/' || p[0] == '\\':
		return fmt.Errorf("path %q is absolute", p)
	case len(p) > 1 && p[1] == ':' && isLetter(p[0]):
		return fmt.Errorf("path %q has a drive letter", p)
	}
	if len(p) > maxPathLen {
		return fmt.Errorf("path %q… has %d bytes, more than %d", p[:40], len(p), maxPathLen)
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxNameLen {
			return fmt.Errorf("path with the name %q… of %d bytes, and file systems take %d", part[:40], len(part), maxNameLen)
		}
		if part == "" {
			return fmt.Errorf("path %q has an empty component", p)
		}
		for sub := range strings.SplitSeq(part, `\`) {
			// Windows drops spaces and dots at the end of a name.
			if sub != "" && strings.Trim(sub, " .") == "" {
				return fmt.Errorf("path %q has a component of dots", p)
			}
			if isDotGit(sub) {
				return fmt.Errorf("path %q leads into .git", p)
			}
		}
	}
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isDotGit reports whether some file system takes name for .git: any case, the
// short name GIT~1, dots or spaces or a stream behind it (NTFS), or code points
// that HFS+ ignores (CVE-2014-9390, CVE-2019-1352).
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.ToLower(strings.TrimRight(name, " ."))
	if name == ".git" {
		return true
	}
	digits, ok := strings.CutPrefix(name, "git~")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// checkLink says why a symbolic link at p must not lead to target.
func checkLink(p, target string) error {
	if target == "" || target[0] == '/' || target[0] == '\\' || strings.ContainsRune(target, 0) ||
		(len(target) > 1 && target[1] == ':') {
		return fmt.Errorf("symbolic link to %q", target)
	}
	// A link is followed name by name, so ".." after a folder that is itself a
	// link goes elsewhere than it reads; only leading ones can be judged.
	depth := strings.Count(path.Clean(p), "/")
	down := false
	for part := range strings.SplitSeq(strings.ReplaceAll(target, `\`, "/"), "/") {
		switch {
		case part == "..":
			if depth--; depth < 0 || down {
				return fmt.Errorf("symbolic link that leads out of the tree, to %q", target)
			}
		case part != "" && part != ".":
			down = true
			if isDotGit(part) {
				return fmt.Errorf("symbolic link into .git, to %q", target)
			}
		}
	}
	return nil
}
