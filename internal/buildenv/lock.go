package buildenv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of what a root is made of, as the first line of a lock has them.
const (
	Debian = "suite"  // Debian's packages
	NVIDIA = "redist" // archives of NVIDIA's redistributables
	Python = "wheels" // wheels that pip fetches
	Rust   = "crate"  // a crate that cargo fetches: of a root's library, or of a library alone
)

// Lock is packages.lock: every package of a root, by its hash.
type Lock struct {
	Kind string // Debian, NVIDIA or Python
	// of Debian, the root's own before those of From, with a + between them; of NVIDIA's archives
	// their release, of wheels their platform
	Suite    string
	Arch     string
	Packages []Package // by name, and where one is there for several platforms by platform
}

// Package is one line of a lock.
type Package struct {
	Name      string
	Version   string
	Arch      string // as the package says it: amd64 or all; of archives and wheels the platform
	Size      int64  // of the file, bytes
	Installed int64  // what it takes on the disk, KiB, as its maker says
	SHA256    string // of the file, in hexadecimal
	File      string // path below the mirror's folder
}

// key is what a lock sorts by: a component of NVIDIA's is there for several platforms.
func (p Package) key() string {
	if p.Arch == linuxArchives || p.Arch == windowsArchives {
		return p.Name + " " + p.Arch
	}
	return p.Name
}

// kinds are what the files of a lock may be, and what its packages may be called.
var kinds = map[string]struct {
	names *regexp.Regexp
	what  string
	ends  []string
}{
	Debian: {nameRE, "a .deb file", []string{".deb"}},
	NVIDIA: {componentRE, "a .tar.xz or .zip file", []string{".tar.xz", ".zip"}},
	Python: {nameRE, "a .whl file", []string{".whl"}},
}

// LockError is a line of a packages.lock that is wrong.
type LockError struct {
	Line int // 1-based
	Msg  string
}

// Error names the line and the fault.
func (e *LockError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

var (
	nameRE           = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`) // Debian policy 5.6.7; a wheel's is of that form too
	componentRE      = regexp.MustCompile(`^[a-z0-9][a-z0-9_]*$`)
	packageVersionRE = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~:-]*$`) // 5.6.12
	suiteRE          = regexp.MustCompile(`^[a-z0-9][a-z0-9./_+-]*$`)
)

const lockHead = `# Made by llpatch env create NAME --update-lock; not for editing.
# suite and architecture, then one package a line:
# name version architecture bytes installed-KiB sha256 file
`

// String is the lock as it is kept; ParseLock reads it.
func (l Lock) String() string {
	var b strings.Builder
	b.WriteString(lockHead)
	fmt.Fprintf(&b, "%s %s %s\n", l.Kind, l.Suite, l.Arch)
	for _, p := range l.Packages {
		fmt.Fprintf(&b, "%s %s %s %d %d %s %s\n", p.Name, p.Version, p.Arch, p.Size, p.Installed, p.SHA256, p.File)
	}
	return b.String()
}

// ParseLock reads a packages.lock. The error is a *LockError.
func ParseLock(data []byte) (*Lock, error) {
	l := &Lock{}
	named := map[string]string{} // package by SHA-256
	for i, line := range strings.Split(string(data), "\n") {
		fail := func(format string, args ...any) (*Lock, error) {
			return nil, &LockError{i + 1, fmt.Sprintf(format, args...)}
		}
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, " ")
		if l.Suite == "" {
			if len(f) != 3 || kinds[f[0]].names == nil || !suiteRE.MatchString(f[1]) || !nameRE.MatchString(f[2]) {
				return fail("the first line must be: suite NAME ARCHITECTURE, or redist or wheels in the place of suite")
			}
			l.Kind, l.Suite, l.Arch = f[0], f[1], f[2]
			continue
		}
		if len(f) != 7 {
			return fail("a package has 7 fields with one space between them, and this line has %d", len(f))
		}
		p := Package{Name: f[0], Version: f[1], Arch: f[2], SHA256: f[5], File: f[6]}
		size, err1 := strconv.ParseInt(f[3], 10, 64)
		kib, err2 := strconv.ParseInt(f[4], 10, 64)
		p.Size, p.Installed = size, kib
		sum, err3 := hex.DecodeString(p.SHA256)
		kind := kinds[l.Kind]
		isKind := slices.ContainsFunc(kind.ends, func(end string) bool { return strings.HasSuffix(p.File, end) })
		switch {
		case !kind.names.MatchString(p.Name):
			return fail("%q is not the name of a package", p.Name)
		case !packageVersionRE.MatchString(p.Version):
			return fail("%q is not a version", p.Version)
		case l.Kind == Debian && p.Arch != l.Arch && p.Arch != "all":
			return fail("architecture %q is neither %s nor all", p.Arch, l.Arch)
		case l.Kind == NVIDIA && p.Arch != linuxArchives && p.Arch != windowsArchives:
			return fail("platform %q is neither %s nor %s", p.Arch, linuxArchives, windowsArchives)
		case l.Kind == Python && p.Arch != l.Suite:
			return fail("platform %q is not %s", p.Arch, l.Suite)
		case err1 != nil || err2 != nil || size <= 0 || kib < 0 || size > 1<<40 || kib > 1<<32:
			return fail("the sizes %q and %q are no numbers that make sense", f[3], f[4])
		case err3 != nil || len(sum) != 32 || strings.ToLower(p.SHA256) != p.SHA256:
			return fail("%q is not a SHA-256 in lower case", p.SHA256)
		case !isKind || path.IsAbs(p.File) || path.Clean(p.File) != p.File || strings.HasPrefix(p.File, "../"):
			return fail("%q is not the path of %s below a mirror", p.File, kind.what)
		}
		if n := len(l.Packages); n > 0 && l.Packages[n-1].key() >= p.key() {
			return fail("%s must stand before %s, and no package twice", p.key(), l.Packages[n-1].key())
		}
		if other, ok := named[p.SHA256]; ok { // both would be kept under one name
			return fail("%s has the SHA-256 of %s, so one of the two lines is wrong", p.Name, other)
		}
		named[p.SHA256] = p.Name
		l.Packages = append(l.Packages, p)
	}
	if l.Suite == "" || len(l.Packages) == 0 {
		return nil, &LockError{1, "it names no package"}
	}
	return l, nil
}

// sorted puts a lock in order, and looks whether it reads as it is written.
func (l *Lock) sorted() error {
	sortPackages(l.Packages)
	read, err := ParseLock([]byte(l.String()))
	if err == nil && !slices.Equal(read.Packages, l.Packages) { // a field that holds the end of a line
		err = errors.New("it does not read as it is written")
	}
	if err != nil {
		return fmt.Errorf("what it says makes no lock: %w", err)
	}
	return nil
}

// sortPackages puts packages into the order of a lock.
func sortPackages(all []Package) {
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.key(), b.key()) })
}
