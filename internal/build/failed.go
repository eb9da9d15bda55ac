package build

import (
	"fmt"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Kind says what made a build fail.
type Kind string

// The kinds of failure.
const (
	KindCompiler Kind = "compiler"        // the compiler refused a file
	KindLinker   Kind = "linker"          // the linker found no symbol or library
	KindMemory   Kind = "out of memory"   // the kernel or the compiler gave up for want of memory
	KindDisk     Kind = "disk full"       // nothing more could be written
	KindCMake    Kind = "cmake"           // CMake refused the tree or an option
	KindOption   Kind = "option"          // an option was not used, or did not take effect
	KindOutput   Kind = "missing program" // a program or backend was not built
	KindWindows  Kind = "windows"         // an object is compiled for another Windows than 7
	KindOther    Kind = "other"           // a command failed in a way that is not known here
)

// Failed says why a build failed; the command line exits with 5.
type Failed struct {
	Tag, Target string
	Step        string
	Kind        Kind
	Cause       string   // one line
	File        string   // the file it happened in, below the source where it lies there; or empty
	Line        int      // 0: not known
	Jobs        int      // how many ran at once; 0: not known
	Fixes       []string // ids of the fixes that change File
	Tail        []string // the last lines of what failed
	Log         string
	Err         error // the *run.Error beneath, or nil
}

// Error tells the file and the cause first, then the last lines and the log.
func (e *Failed) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "build %s %s: ", e.Tag, e.Target)
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Cause)
	switch e.Kind {
	case KindCompiler:
		b.WriteString(" (the compiler")
		switch len(e.Fixes) {
		case 0:
			b.WriteString("; no fix changes this file)")
		case 1:
			fmt.Fprintf(&b, "; the fix %s changes this file)", e.Fixes[0])
		default:
			fmt.Fprintf(&b, "; the fixes %s change this file)", strings.Join(e.Fixes, ", "))
		}
	case KindLinker:
		b.WriteString(" (the linker)")
	case KindMemory:
		b.WriteString(" (out of memory")
		if e.Jobs > 1 {
			fmt.Fprintf(&b, " with %d jobs at once; what they took is kept, so that the same command runs fewer now if one "+
				"took more than was known", e.Jobs)
		}
		b.WriteString("; free some, or raise job-mib in the toolchain)")
	case KindDisk:
		b.WriteString(" (the disk is full)")
	case KindCMake:
		b.WriteString(" (CMake)")
	}
	for _, l := range e.Tail {
		b.WriteString("\n  " + l)
	}
	if e.Log != "" {
		b.WriteString("\nlog: " + e.Log)
	}
	return b.String()
}

// ExitCode is exit.Build.
func (e *Failed) ExitCode() int { return exit.Build }

// Unwrap returns Err.
func (e *Failed) Unwrap() error { return e.Err }
