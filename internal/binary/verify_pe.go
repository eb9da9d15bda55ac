package binary

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// Lacking says what Windows files need that a system does not have.
type Lacking struct{ Windows7 *Windows7 }

// maxNamed bounds how many missing imports one message names.
const maxNamed = 12

// Error counts what is missing and names it, in one line.
func (l *Lacking) Error() string {
	w := l.Windows7
	var names, parts []string
	functions, dlls := 0, 0
	for _, i := range w.Missing {
		if i.Function == "" {
			dlls++
		} else {
			functions++
		}
		names = append(names, cmp.Or(i.Function, i.DLL))
	}
	if n := len(names) - maxNamed; n > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", n))
	}
	if len(names) > 0 {
		var what []string
		if functions > 0 {
			what = append(what, amount(functions, "function"))
		}
		if dlls > 0 {
			what = append(what, amount(dlls, "DLL"))
		}
		parts = append(parts, fmt.Sprintf("missing on %s: %s: %s", SystemName(w.OS), strings.Join(what, " and "),
			strings.Join(names, ", ")))
	}
	for _, f := range w.Files {
		for _, fault := range f.Faults {
			parts = append(parts, f.File+" "+fault)
		}
	}
	return strings.Join(parts, "; ")
}

// ExitCode is exit.Build.
func (l *Lacking) ExitCode() int { return exit.Build }

// amount is a number with a word, such as 1 DLL or 2 DLLs.
func amount(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// nvidiaRE are the DLLs of CUDA's runtime and cuBLAS, which the user gets from NVIDIA.
var nvidiaRE = regexp.MustCompile(`(?i)^(cudart|cublas(lt)?)64_[0-9]+\.dll$`)

// Hint says what helps, or nothing.
func (l *Lacking) Hint() string {
	if !slices.ContainsFunc(l.Windows7.Missing, func(i Import) bool {
		return i.Function != "" || !nvidiaRE.MatchString(i.DLL)
	}) && len(l.Windows7.Missing) > 0 {
		return "they are of NVIDIA's CUDA toolkit: beside the programs they are looked at too; README-WIN7.txt of a " +
			"bundle says where they come from"
	}
	if l.Windows7.OS == spec.Win7 && slices.ContainsFunc(l.Windows7.Missing, func(i Import) bool {
		return i.Standing == ByVxKex
	}) {
		return "--os " + spec.Win7VxKex + " takes what VxKex NEXT brings for granted"
	}
	return ""
}

// SystemName is what a system, spec.Win7 or spec.Win7VxKex, is called in messages.
func SystemName(os string) string {
	if os == spec.Win7VxKex {
		return "Windows 7 SP1 with VxKex NEXT"
	}
	return "Windows 7 SP1"
}

// Fault says of an import in w.Missing what it is and why it is missing.
func (w *Windows7) Fault(i Import) string {
	what := "needs " + i.DLL
	if i.Function != "" {
		what = fmt.Sprintf("needs %s of %s", i.Function, i.DLL)
	}
	if i.Delayed {
		what += " when it is called (delay-loaded)"
	}
	switch {
	case i.Standing == ByVxKex:
		return fmt.Sprintf("%s, which %s does not have; VxKex NEXT has it in %s", what, SystemName(w.OS), i.By)
	case i.Function == "" && i.Why != "":
		return fmt.Sprintf("%s, which is not there: %s", what, i.Why)
	case i.Function == "":
		return fmt.Sprintf("%s, which is neither beside it nor part of %s", what, SystemName(w.OS))
	case i.Why != "":
		return fmt.Sprintf("%s, which is missing: %s", what, i.Why)
	}
	return fmt.Sprintf("%s, which %s does not have", what, SystemName(w.OS))
}

// verifyPE checks the Windows files of a bundle against a recipe's [verify.pe].
func verifyPE(files []*File, v spec.Verify) []error {
	var errs []error
	reject := func(file, format string, args ...any) {
		errs = append(errs, &Rejected{File: file, Fault: fmt.Sprintf(format, args...)})
	}
	w := JudgeWindows7(files, v.PE.OS)
	if len(w.Files) == 0 {
		return []error{&Rejected{File: "the bundle", Fault: "holds no Windows program or library, for which verify.pe asks"}}
	}
	for _, f := range files {
		if f.PE != nil && v.Machine != "" && f.Machine != v.Machine {
			reject(f.Name, "is for %s, not for %s", f.Machine, v.Machine)
		}
	}
	for _, i := range w.Missing {
		if i.Function == "" && allowed(i.DLL, v.Needed) {
			continue
		}
		for _, f := range i.NeededBy {
			reject(f, "%s", w.Fault(i))
		}
	}
	for _, f := range w.Files {
		for _, fault := range f.Faults {
			reject(f.File, "%s", fault)
		}
		var said []string // one fault is enough for each DLL and update
		for _, i := range f.Imports {
			switch {
			case allowed(i.DLL, v.Needed) || slices.Contains(said, i.DLL+i.By):
			case i.Standing == Unknown:
				reject(f.File, "needs %s of %s, and llpatch cannot tell whether Windows 7 has that (%s); name the DLL in "+
					"verify.needed if it may be needed", i.Function, i.DLL, i.Why)
			case i.Standing == ByDriver:
				reject(f.File, "needs %s, which a graphics driver brings; name it in verify.needed if it may be needed", i.DLL)
			case i.Standing == ByUpdate && !slices.Contains(v.PE.Updates, i.By):
				reject(f.File, "needs %s of %s, which Windows 7 SP1 has with %s only; name that in verify.pe.updates if the "+
					"user is told to install it", i.Function, i.DLL, i.By)
			default:
				continue
			}
			said = append(said, i.DLL+i.By)
		}
	}
	for _, same := range w.Copies {
		reject(same[0], "is in the bundle more than once: %s; the loader takes the one beside the program",
			strings.Join(same, ", "))
	}
	return errs
}

// allowed reports whether a DLL's name matches a pattern, in upper and lower case alike.
func allowed(dll string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(g string) bool {
		ok, err := path.Match(strings.ToLower(g), strings.ToLower(dll))
		return err == nil && ok
	})
}

// ErrNoPE is returned where there is no Windows file among those that were named.
var ErrNoPE = errors.New("no Windows program or library")
