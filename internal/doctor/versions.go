package doctor

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
)

// families says which library has a family of symbol versions with an order, and what
// its version is called.
var families = []struct{ family, lib, name string }{
	{"GLIBC", "libc.so.6", "glibc"},
	{"GLIBCXX", "libstdc++.so.6", "libstdc++ (GLIBCXX)"},
	{"CXXABI", "libstdc++.so.6", "libstdc++ (CXXABI)"},
	{"GCC", "libgcc_s.so.1", "libgcc (GCC)"},
	{"OPENSSL", "libssl.so.3", "OpenSSL"},
}

// versions compares the versions that the files demand of their libraries with what
// those have, in the bundle and here: the highest number of a family that has an order,
// and then each by its name, as the loader does. here are the libraries of this machine
// that are needed.
func (r *Report) versions(h *held, libs *binary.Libraries, here []string) error {
	read := map[string]*binary.File{}
	for _, lib := range here {
		f, err := binary.ReadLibrary(h.find(libs, lib))
		if err != nil {
			return err
		}
		read[lib] = f
	}
	gone := map[string]bool{} // versions that are missing and said to be
	for _, v := range families {
		need, lib := binary.Floor(h.files, v.family), read[v.lib]
		if need == "" || lib == nil {
			continue
		}
		if has := lib.Highest()[v.family]; binary.Less(has, need) {
			r.lacks(v.lib, bundle.HintNewerSystem, "%s needs %s %s%s, and this machine has %s.", h.highest(v.family, need),
				v.name, need, h.because(v.family, need), cmp.Or(has, "none"))
			gone[v.family] = true
		} else {
			r.ok(v.lib, "It needs %s %s, and this machine has %s.", v.name, need, has)
		}
	}
	for _, f := range h.own() {
		for _, need := range f.ImportedVersions() {
			whose, lib := "of the bundle", h.called(need.Lib)
			if lib == nil {
				whose, lib = "of this machine", read[need.Lib]
			}
			if lib == nil || slices.Contains(lib.ExportedVersions(), need.Version) || gone[need.Version] {
				continue
			}
			gone[need.Version] = true
			if family, _, _ := strings.Cut(need.Version, "_"); !gone[family] {
				r.lacks(need.Lib, "", "%s needs the version %s of %s, which that %s does not have.", f.Name, need.Version,
					need.Lib, whose)
			}
		}
	}
	return r.symbols(h, libs, gone)
}

// find is where this machine has a library: in a folder that a file names, as that of a
// build or of a distribution's own libraries, or where its loader looks.
func (h *held) find(libs *binary.Libraries, lib string) string {
	mine := h.files[0].Machine
	return cmp.Or(binary.LibrariesIn(h.elsewhere...).Find(lib, mine), libs.Find(lib, mine))
}

// folders notes the folders of this machine that a RUNPATH names; origin is the file's
// own, and empty for one of the bundle.
func (h *held) folders(runPath []string, origin string) {
	for _, dir := range runPath {
		if below, ok := binary.CutOrigin(dir); ok && origin != "" {
			dir = filepath.Join(origin, below)
		}
		if filepath.IsAbs(dir) && !slices.Contains(h.elsewhere, dir) {
			h.elsewhere = append(h.elsewhere, dir)
		}
	}
}

// called is the file of the bundle that a name in DT_NEEDED means, nil where it is none
// of its own.
func (h *held) called(lib string) *binary.File {
	for _, f := range h.files {
		if path.Base(f.Name) == lib || f.SOName == lib {
			return f
		}
	}
	return nil
}

// highest names the first file that needs the version of a family, and because the
// symbols for which it does.
func (h *held) highest(family, version string) string {
	for _, f := range h.files {
		if f.Versions[family] == version {
			return f.Name
		}
	}
	return ""
}

func (h *held) because(family, version string) string {
	for _, f := range h.files {
		if names := f.VersionsBy[family]; f.Versions[family] == version && len(names) > 0 {
			return " for " + strings.Join(names[:min(len(names), 3)], ", ")
		}
	}
	return ""
}

// symbols looks for symbols that a file imports and that neither the bundle nor a library
// of this machine gives it; those of a version in gone are left out, as that is said
// already. Where a library is missing altogether, that is said instead: of a backend that a program does without
// nothing more is said, and of what else needs it, nothing at all.
func (r *Report) symbols(h *held, libs *binary.Libraries, gone map[string]bool) error {
	given, named := map[binary.Symbol]bool{}, map[string]bool{}
	give := func(f *binary.File) {
		for _, s := range f.Exports() {
			given[s], named[s.Name] = true, true
		}
	}
	for _, f := range h.files {
		give(f)
	}
	queue := binary.Outside(h.files)
	needs := map[string][]string{} // of the libraries of this machine that are there
	for i := 0; i < len(queue); i++ {
		at := h.find(libs, queue[i])
		if at == "" {
			continue
		}
		f, err := binary.ReadLibrary(at)
		if err != nil {
			return err
		}
		give(f)
		needs[queue[i]] = append([]string{}, f.Needed...)
		h.folders(f.RunPath, filepath.Dir(at))
		for _, lib := range f.Needed {
			if !slices.Contains(queue, lib) {
				queue = append(queue, lib)
			}
		}
	}
	var whole []*binary.File // with all libraries
	hosted := map[string]bool{}
	for _, f := range h.own() {
		hosted[f.Host] = true
		if h.complete(f, needs) {
			whole = append(whole, f)
		} else if is, _ := h.plugin(f); !is {
			return nil
		}
	}
	for _, f := range whole {
		var lost []string
		hosts := map[string]int{} // functions by the program that gives them
		for _, s := range f.Imports() {
			there := given[s] || given[binary.Symbol{Name: s.Name}] || s.Version == "" && named[s.Name]
			if there || gone[s.Version] {
				continue
			}
			if host, ok := binary.FromHost(s.Name); ok && !f.Program() && hosted[strings.ToLower(host)] {
				hosts[host]++
				continue
			}
			lost = append(lost, s.String())
		}
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			r.ok("bundle", "%s is loaded by %s, which gives it %s of its own.", f.Name, host,
				count(hosts[host], "function", "functions"))
		}
		if len(lost) > 0 {
			more := ""
			if len(lost) > 3 {
				lost, more = lost[:3], " and more"
			}
			r.lacks("bundle", "", "%s imports %s%s, which no library that it needs has.", f.Name, strings.Join(lost, ", "), more)
		}
	}
	return nil
}

// complete reports whether all that a file needs is there, and what that needs, of the bundle and of this machine,
// whose libraries are the keys of needs.
func (h *held) complete(f *binary.File, needs map[string][]string) bool {
	queue, seen := slices.Clone(f.Needed), map[string]bool{}
	for i := 0; i < len(queue); i++ {
		if seen[queue[i]] {
			continue
		}
		seen[queue[i]] = true
		if g := h.called(queue[i]); g != nil {
			queue = append(queue, g.Needed...)
		} else if more, there := needs[queue[i]]; there {
			queue = append(queue, more...)
		} else {
			return false
		}
	}
	return true
}
