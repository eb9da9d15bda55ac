package binary

import (
	"cmp"
	"debug/pe"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// Standing says where an imported function, or a DLL, comes from.
type Standing string

// Standings, and what By is for each.
const (
	InBundle   Standing = "bundle"   // the file that has it
	OnWindows7 Standing = "windows7" // a bare Windows 7 SP1 x64
	ByUpdate   Standing = "update"   // the update that brings it to Windows 7 SP1
	ByVxKex    Standing = "vxkex"    // the DLL of VxKex NEXT that serves it; Windows 7 itself does not have it
	ByDriver   Standing = "driver"   // the graphics driver brings it
	Unknown    Standing = "unknown"  // the tables do not tell
	Missing    Standing = "missing"
)

// Import is a function that files need, or, with an empty Function, a DLL.
type Import struct {
	DLL      string   `json:"dll"`
	Function string   `json:"function,omitempty"` // #N for an ordinal
	Delayed  bool     `json:"delayed,omitempty"`  // needed when it is called, not at the start
	Standing Standing `json:"standing"`
	By       string   `json:"by,omitempty"`
	Why      string   `json:"why,omitempty"`
	NeededBy []string `json:"needed_by,omitempty"`
}

// JudgedFile is a file of a bundle and where each function comes from that it imports.
type JudgedFile struct {
	File      string           `json:"file"`
	Standings map[Standing]int `json:"standings,omitempty"` // how many functions
	Faults    []string         `json:"faults,omitempty"`    // for which Windows 7 does not load it at all
	Imports   []Import         `json:"imports,omitempty"`
}

// Windows7 is what Windows files need, together, on a Windows 7 SP1 x64.
type Windows7 struct {
	OS      string       `json:"os"` // spec.Win7, or spec.Win7VxKex for one with VxKex NEXT
	Files   []JudgedFile `json:"files"`
	DLLs    []Import     `json:"dlls"`    // every DLL that they need, by name
	Missing []Import     `json:"missing"` // functions and whole DLLs that OS does not have, and who needs them
	Updates []string     `json:"updates"` // updates of Windows 7 that they need
	Copies  [][]string   `json:"copies"`  // DLLs of one name, of which the loader takes one
}

// amd64 is the machine whose Windows the tables are of.
var amd64 = machines[pe.IMAGE_FILE_MACHINE_AMD64]

// judge holds the files of a bundle while they are judged.
type judge struct {
	*windows7
	vxkexOn bool
	byDir   map[string]map[string]*File // by folder and name in lower case
	byName  map[string][]*File
}

// JudgeWindows7 says where each function comes from that files import: each other, by
// the folders in their names, Windows 7 SP1 x64, or VxKex NEXT. Files that are no PE
// files are passed over. os is spec.Win7 or spec.Win7VxKex, which decides what is missing.
func JudgeWindows7(files []*File, os string) *Windows7 {
	j := &judge{
		windows7: loadWindows7(), vxkexOn: os == spec.Win7VxKex, byDir: map[string]map[string]*File{},
		byName: map[string][]*File{},
	}
	for _, f := range files {
		if f.PE == nil {
			continue
		}
		dir, base := path.Split(f.Name)
		if j.byDir[dir] == nil {
			j.byDir[dir] = map[string]*File{}
		}
		base = strings.ToLower(base)
		j.byDir[dir][base] = f
		j.byName[base] = append(j.byName[base], f)
	}
	w := &Windows7{
		OS: os, Files: []JudgedFile{}, DLLs: []Import{}, Missing: []Import{}, Updates: []string{},
		Copies: [][]string{},
	}
	missing, dlls := map[[2]string]*Import{}, map[string]*Import{}
	for _, f := range files {
		if f.PE == nil {
			continue
		}
		out := JudgedFile{File: f.Name, Standings: map[Standing]int{}, Faults: j.faults(f)}
		for _, d := range f.PE.Imports {
			lib := j.library(f, d)
			note(dlls, dllName(d.DLL), lib, f.Name)
			if lib.Standing == Missing {
				note(missing, [2]string{dllName(d.DLL)}, lib, f.Name)
			}
			for _, name := range d.Functions {
				i := Import{DLL: d.DLL, Function: name, Delayed: d.Delayed, Standing: Missing}
				if lib.Standing != Missing {
					i.Standing, i.By, i.Why = j.function(f, d.DLL, name, 0)
				}
				if lib.Standing != Missing && w.lacks(i) {
					note(missing, [2]string{dllName(d.DLL), name}, i, f.Name)
				}
				if i.Standing == ByUpdate && !slices.Contains(w.Updates, i.By) {
					w.Updates = append(w.Updates, i.By)
				}
				out.Standings[i.Standing]++
				out.Imports = append(out.Imports, i)
			}
		}
		w.Files = append(w.Files, out)
	}
	order := func(a, b Import) int {
		return cmp.Or(cmp.Compare(dllName(a.DLL), dllName(b.DLL)), cmp.Compare(a.Function, b.Function))
	}
	for _, i := range missing {
		w.Missing = append(w.Missing, *i)
	}
	for _, i := range dlls {
		w.DLLs = append(w.DLLs, *i)
	}
	slices.SortFunc(w.Missing, order)
	slices.SortFunc(w.DLLs, order)
	slices.Sort(w.Updates)
	for _, base := range slices.Sorted(maps.Keys(j.byName)) {
		if same := j.byName[base]; len(same) > 1 {
			var names []string
			for _, f := range same {
				names = append(names, f.Name)
			}
			w.Copies = append(w.Copies, names)
		}
	}
	return w
}

// note adds who needs an import to a list, once.
func note[K comparable](list map[K]*Import, key K, i Import, file string) {
	have := list[key]
	if have == nil {
		list[key] = &i
		have = &i
	}
	have.Delayed = have.Delayed && i.Delayed
	if !slices.Contains(have.NeededBy, file) {
		have.NeededBy = append(have.NeededBy, file)
	}
}

// lacks reports whether the system that the files are for does not have an import.
func (w *Windows7) lacks(i Import) bool {
	return i.Standing == Missing || i.Standing == ByVxKex && w.OS != spec.Win7VxKex
}

// Faulty reports whether something is missing, or a file cannot be loaded.
func (w *Windows7) Faulty() bool {
	return len(w.Missing) > 0 || slices.ContainsFunc(w.Files, func(f JudgedFile) bool { return len(f.Faults) > 0 })
}

// faults says why Windows 7 x64 would not load a file, whatever it imports.
func (j *judge) faults(f *File) []string {
	var faults []string
	if f.Machine != amd64 && f.Machine != machines[pe.IMAGE_FILE_MACHINE_I386] {
		faults = append(faults, fmt.Sprintf("is for %s, which Windows 7 x64 does not run",
			strings.TrimPrefix(f.Machine, "IMAGE_FILE_MACHINE_")))
	}
	// CreateProcess looks at it; the loader of DLLs does not.
	if f.PE.Kind == "program" && Less("6.1", f.PE.SubsystemVersion) {
		faults = append(faults, fmt.Sprintf("asks for Windows %s (its subsystem version); Windows 7 is 6.1",
			f.PE.SubsystemVersion))
	}
	if slices.Contains(f.PE.Characteristics, "APPCONTAINER") {
		faults = append(faults, "runs in an AppContainer only, which Windows 7 does not have")
	}
	return faults
}

// sibling returns the file of the bundle that the loader takes for a DLL: nil where it
// takes one of Windows or VxKex. A DLL in the folder of the file that needs it is
// preferred; one elsewhere in the bundle is taken to be where the loader looks.
func (j *judge) sibling(from *File, dll string) *File {
	name := dllName(dll)
	if target := j.redirects[contract(name)]; j.vxkexOn && target != "" {
		if j.names[target] != "" {
			return nil
		}
		dll, name = target, target // ucrtbase, say, for one of its API sets
	}
	if _, isSet := apiSets[name]; isSet || known[name] {
		return nil
	}
	base := strings.ToLower(dll)
	if !strings.Contains(base, ".") {
		base += ".dll"
	}
	dir, _ := path.Split(from.Name)
	if f := j.byDir[dir][base]; f != nil {
		return f
	}
	if same := j.byName[base]; len(same) > 0 {
		return same[0]
	}
	return nil
}

// vcRuntime are the DLLs of Visual C++ that its redistributable brings.
var vcRuntime = set("concrt140 msvcp140 msvcp140_1 msvcp140_2 msvcp140_atomic_wait msvcp140_codecvt_ids vcomp140 " +
	"vccorlib140 vcruntime140 vcruntime140_1 vcruntime140_threads")

// library says where a DLL comes from.
func (j *judge) library(f *File, d ImportedDLL) Import {
	i := Import{DLL: d.DLL, Delayed: d.Delayed}
	name := dllName(d.DLL)
	_, isSet := apiSets[name]
	target := j.redirects[contract(name)]
	in := j.sibling(f, d.DLL)
	switch {
	case in != nil && in.Machine != f.Machine:
		i.Standing, i.Why = Missing, fmt.Sprintf("%s is for %s", in.Name,
			strings.TrimPrefix(in.Machine, "IMAGE_FILE_MACHINE_"))
	case in != nil:
		i.Standing, i.By = InBundle, in.Name
	case drivers[name]:
		i.Standing = ByDriver
	case isCRT(name):
		i.Standing, i.By = ByUpdate, kbCRT
	case j.stock[name] != nil || isSet:
		i.Standing = OnWindows7
	case present[name]:
		i.Standing, i.Why = OnWindows7, "llpatch has no list of its functions"
	case target != "":
		i.Standing, i.By = ByVxKex, cmp.Or(j.names[target], target)
	case vcRuntime[name]:
		i.Standing, i.Why = Missing, "the Visual C++ 2015-2022 redistributable brings it"
	default:
		i.Standing = Missing
	}
	return i
}

// kbCRT is the update that brings the Universal C Runtime to Windows 7: Microsoft's
// "Universal CRT deployment".
const kbCRT = "KB2999226"

func isCRT(name string) bool { return name == "ucrtbase" || strings.HasPrefix(name, "api-ms-win-crt-") }

// maxForwards bounds a chain of forwarded exports, which may lead back to itself.
const maxForwards = 8

// function says where a function comes from, and what is to be known of that.
func (j *judge) function(from *File, dll, name string, depth int) (s Standing, by, why string) {
	if depth > maxForwards {
		return Missing, "", "it is forwarded in a circle"
	}
	if in := j.sibling(from, dll); in != nil {
		to, there := in.PE.exports[name]
		switch {
		case !there:
			return Missing, "", in.Name + " does not export it"
		case to == "":
			return InBundle, in.Name, ""
		}
		dot := strings.LastIndexByte(to, '.')
		s, by, why = j.function(in, to[:dot], to[dot+1:], depth+1)
		if depth == 0 {
			why = strings.TrimSuffix(fmt.Sprintf("%s forwards it to %s: %s", in.Name, to, why), ": ")
		}
		return s, by, why
	}
	if from.Machine != amd64 {
		return Unknown, "", "the tables are of 64-bit Windows"
	}
	return j.system(dllName(dll), name)
}

// system says which part of Windows 7 or VxKex NEXT has a function of a DLL that is
// not in the bundle.
func (j *judge) system(dll, name string) (s Standing, by, why string) {
	if drivers[dll] {
		return ByDriver, "", ""
	}
	s, by, why = j.windows(dll, name)
	target := j.redirects[contract(dll)]
	kex := j.names[target]
	switch {
	case target == "":
		return s, by, why
	case kex == "": // VxKex sends it to another DLL of Windows
		if s == Missing || s == Unknown && !isCRT(dll) {
			if s, by, why = j.windows(target, name); s == OnWindows7 {
				s, by = ByVxKex, target
			}
		}
		return s, by, why
	case j.vxkex[target][name]:
		if s == Missing || j.vxkexOn && s != OnWindows7 {
			return ByVxKex, kex, ""
		}
		return s, by, why
	case !j.vxkexOn:
		return s, by, why
	case strings.HasPrefix(name, "#"):
		return Unknown, "", kex + " may have another function under that ordinal"
	}
	return Missing, "", fmt.Sprintf("VxKex NEXT takes %s in place of %s, and it does not have it", kex, dll)
}

// windows says whether a bare Windows 7 SP1 has a function.
func (j *judge) windows(dll, name string) (s Standing, by, why string) {
	hosts := []string{dll}
	switch host := apiSets[dll]; {
	case isCRT(dll):
		return ByUpdate, kbCRT, "its functions are not in the table"
	case host == "kernelbase": // which has what kernel32 and advapi32 hand on to it
		hosts = []string{"kernelbase", "kernel32", "advapi32"}
	case host == "sechost":
		hosts = []string{"sechost", "advapi32"}
	case host != "":
		hosts = []string{host}
	case present[dll] && j.stock[dll] == nil:
		return Unknown, "", "llpatch has no list of this DLL's functions"
	case j.stock[dll] == nil:
		return Missing, "", ""
	}
	for _, h := range hosts {
		if update, ok := j.stock[h][name]; ok && update != "" {
			return ByUpdate, update, ""
		} else if ok {
			return OnWindows7, "", ""
		}
	}
	switch {
	case partly[dll]:
		return Unknown, "", "llpatch has only a part of this DLL's functions"
	case strings.HasPrefix(name, "#"):
		return Unknown, "", "llpatch does not know this ordinal"
	}
	return Missing, "", ""
}
