// Package tag names upstream releases and orders them: a tag is b8833, v0.5.0
// or a full commit id, and a range is a set of build numbers.
package tag

import (
	"fmt"
	"regexp"
	"strconv"
)

// Kind says which of upstream's three ways of naming a release a Tag uses.
type Kind int

const (
	// Build is a nightly tag: the letter b and the commit count on master.
	Build Kind = iota + 1
	// Version is a semantic version such as v0.5.0; its build number stands in recipes/tags.lock.
	Version
	// Commit is a full, lower-case SHA-1 commit id.
	Commit
)

// String returns the word that messages use for k.
func (k Kind) String() string {
	switch k {
	case Build:
		return "build tag"
	case Version:
		return "version tag"
	case Commit:
		return "commit"
	}
	return "unknown kind"
}

// Tag is a valid name of an upstream release. The zero value names nothing.
type Tag struct {
	name  string
	kind  Kind
	build int
}

// A build tag has no leading zero, so that one release has one name.
var (
	buildRE   = regexp.MustCompile(`^b([1-9][0-9]{0,6})$`)
	versionRE = regexp.MustCompile(`^v(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`)
	commitRE  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Parse reads the name of a release. The error tells what is accepted.
func Parse(s string) (Tag, error) {
	switch {
	case buildRE.MatchString(s):
		n, err := strconv.Atoi(s[1:])
		if err != nil {
			return Tag{}, fmt.Errorf("tag %q: %w", s, err)
		}
		return Tag{name: s, kind: Build, build: n}, nil
	case versionRE.MatchString(s):
		return Tag{name: s, kind: Version}, nil
	case commitRE.MatchString(s):
		return Tag{name: s, kind: Commit}, nil
	}
	return Tag{}, fmt.Errorf("tag %q is not a build tag (b8833), a version (v0.5.0) or a full commit id of 40 hex digits",
		s)
}

// MustParse is Parse for names that stand in source code; it panics on an error.
func MustParse(s string) Tag {
	t, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return t
}

// String returns the name as upstream writes it.
func (t Tag) String() string { return t.name }

// Kind says which of the three forms the name has.
func (t Tag) Kind() Kind { return t.kind }

// IsZero reports whether t names nothing.
func (t Tag) IsZero() bool { return t.name == "" }

// Build returns the build number that the name itself holds, and whether it
// holds one: only a build tag does.
func (t Tag) Build() (int, bool) { return t.build, t.kind == Build }

// Short returns a name fit for a folder or a file: commits are cut to 12 digits.
func (t Tag) Short() string {
	if t.kind == Commit {
		return t.name[:12]
	}
	return t.name
}

// MarshalText writes the name.
func (t Tag) MarshalText() ([]byte, error) { return []byte(t.name), nil }

// UnmarshalText reads a name as Parse does.
func (t *Tag) UnmarshalText(b []byte) error {
	p, err := Parse(string(b))
	if err != nil {
		return err
	}
	*t = p
	return nil
}
