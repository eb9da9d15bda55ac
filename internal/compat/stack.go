package compat

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Stack is an ordered set of fixes that are applied on top of each other.
type Stack struct {
	Name     string // for messages: the upstream, or the folder of foreign patches
	Upstream string
	Fixes    []Fix
	// Foreign stacks declare no ranges: every patch is meant for every tag.
	Foreign bool
}

// Fix is a defect's cure: one patch file for each range of tags.
type Fix struct {
	ID       string
	Summary  string
	OS       []string // systems that it is for; empty: any
	Defect   spec.Defect
	Not      string // why it is not for the target that was asked about; "": it is, or none was
	Variants []Variant
}

// Variant is a patch file and the tags that it is declared for.
type Variant struct {
	Range tag.Range // zero: every tag
	File  string    // its name
	// Patches holds what the file says; it is applied whole or not at all. Empty
	// where the variant is an upstream commit that was not read from a history.
	Patches []patch.Patch
	Commit  string
	Except  []string // as spec.Variant.Except
}

func (v Variant) declared(build int) bool { return v.Range.IsZero() || v.Range.Contains(build) }

// chosen returns the index of the variant that is declared for a build number,
// or -1, the case and the reason why there is none.
func (f *Fix) chosen(build int) (int, Verdict, string) {
	if f.Not != "" {
		return -1, NotForTarget, f.Not
	}
	if is, why := f.Defect.Absent(build); is != "" {
		return -1, Verdict(is), why
	}
	i := slices.IndexFunc(f.Variants, func(v Variant) bool { return v.declared(build) })
	if i < 0 {
		var ranges []tag.Range
		for _, v := range f.Variants {
			ranges = append(ranges, v.Range)
		}
		return -1, NotCovered, "no variant is declared for it" + spec.Beyond(build, ranges)
	}
	return i, "", ""
}

// For marks the fixes that a target does not take, whatever the tag is.
func (s Stack) For(repo *spec.Repo, target spec.Recipe) Stack {
	s.Fixes = slices.Clone(s.Fixes)
	for i := range s.Fixes {
		f := &s.Fixes[i]
		for _, declared := range repo.Fixes {
			if declared.ID == f.ID {
				f.Not = target.Leaves(declared)
			}
		}
	}
	return s
}

// Declared returns the stack of every fix for an upstream, in the order of
// patches/series. parsed are patch files that were read already, by path; the others are read.
func Declared(repo *spec.Repo, upstream string, parsed map[string][]patch.Patch) (Stack, error) {
	s := Stack{Name: upstream, Upstream: upstream}
	var errs []error
	for _, f := range repo.Fixes {
		if f = f.For(upstream); len(f.Variants) == 0 {
			continue
		}
		fix := Fix{ID: f.ID, Summary: f.Summary, OS: f.OS, Defect: f.Defect(upstream)}
		for _, v := range f.Variants {
			out := Variant{Range: v.Range, File: cmp.Or(v.Patch, v.Commit), Commit: v.Commit, Except: v.Except}
			file := path.Join("patches", f.ID, v.Patch)
			if out.Patches = parsed[file]; v.Commit == "" && out.Patches == nil {
				var err error
				out.Patches, err = patch.ParseFile(repo.FS, file, f.ID, v.Patch)
				errs = append(errs, err)
			}
			fix.Variants = append(fix.Variants, out)
		}
		s.Fixes = append(s.Fixes, fix)
	}
	return s, errors.Join(errs...)
}

// seriesFile lists the patches of a quilt folder in their order.
const seriesFile = "series"

// Folder returns the stack of the patches in a folder that is not llpatch's: in
// the order of its quilt series file, or else every *.patch and *.diff by name.
func Folder(dir string) (Stack, error) {
	s := Stack{Name: dir, Upstream: spec.LlamaCpp, Foreign: true}
	files, err := folderFiles(dir)
	if err != nil {
		return s, err
	}
	var errs []error
	fsys := os.DirFS(dir)
	for _, name := range files {
		id := strings.TrimSuffix(strings.TrimSuffix(name, ".patch"), ".diff")
		patches, err := patch.ParseFile(fsys, name, id, path.Base(name))
		if bad := new(patch.ParseError); errors.As(err, &bad) {
			bad.Fix, bad.Name = "", filepath.Join(dir, name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Fixes = append(s.Fixes, Fix{
			ID: id, Summary: patches[0].Header.Subject,
			Variants: []Variant{{File: name, Patches: patches}},
		})
	}
	return s, errors.Join(errs...)
}

func folderFiles(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, seriesFile))
	if err == nil {
		return seriesFiles(dir, string(data))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if ext := path.Ext(e.Name()); !e.IsDir() && (ext == ".patch" || ext == ".diff") {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no series file and no *.patch or *.diff", dir)
	}
	return names, nil
}

// seriesFiles reads a quilt series: a file a line, options behind it, # begins a
// comment. Only -p1 is the form that git's patches have.
func seriesFiles(dir, text string) ([]string, error) {
	var names []string
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", filepath.Join(dir, seriesFile), i+1)
		for _, option := range words[1:] {
			if option != "-p1" && option != "-pab" {
				return nil, fmt.Errorf("%s: %s is not supported, only -p1", where, option)
			}
		}
		if !fs.ValidPath(words[0]) {
			return nil, fmt.Errorf("%s: %q is not the name of a file in this folder", where, words[0])
		}
		if slices.Contains(names, words[0]) {
			return nil, fmt.Errorf("%s: %s is listed twice", where, words[0])
		}
		names = append(names, words[0])
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s lists no patch", filepath.Join(dir, seriesFile))
	}
	return names, nil
}
