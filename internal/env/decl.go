package env

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Decl is a buildenv: what buildenv/<name>/env.toml declares, and the lock beside it.
type Decl struct {
	Name       string             `toml:"-" json:"name"`
	Summary    string             `toml:"summary" json:"summary"`
	Suite      string             `toml:"suite" json:"suite"` // of Debian, such as bookworm
	Arch       string             `toml:"arch" json:"arch"`   // as Debian writes it, such as amd64
	Components []string           `toml:"components" json:"components"`
	Base       []string           `toml:"base" json:"base"`                 // packages, with all that they depend on
	Unpack     []string           `toml:"unpack" json:"unpack,omitempty"`   // packages alone, whatever they depend on
	Exclude    []string           `toml:"exclude" json:"exclude,omitempty"` // globs of paths that are left out
	Keep       []string           `toml:"keep" json:"keep,omitempty"`       // globs of paths that Exclude does not reach
	Links      map[string]string  `toml:"links" json:"links,omitempty"`     // path in the root -> where it points
	Programs   map[string]Program `toml:"program" json:"programs"`          // by role: cc, cxx, nvcc, cmake, ninja, ccache
	Runtime    string             `toml:"runtime" json:"runtime,omitempty"` // name of the buildenv with the libraries that a full bundle carries
	Lock       *Lock              `toml:"-" json:"-"`                       // nil where there is none yet
}

// Program is what a buildenv provides.
type Program struct {
	Path    string `toml:"path" json:"path"`       // absolute, in the root
	Version string `toml:"version" json:"version"` // how its version begins, at a dot: 11.3 allows 11.3.0, not 11.30
}

// Digest names a root by what goes into it: 12 hexadecimal digits. Comments, the
// summary and the programs' versions do not change it.
func (d Decl) Digest() string {
	type entry struct {
		Name, SHA256 string
		Alone        bool
	}
	var packages []entry
	for _, p := range d.Lock.Packages {
		packages = append(packages, entry{p.Name, p.SHA256, slices.Contains(d.Unpack, p.Name)})
	}
	text, err := json.Marshal(struct {
		Form          int // raised when the same packages are unpacked in another way
		Arch          string
		Packages      []entry
		Exclude, Keep []string
		Links         map[string]string
	}{1, d.Arch, packages, slices.Sorted(slices.Values(d.Exclude)), slices.Sorted(slices.Values(d.Keep)), d.Links})
	if err != nil {
		panic(err) // strings, numbers and lists of them always have a form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// order returns the lock's packages as they are unpacked: those with their
// dependencies first, each kind by name.
func (d Decl) order() []Package {
	var base, alone []Package
	for _, p := range d.Lock.Packages {
		if slices.Contains(d.Unpack, p.Name) {
			alone = append(alone, p)
		} else {
			base = append(base, p)
		}
	}
	return append(base, alone...)
}

// size is what the lock's packages take as files, bytes.
func (d Decl) size() (n int64) {
	for _, p := range d.Lock.Packages {
		n += p.Size
	}
	return n
}

// roles are the programs' roles in order.
func (d Decl) roles() []string { return slices.Sorted(maps.Keys(d.Programs)) }

// Unlocked says that a buildenv's lock is missing or is not that of its env.toml.
type Unlocked struct {
	Name string
	Why  string
}

// Error names the buildenv, what is wrong with its lock, and how to make it.
func (e *Unlocked) Error() string {
	return fmt.Sprintf("buildenv %s: %s; llpatch env create %s --update-lock makes the lock anew", e.Name, e.Why, e.Name)
}

// CheckLock compares the lock with the declaration beside it; the error is an
// *Unlocked that says what the lock lacks.
func (d Decl) CheckLock() error {
	if d.Lock == nil {
		return &Unlocked{d.Name, "it has no packages.lock"}
	}
	if d.Lock.Suite != d.Suite || d.Lock.Arch != d.Arch {
		return &Unlocked{d.Name, fmt.Sprintf("packages.lock is of %s %s, and env.toml asks for %s %s", d.Lock.Suite, d.Lock.Arch, d.Suite, d.Arch)}
	}
	var lacks []string
	for _, name := range slices.Concat(d.Base, d.Unpack) {
		if !slices.ContainsFunc(d.Lock.Packages, func(p Package) bool { return p.Name == name }) {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		return &Unlocked{d.Name, "packages.lock lacks " + strings.Join(lacks, ", ")}
	}
	return nil
}
