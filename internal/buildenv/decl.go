package buildenv

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Decl is a buildenv: what buildenv/<name>/env.toml declares, and the lock beside it.
// Its root is made of Debian's packages; of NVIDIA's archives where Redist is there;
// of Python's wheels where Wheels is; of a library alone where Library is and no suite.
type Decl struct {
	Name       string   `toml:"-" json:"name"`
	Summary    string   `toml:"summary" json:"summary"`
	Suite      string   `toml:"suite" json:"suite"` // of Debian, such as bookworm
	Arch       string   `toml:"arch" json:"arch"`   // as Debian writes it, such as amd64
	Components []string `toml:"components" json:"components"`
	Base       []string `toml:"base" json:"base"`               // packages, with all that they depend on
	Unpack     []string `toml:"unpack" json:"unpack,omitempty"` // packages alone, whatever they depend on
	// by its name another suite of the same mirror, of which packages are unpacked too
	From    map[string]From   `toml:"from" json:"from,omitempty"`
	Exclude []string          `toml:"exclude" json:"exclude,omitempty"` // globs of paths that are left out
	Keep    []string          `toml:"keep" json:"keep,omitempty"`       // globs of paths that Exclude does not reach
	Links   map[string]string `toml:"links" json:"links,omitempty"`     // path in the root -> where it points
	// folder in the root -> the one from which it has links to what the packages of Unpack have
	// there
	Gather   map[string]string  `toml:"gather" json:"gather,omitempty"`
	Programs map[string]Program `toml:"program" json:"programs"` // by role: cc, cxx, nvcc, cmake, ninja, ccache
	// what every result of a build in the root is held to
	Verify Limits `toml:"verify" json:"verify,omitzero"`
	// name of the buildenv with the libraries that a full bundle carries
	Runtime string   `toml:"runtime" json:"runtime,omitempty"`
	Redist  *Redist  `toml:"redist" json:"redist,omitempty"`
	Wheels  *Wheels  `toml:"wheels" json:"wheels,omitempty"`
	Library *Library `toml:"library" json:"library,omitempty"`
	// of archives and wheels: paths that the root must have in the end
	Holds   []string `toml:"holds" json:"holds,omitempty"`
	RoomMiB int64    `toml:"room-mib" json:"room_mib,omitzero"` // of archives and wheels: more than they hold, unpacked
	Lock    *Lock    `toml:"-" json:"-"`                        // nil where there is none yet
	// of a library alone: the digest of the root that it is built in; empty: built by this
	// machine's programs
	In string `toml:"-" json:"-"`
}

// From are packages of another suite than the root's, newer than it: they are unpacked as those of
// Unpack are, and Create refuses them where they need a newer library of the root's, or bring
// a file that the root has.
type From struct {
	Components []string `toml:"components" json:"components"`
	Unpack     []string `toml:"unpack" json:"unpack"`
}

// Limits are the newest versions of the system's libraries that programs for Linux may
// need, as the symbols that they take say; empty: no limit.
type Limits struct {
	GlibcMax   string `toml:"glibc-max" json:"glibc_max"`     // of GLIBC_ symbols, such as 2.31
	GlibcxxMax string `toml:"glibcxx-max" json:"glibcxx_max"` // of GLIBCXX_ symbols, which are libstdc++'s, such as 3.4.28
}

// Or returns l, and what it leaves open as other has it.
func (l Limits) Or(other Limits) Limits {
	return Limits{cmp.Or(l.GlibcMax, other.GlibcMax), cmp.Or(l.GlibcxxMax, other.GlibcxxMax)}
}

// Redist are archives of NVIDIA's redistributables: files of a release of CUDA, which
// redistrib_<release>.json below URL lists with their hashes.
type Redist struct {
	URL     string   `toml:"url" json:"url"`
	Release string   `toml:"release" json:"release"`           // such as 11.4.4
	Linux   []string `toml:"linux" json:"linux,omitempty"`     // components for linux-x86_64, laid flat
	Windows []string `toml:"windows" json:"windows,omitempty"` // for windows-x86_64, each below windows/
}

// Wheels are Python packages, which the user's pip fetches and nothing installs.
type Wheels struct {
	Platform string   `toml:"platform" json:"platform"` // as pip's --platform has it, such as win_amd64
	Packages []string `toml:"packages" json:"packages"` // name==version
}

// Kind says what a buildenv's root is made of: Debian, NVIDIA, Python or Rust.
func (d Decl) Kind() string {
	switch {
	case d.Redist != nil:
		return NVIDIA
	case d.Wheels != nil:
		return Python
	case d.Library != nil && d.Suite == "":
		return Rust
	}
	return Debian
}

// source is what the first line of a buildenv's lock says after its kind.
func (d Decl) source() string {
	switch d.Kind() {
	case NVIDIA:
		return d.Redist.Release
	case Python:
		return d.Wheels.Platform
	case Rust:
		return d.Library.Version
	}
	return strings.Join(append([]string{d.Suite}, slices.Sorted(maps.Keys(d.From))...), "+")
}

// alone are the packages that are unpacked whatever they depend on: of the root's suite, and of
// the others.
func (d Decl) alone() []string {
	all := slices.Clone(d.Unpack)
	for _, suite := range slices.Sorted(maps.Keys(d.From)) {
		all = append(all, d.From[suite].Unpack...)
	}
	return all
}

