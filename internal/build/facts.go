package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Facts is what a plan needs to know of the machine that builds.
type Facts struct {
	OS        string              `json:"os"`         // GOOS
	Arch      string              `json:"arch"`       // GOARCH
	Cores     int                 `json:"cores"`      // that this process may use
	MemoryMiB int64               `json:"memory_mib"` // that is free, 0: not known
	Tools     map[string]ToolFact `json:"tools"`      // by role, as in a toolchain's programs
	Headers   map[string]bool     `json:"headers"`    // those of the recipe's optional features, found or not
	CUDA      CUDAFact            `json:"cuda,omitzero"`
	HIP       HIPFact             `json:"hip,omitzero"`
	Library   LibraryFact         `json:"library,omitzero"`
	Launcher  string              `json:"launcher"`       // absolute path of ccache or sccache, or empty
	Root      *RootFact           `json:"root,omitempty"` // nil: the machine itself
	Remote    *RemoteFact         `json:"host,omitempty"` // nil: this machine
	Env       map[string]string   `json:"env"`            // HOME and what the toolchain inherits, where set
}

// ToolFact is a program that was found.
type ToolFact struct {
	Path    string `json:"path"`
	Version string `json:"version"` // such as 3.25.1
	Banner  string `json:"banner"`  // the first line of --version
}

// CUDAFact is the toolkit of the nvcc that was found, tried with the recipe's archs.
type CUDAFact struct {
	Version string   `json:"version"`        // of the compiler and the headers: 11.8
	Root    string   `json:"root"`           // the folder that holds its include
	Libs    []string `json:"libs"`           // folders of its libraries, the stubs' last
	Archs   []string `json:"archs"`          // what it makes machine code for: sm_86
	ObjTemp bool     `json:"objtemp"`        // nvcc has --objdir-as-tempdir
	Seed    bool     `json:"seed,omitempty"` // nvcc has --frandom-seed
}

// HIPFact is the ROCm of the hipcc that was found, tried with the recipe's targets.
type HIPFact struct {
	Version   string   `json:"version"`          // of HIP, as hipcc and the headers say: 6.4
	Root      string   `json:"root"`             // ROCM_PATH: /usr, /opt/rocm
	Clang     string   `json:"clang"`            // the clang++ that compiles HIP
	Compiler  string   `json:"compiler"`         // its version: 21.1.8
	DeviceLib string   `json:"device_lib"`       // the folder of the device library's bitcode
	Libs      []string `json:"libs"`             // folders of libamdhip64, libhipblas and librocblas
	System    string   `json:"system,omitempty"` // whose system it is, as ID of os-release has it: debian
}

// LibraryFact is the library of the toolchain's buildenv, in a folder laid out as
// lib and include.
type LibraryFact struct {
	Name   string `json:"name"`   // with its version: OpenSSL 3.5.5
	Header string `json:"header"` // what a recipe's optional feature looks for
	Dir    string `json:"dir"`    // where it lies; empty: it is not there
	Why    string `json:"why"`    // it is not there
}

// MissingTools says which programs a toolchain needs and a machine lacks.
type MissingTools struct {
	Toolchain string
	Remote    string // the other machine that lacks them, as ssh takes it; empty: this one
	Tools     []MissingTool
}

// MissingTool is one of them.
type MissingTool struct {
	Role   string
	Names  []string
	Debian string // the package that brings it, or empty
	Why    string // not there, or too old
	Hint   string // other ways to get it, or empty
}

// Error names every program and the command that installs them on Debian.
func (e *MissingTools) Error() string {
	var b strings.Builder
	where := "this machine"
	if e.Remote != "" {
		where = "ssh:" + e.Remote
	}
	fmt.Fprintf(&b, "toolchain %s: %s lacks what it needs", e.Toolchain, where)
	var packages []string
	for _, t := range e.Tools {
		fmt.Fprintf(&b, "\n  %s: %s", strings.Join(t.Names, " or "), t.Why)
		if t.Debian != "" {
			fmt.Fprintf(&b, " (Debian package %s)", t.Debian)
			packages = append(packages, t.Debian)
		}
		if t.Hint != "" {
			b.WriteString("; " + t.Hint)
		}
	}
	if len(packages) > 0 {
		slices.Sort(packages)
		fmt.Fprintf(&b, "\n  on Debian and Ubuntu: sudo apt-get install -y %s", strings.Join(slices.Compact(packages), " "))
	}
	return b.String()
}

// ExitCode is exit.Build.
func (e *MissingTools) ExitCode() int { return exit.Build }

// Hint names the build root that has a compiler of NVIDIA's or AMD's. What no package of
// Debian's brings is not in a root of them either.
func (e *MissingTools) Hint() string {
	if e.Remote != "" {
		return ""
	}
	for _, t := range e.Tools {
		if env := map[string]string{"nvcc": "cuda-11.8", "hipcc": "rocm"}[t.Role]; env != "" && t.Debian != "" {
			return fmt.Sprintf("llpatch env create %s makes a root that has it, and --env %[1]s builds in that", env)
		}
	}
	return ""
}
