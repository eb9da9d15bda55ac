package build

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// Fault is a declaration that no plan can be made of on this machine. Key is
// the place in the file as spec.ErrorAt takes it.
type Fault struct {
	File, Key string
	Msg       string
}

// Error returns the file and the cause.
func (e *Fault) Error() string { return e.File + ": " + e.Msg }

func toolchainFault(tc spec.Toolchain, key, format string, args ...any) *Fault {
	return &Fault{File: "toolchains/" + tc.Name + ".toml", Key: key, Msg: fmt.Sprintf(format, args...)}
}

// checkMachine refuses a toolchain that is for another kind of machine.
func checkMachine(tc spec.Toolchain, f Facts) error {
	if tc.OS == f.OS && tc.Arch == f.Arch {
		return nil
	}
	key := "os"
	if tc.OS == f.OS {
		key = "arch"
	}
	return toolchainFault(tc, key, "it runs on %s/%s, and this machine is %s/%s", tc.OS, tc.Arch, f.OS, f.Arch)
}

// BadFolder is a folder whose name a build would misread.
type BadFolder struct {
	Dir string
	Why string
}

// Error names the folder and what is wrong with it.
func (e *BadFolder) Error() string { return fmt.Sprintf("folder %q %s", e.Dir, e.Why) }

// ExitCode is exit.Usage.
func (e *BadFolder) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *BadFolder) Hint() string { return "--out DIR takes another folder" }

// CheckFolder returns a *BadFolder where a compiler's -ffile-prefix-map, CMake's
// lists or Ninja's rules would take the name of a folder apart.
func CheckFolder(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return &BadFolder{dir, "is not an absolute, clean path"}
	}
	dir = filepath.ToSlash(dir) // on Windows the backslash only separates
	if i := strings.IndexAny(dir, "=;\"'`$\\#&|<>()*?[]!\n\r\t"); i >= 0 {
		return &BadFolder{dir, fmt.Sprintf("holds %q, which CMake or a compiler would misread; choose another folder",
			dir[i])}
	}
	return nil
}

// NoPage is a source without files that the tag cannot be built without.
type NoPage struct{ Path string }

// Error names the files.
func (e *NoPage) Error() string {
	return fmt.Sprintf("the source lacks %s, and before b%d llama-server cannot be built without it; take another source",
		e.Path, pageOptionFrom)
}

// Existing is the folder itself, or the nearest one above it that is there.
func Existing(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// ExitCode is exit.Source.
func (e *NoPage) ExitCode() int { return exit.Source }