// suiteOf is the other suite that a package is taken of; empty: it is of the root's own.
func (d Decl) suiteOf(pkg string) string {
	for suite, from := range d.From {
		if slices.Contains(from.Unpack, pkg) {
			return suite
		}
	}
	return ""
}

// wanted are the packages that the lock must have: names of Debian's, as Package.key
// gives them those of the other kinds.
func (d Decl) wanted() (keys []string) {
	switch d.Kind() {
	case NVIDIA:
		for _, c := range d.Redist.Linux {
			keys = append(keys, Package{Name: c, Arch: linuxArchives}.key())
		}
		for _, c := range d.Redist.Windows {
			keys = append(keys, Package{Name: c, Arch: windowsArchives}.key())
		}
		return keys
	case Python:
		for _, p := range d.Wheels.Packages {
			name, _, _ := strings.Cut(p, "==")
			keys = append(keys, Package{Name: name, Arch: d.Wheels.Platform}.key())
		}
		return keys
	}
	return slices.Concat(d.Base, d.alone())
}

// Program is what a buildenv provides.
type Program struct {
	Path    string `toml:"path" json:"path"`       // absolute, in the root
	Version string `toml:"version" json:"version"` // how its version begins, at a dot: 11.3 allows 11.3.0, not 11.30
}

// Digest names a root by what goes into it: 12 hexadecimal digits. Comments, the
// summary, the programs' versions and a library's header do not change it.
func (d Decl) Digest() string {
	type entry struct {
		Name, SHA256 string
		Alone        bool
	}
	var packages []entry
	alone := d.alone()
	for _, p := range d.Lock.Packages {
		packages = append(packages, entry{p.Name, p.SHA256, slices.Contains(alone, p.Name)})
	}
	library := d.Library
	if library != nil {
		same := *library
		same.Header = "" // says how it is used
		library = &same
	}
	kind := d.Kind()
	if kind == Debian {
		kind = "" // roots that are older than the other kinds keep their names
	}
	text, err := json.Marshal(struct {
		Form          int    // raised when the same packages are unpacked in another way
		Kind          string `json:",omitempty"`
		Arch          string
		Packages      []entry
		Exclude, Keep []string
		Links         map[string]string
		Gather        map[string]string `json:",omitempty"` // younger than some roots
		Library       *Library          `json:",omitempty"` // likewise
		In            string            `json:",omitempty"` // likewise
	}{
		1, kind, d.Arch, packages, slices.Sorted(slices.Values(d.Exclude)), slices.Sorted(slices.Values(d.Keep)), d.Links,
		d.Gather, library, d.In,
	})
	if err != nil {
		panic(err) // strings, numbers and lists of them always have a form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// order returns the lock's packages as they are unpacked: those with their
// dependencies first, those of another suite last, each kind by name.
func (d Decl) order() []Package {
	var base, alone, from []Package
	others := d.alone()[len(d.Unpack):]
	for _, p := range d.Lock.Packages {
		switch {
		case slices.Contains(others, p.Name):
			from = append(from, p)
		case slices.Contains(d.Unpack, p.Name):
			alone = append(alone, p)
		default:
			base = append(base, p)
		}
	}
	return slices.Concat(base, alone, from)
}

// size is what the lock's packages take as files, bytes.
func (d Decl) size() (n int64) {
	for _, p := range d.Lock.Packages {
		n += p.Size
	}
	return n
}

// Unlocked says that a buildenv's lock is missing or is not that of its env.toml.
type Unlocked struct {
	Name string
	Why  string
}

// Error names the buildenv, what is wrong with its lock, and how to make it.
func (e *Unlocked) Error() string {
	return fmt.Sprintf("buildenv %s: %s; llpatch env create %s --update-lock makes the lock anew", e.Name, e.Why, e.Name)
}

// ExitCode is exit.Declaration.
func (e *Unlocked) ExitCode() int { return exit.Declaration }

// CheckLock compares the lock with the declaration beside it; the error is an
// *Unlocked that says what the lock lacks.
func (d Decl) CheckLock() error {
	if d.Lock == nil {
		return &Unlocked{d.Name, "it has no packages.lock"}
	}
	if d.Lock.Kind != d.Kind() || d.Lock.Suite != d.source() || d.Lock.Arch != d.Arch {
		return &Unlocked{d.Name, fmt.Sprintf("packages.lock is of %s %s %s, and env.toml asks for %s %s %s", d.Lock.Kind,
			d.Lock.Suite, d.Lock.Arch, d.Kind(), d.source(), d.Arch)}
	}
	var lacks []string
	for _, want := range d.wanted() {
		if !slices.ContainsFunc(d.Lock.Packages, func(p Package) bool { return p.Name == want || p.key() == want }) {
			lacks = append(lacks, want)
		}
	}
	if len(lacks) > 0 {
		return &Unlocked{d.Name, "packages.lock lacks " + strings.Join(lacks, ", ")}
	}
	if d.Kind() == Debian {
		return nil
	}
	for _, p := range d.Lock.Packages {
		if !slices.Contains(d.wanted(), p.key()) || d.Wheels != nil &&
			!slices.Contains(d.Wheels.Packages, p.Name+"=="+p.Version) {
			return &Unlocked{d.Name, fmt.Sprintf("packages.lock has %s %s, for which env.toml does not ask", p.key(), p.Version)}
		}
	}
	return nil
}
