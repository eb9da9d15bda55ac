// Package publish puts releases where strangers get them: on GitHub, on a Gitea, or into a folder.
// What is sent was verified before, each file is compared where it arrived, nothing is public
// before all of it is right, and nothing that is public is changed.
//
// Read takes the folders of a release; Publish and Withdraw work at a Place, which Open finds.
package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/verify"
)

// Set is what is published under one name.
type Set struct {
	Name     string // of the release
	Archives []bundle.Archive
	Notes    string // Markdown
	files    []file
}

// file is one of a set.
type file struct {
	name   string // where it is published
	path   string
	sha256 string
	bytes  int64
}

// Bad says that a set must not be published as it is.
type Bad struct {
	Dir  string
	Err  error
	Code int // exit.Smoke or exit.NotRun, as verify ends with
}

// Error names the folder and the cause.
func (e *Bad) Error() string { return fmt.Sprintf("%s is not published: %v", e.Dir, e.Err) }

// Unwrap returns the cause.
func (e *Bad) Unwrap() error { return e.Err }

// ExitCode is as verify's.
func (e *Bad) ExitCode() int { return e.Code }

// Hint says how to have a set that can be published.
func (e *Bad) Hint() string {
	var unproven *verify.Unproven
	if errors.As(e.Err, &unproven) && unproven.Report.Other() {
		return unproven.Hint()
	}
	if e.Code == exit.NotRun {
		return "only what is proven is published: llpatch release TAG TARGET --key KEY signs it, and publish --key " +
			"KEY.pub verifies it"
	}
	return "run llpatch release again; it leaves a set that is right"
}

// Read verifies the folders that releases left and returns what is to be published of them, a
// set for each name. name, which may be empty, is that of the release to put all of them into.
// The error is a *Bad, that of verify.Path, or one of reading.
func Read(ctx context.Context, dirs []string, name string, o verify.Options) ([]*Set, error) {
	var sets []*Set
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			return nil, &verify.NotArchive{Path: dir, Why: "is no folder of a release"}
		}
		reports, err := verify.Path(ctx, dir, o)
		if err != nil {
			return nil, err
		}
		for _, r := range reports {
			if r.SHA256 == "" || r.Manifest() == nil && r.Err() == nil {
				return nil, &verify.NotArchive{Path: dir, Why: "holds no archive of llpatch's"}
			}
			if err := r.Err(); err != nil {
				return nil, &Bad{dir, err, exit.Code(err)}
			}
			called := name
			if called == "" {
				called = bundle.ReleaseName(r.Subject)
			}
			i := slices.IndexFunc(sets, func(s *Set) bool { return s.Name == called })
			if i < 0 {
				sets, i = append(sets, &Set{Name: called}), len(sets)
			}
			if err := sets[i].add(dir, r); err != nil {
				return nil, err
			}
		}
	}
	return sets, nil
}

// PlainName reports whether a release may be called so: what is a folder and an address as it is.
func PlainName(name string) bool {
	taken := slices.Contains([]string{indexFile, pageFile, shFile, cmdFile}, name) // by the index
	return !taken && nameRE.MatchString(name) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "-")
}

// add adds an archive and what lies beside it, as verify found it.
func (s *Set) add(dir string, r *verify.Report) error {
	archive := r.Subject
	if slices.ContainsFunc(s.Archives, func(a bundle.Archive) bool { return a.Name == archive }) {
		return &Bad{dir, fmt.Errorf("%s comes from another folder too", archive), exit.Usage}
	}
	entry := r.Manifest().Entry(bundle.Packed{SHA256: r.SHA256, Bytes: r.Bytes}, archive)
	var notes []byte
	for _, v := range r.Set() {
		if v.As == v.Name && v.Name == archive+bundle.SumsSuffix {
			return &Bad{
				dir, fmt.Errorf("%s lies there, as beside what was published already", v.Name),
				exit.Usage,
			}
		}
		f := file{name: v.As, path: filepath.Join(dir, v.Name), sha256: v.SHA256}
		st, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		f.bytes = st.Size()
		if of, part := bundle.PartOf(v.Name); v.Name == archive || part && of == archive {
			entry.URLs = append(entry.URLs, v.Name)
		}
		if v.Name == bundle.NotesFile {
			if notes, err = regular.ReadFile(f.path); err != nil {
				return err
			}
			if sum := sha256.Sum256(notes); hex.EncodeToString(sum[:]) != v.SHA256 {
				return &Bad{dir, fmt.Errorf("%s was changed since it was verified", v.Name), exit.Smoke}
			}
		}
		if i := slices.IndexFunc(s.files, func(other file) bool { return other.name == f.name }); i < 0 {
			s.files = append(s.files, f)
		} else if s.files[i].sha256 != f.sha256 {
			return &Bad{dir, fmt.Errorf("%s is another file than %s", f.path, s.files[i].path), exit.Usage}
		}
	}
	s.Archives, s.Notes = append(s.Archives, entry), s.Notes+string(bytes.TrimSpace(notes))+"\n\n"
	return nil
}
