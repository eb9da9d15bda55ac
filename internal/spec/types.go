package spec

import (
	"time"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/tag"
)

// Upstreams that a fix, a recipe and a lock entry may name. Build numbers
// never cross from one to another.
const (
	LlamaCpp   = "llama.cpp"
	IkLlamaCpp = "ik_llama.cpp"
)

// Fix is a folder under patches/: one defect, its reason, its proof, and one
// patch file per range of tags.
type Fix struct {
	ID       string   `toml:"-" json:"id"`
	Summary  string   `toml:"summary" json:"summary"`
	Why      string   `toml:"why" json:"why"`
	Reports  []string `toml:"reports" json:"reports,omitempty"`
	Status   string   `toml:"status" json:"status"` // ours, submitted or upstream
	Requires []string `toml:"requires" json:"requires,omitempty"`
	Backends []string `toml:"backends" json:"backends,omitempty"` // empty: any backend
	// as in a recipe's os: chosen for no other; empty: any
	OS    []string `toml:"os" json:"os,omitempty"`
	OptIn bool     `toml:"opt-in" json:"opt_in,omitempty"` // no recipe takes it: --with does
	Group string   `toml:"group" json:"group,omitempty"`   // Security, or empty; --without leaves a group out
	// advisories that the tree no longer has with it, alone or with what it requires
	Cures      []string `toml:"cures" json:"cures,omitempty"`
	components []string // of those
	Proof      string   `toml:"proof" json:"proof"` // a check that fails without the fix, or "build"
	// why there is no check, where Proof is "build": a sentence
	Unproven string `toml:"unproven" json:"unproven,omitempty"`
	// of its variants that name none; empty in the file: llama.cpp
	Upstream string    `toml:"upstream" json:"upstream"`
	Defects  []Defect  `toml:"defect" json:"defects,omitempty"` // at most one for each upstream
	Variants []Variant `toml:"variant" json:"variants"`
}

// Variant is one patch file of a fix and the build numbers that it is for.
// Either Patch or Commit is set.
type Variant struct {
	Upstream string    `toml:"upstream" json:"upstream"` // whose build numbers Range holds; empty in the file: the fix's
	Range    tag.Range `toml:"range" json:"range"`
	Patch    string    `toml:"patch" json:"patch,omitempty"`   // file beside fix.toml
	Commit   string    `toml:"commit" json:"commit,omitempty"` // upstream commit, taken from its history
	// paths of Commit that are left alone: files, or folders that end in /
	Except []string `toml:"except" json:"except,omitempty"`
	Why    string   `toml:"why" json:"why,omitempty"` // why the range ends where it does
}

// Recipe declares a target: what is built from a tag, how it is checked, and
// what goes into the bundle.
type Recipe struct {
	Name     string    `toml:"-" json:"name"`
	Summary  string    `toml:"summary" json:"summary"`
	Upstream string    `toml:"upstream" json:"upstream"` // empty in the file: llama.cpp
	Range    tag.Range `toml:"range" json:"range"`       // tags that the recipe can build
	// toolchain of a Windows machine that builds the target too; empty: none does
	Box        string   `toml:"box" json:"box,omitempty"`
	Toolchain  string   `toml:"toolchain" json:"toolchain"`
	OS         string   `toml:"os" json:"os"`           // as in the bundle's name: linux, win7
	Backend    string   `toml:"backend" json:"backend"` // as in the bundle's name: cpu, cuda-11.4
	Arch       string   `toml:"arch" json:"arch"`       // as in the bundle's name: x64
	Backends   []string `toml:"backends" json:"backends"`
	FixesValue any      `toml:"fixes" json:"-"` // as written; Fixes is what it means
	Fixes      FixList  `toml:"-" json:"fixes"`
	// fix -> why the tree does not get it, where fixes is "all"
	Without Reasons  `toml:"without" json:"without,omitempty"`
	With    []string `toml:"-" json:"with,omitempty"` // fixes that were asked for, as Repo.Ask has it
	// groups of fixes that are left out, as Repo.LeaveOut has it
	Groups []string `toml:"-" json:"without_groups,omitempty"`
	// fix -> why its commit is not at hand, once that was tried
	Lacks    Reasons  `toml:"-" json:"-"`
	Programs []string `toml:"programs" json:"programs"` // CMake targets to build
	// target whose stock build takes this one's backend as a drop-in
	DropInTarget string     `toml:"host" json:"host,omitempty"`
	Exclude      []string   `toml:"exclude" json:"exclude"` // paths of the tree that no build step reads
	CMake        Options    `toml:"cmake" json:"cmake"`
	CMakeFor     []CMakeFor `toml:"cmake-for" json:"cmake_for,omitempty"`
	// those of all recipes of the upstream, in recipes/sources.toml
	Shared    []CMakeFor `toml:"-" json:"shared,omitempty"`
	CUDAFlags []string   `toml:"cuda-flags" json:"cuda_flags,omitempty"` // for what compiles CUDA, beside the toolchain's
	HIPFlags  []string   `toml:"hip-flags" json:"hip_flags,omitempty"`   // for what compiles HIP
	Optional  []Optional `toml:"optional" json:"optional,omitempty"`
	Verify    Verify     `toml:"verify" json:"verify"`
	Smoke     []Check    `toml:"smoke" json:"smoke"`
	// the version of Windows as which wine runs the checks; empty: this machine runs them itself
	Wine    string `toml:"wine" json:"wine,omitempty"`
	Bundle  Bundle `toml:"bundle" json:"bundle"`
	DiskMiB int64  `toml:"disk-mib" json:"disk_mib,omitempty"` // room that a release takes below dist; 0: not known
	Cost    *Cost  `toml:"cost" json:"cost,omitempty"`         // what a build took elsewhere; nil: not known
}

// FixList is what a recipe's fixes key says: every fix, or named ones.
type FixList struct {
	All bool     `json:"all"`
	IDs []string `json:"ids,omitempty"`
}

// Reasons are sentences without an end, by what they are of.
type Reasons map[string]string

// Options are CMake cache entries: a bool becomes ON or OFF, a whole number its
// digits, a string stays itself, and a list is joined by semicolons. No value
// is ever read by a shell.
type Options map[string]any

// CMakeFor adds options for a range of build numbers, because upstream renames
// options and an option that CMake does not use is an error.
type CMakeFor struct {
	Range tag.Range `toml:"range" json:"range"`
	Set   Options   `toml:"set" json:"set"`
}

// Optional is a feature that is built where its header is there: Option is on
// when the toolchain's compiler finds Header, and off, said aloud, when not.
type Optional struct {
	Option string    `toml:"option" json:"option"`
	Header string    `toml:"header" json:"header"`
	Gives  string    `toml:"gives" json:"gives"`   // what the user gets, for the message
	Debian string    `toml:"debian" json:"debian"` // the package that has the header
	Range  tag.Range `toml:"range" json:"range"`   // zero: every tag
}

// Verify holds what the built binaries must look like.
type Verify struct {
	Machine string `toml:"machine" json:"machine"` // ELF or PE machine, such as EM_X86_64 or IMAGE_FILE_MACHINE_AMD64
	buildenv.Limits
	// libraries from outside the bundle that may be needed, with * and ?
	Needed []string `toml:"needed" json:"needed"`
	CUDA   *CUDA    `toml:"cuda" json:"cuda,omitempty"` // nil: nothing is asked
	HIP    *HIP     `toml:"hip" json:"hip,omitempty"`   // nil: nothing is asked
	PE     *PE      `toml:"pe" json:"pe,omitempty"`     // nil: Windows files are not looked at
}

// PE holds what Windows programs and libraries may need of the system. Every DLL that
// is not in the bundle must be one of Windows whose functions llpatch knows, or be
// named in Verify.Needed.
type PE struct {
	OS string `toml:"os" json:"os"` // Win7 or Win7VxKex
	// updates that the user is told to install, such as KB2533623
	Updates []string `toml:"updates" json:"updates,omitempty"`
}

// Linux is the system of most recipes; the other one is Win7.
const Linux = "linux"

// Systems that a PE file is judged for: Windows 7 SP1 x64, alone or with VxKex NEXT.
const (
	Win7      = "win7"
	Win7VxKex = "win7-vxkex"
)

// CUDA holds what the NVIDIA device code in built binaries must be. One of Archs,
// AtLeast and Toolkits is set.
type CUDA struct {
	// names of the files that hold it, with * and ?; each must be there
	Files []string `toml:"files" json:"files"`
	// machine code for exactly these, such as sm_86 or sm_120a
	Archs   []string `toml:"archs" json:"archs,omitempty"`
	AtLeast []string `toml:"at-least" json:"at_least,omitempty"` // for these and any others
	// PTX for exactly these, such as compute_86; empty: none; nil: any
	PTX []string `toml:"ptx" json:"ptx"`
	// the last arch that the users' drivers know, such as sm_86; empty: no limit
	Newest string `toml:"newest" json:"newest,omitempty"`

	Toolkits []Toolkit `toml:"toolkit" json:"toolkits,omitempty"` // archs by the version of nvcc, oldest first
}

// Cost is what a whole build of a recipe took, for machines that have no figure of their own.
type Cost struct {
	// of one processor, for one arch of device code or none
	Seconds     int64  `toml:"seconds" json:"seconds"`
	ArchSeconds int64  `toml:"arch-seconds" json:"arch_seconds,omitempty"` // for each further arch
	Machine     string `toml:"machine" json:"machine"`                     // that it was measured on, such as "2 cores"
}

// Toolkit holds the archs that a build with a CUDA toolkit is for.
type Toolkit struct {
	// the first version that it says, such as 11.8; the last one that fits counts
	From  string   `toml:"from" json:"from"`
	Archs []string `toml:"archs" json:"archs"` // machine code for exactly these
	PTX   []string `toml:"ptx" json:"ptx"`     // PTX for exactly these
}

// Check is a smoke check that a recipe asks for.
type Check struct {
	Name string `toml:"name" json:"name"` // which check, such as version, health, completion
	// host, sim or card; empty: host, or what the run is for
	Device string            `toml:"device" json:"device,omitempty"`
	Args   map[string]any    `toml:"args" json:"args,omitempty"`
	Env    map[string]string `toml:"env" json:"env,omitempty"`
}

// Devices that a smoke check can run on.
const (
	Host = "host" // the processor of this machine
	Sim  = "sim"  // the simulated device, which proves memory behaviour and nothing else
	Card = "card" // a real graphics card
)

// Bundle says what goes into the archive.
type Bundle struct {
	Format   string   `toml:"format" json:"format,omitempty"` // TarGz (also where it is empty) or Zip
	Files    []string `toml:"files" json:"files"`             // globs below the build folder
	Licenses []string `toml:"licenses" json:"licenses"`       // globs below the source tree
	// Thin (also where it is empty) or Full, unless --bundle says otherwise
	Runtime string `toml:"runtime" json:"runtime,omitempty"`
	// libraries of the toolkit that a full bundle holds, with * and ?
	Carry []string `toml:"carry" json:"carry,omitempty"`
	// script in recipes/ that looks at the user's machine: a .sh becomes check.sh, with the text of
	// those that it reads, a .cmd for Windows keeps its name; empty: none
	Check string `toml:"check" json:"check,omitempty"`
	// script in recipes/ that starts the server on Windows, a .cmd; empty: none
	Start string   `toml:"start" json:"start,omitempty"`
	Notes []string `toml:"notes" json:"notes,omitempty"` // what the bundle's README says besides, a paragraph each
	// Libraries is the buildenv that a full bundle's libraries come from; empty: where the
	// build found what it linked with, or the one that the build's own buildenv names.
	Libraries string `toml:"libraries" json:"libraries,omitempty"`
}

// Forms of the archive that a bundle is, as upstream has them: a tar.gz with one
// folder at its top, and for Windows a zip without.
const (
	TarGz = "tar.gz"
	Zip   = "zip"
)

// What a bundle holds of the toolkit that it was built with.
const (
	Thin = "thin" // nothing: the user's machine has its libraries
	Full = "full" // the libraries that Bundle.Carry names
)

// Toolchain declares compilers, the versions they must have, and the
// environment they run in.
type Toolchain struct {
	Name      string            `toml:"-" json:"name"`
	Summary   string            `toml:"summary" json:"summary"`
	OS        string            `toml:"os" json:"os"`               // GOOS of the machine that runs the compilers
	Arch      string            `toml:"arch" json:"arch"`           // GOARCH, likewise
	File      string            `toml:"file" json:"file,omitempty"` // CMake toolchain file beside it
	Programs  map[string]Tool   `toml:"program" json:"programs"`    // by role: cmake, ninja, cc, cxx
	Inherit   []string          `toml:"inherit" json:"inherit"`     // environment variables passed through
	Env       map[string]string `toml:"env" json:"env"`
	CFlags    []string          `toml:"cflags" json:"cflags"`                 // C and C++
	CUDAFlags []string          `toml:"cudaflags" json:"cudaflags,omitempty"` // CUDA, where clang compiles it
	LdFlags   []string          `toml:"ldflags" json:"ldflags"`               // programs and shared libraries
	CMake     Options           `toml:"cmake" json:"cmake"`
	JobMiB    int64             `toml:"job-mib" json:"job_mib"` // memory one compile job may take
	// the buildenv that is a library which the compilers do not find by themselves; empty: none
	Library string `toml:"library" json:"library,omitempty"`
	// VisualStudio is the one whose compilers these are, as it is sold, such as 2019, on a
	// Windows machine that llpatch does not look around on; 0: none.
	VisualStudio int `toml:"visual-studio" json:"visual_studio,omitempty"`
}

// Tool is a program that a toolchain runs: the first of Names that is on the
// PATH, or else in Dirs, and whose version is from Min to Max.
type Tool struct {
	Names []string `toml:"names" json:"names"`
	Min   string   `toml:"min" json:"min,omitempty"`
	Max   string   `toml:"max" json:"max,omitempty"` // as far as it is written: 13 takes every 13.x
	// with * and ?, newest first; a leading $NAME is the environment's
	Dirs   []string `toml:"dirs" json:"dirs,omitempty"`
	First  string   `toml:"first" json:"first,omitempty"`   // FirstDirs: Dirs come before the PATH; empty: after it
	Debian string   `toml:"debian" json:"debian,omitempty"` // the package that brings it
	Hint   string   `toml:"hint" json:"hint,omitempty"`     // other ways to get it
	For    string   `toml:"for" json:"for,omitempty"`       // ForSmoke: a build can do without; empty: it cannot
	// a build does without it where none of Names is there
	Optional bool `toml:"optional" json:"optional,omitempty"`
}

// FirstDirs is a program whose own folders come before the PATH.
const FirstDirs = "dirs"

// VisualStudios are those whose compilers a toolchain may name.
var VisualStudios = []int{2017, 2019, 2022}

// ForSmoke is a program that only smoke checks run.
const ForSmoke = "smoke"

// WineRole is the role of the program that runs a recipe's checks where it says wine.
const WineRole = "wine"

// Source is one transport that recipes/sources.toml lists.
type Source struct {
	Name     string            `toml:"name" json:"name"`
	Upstream string            `toml:"upstream" json:"upstream"`
	Kind     string            `toml:"kind" json:"kind"`           // git, bundle or archive
	URL      string            `toml:"url" json:"url,omitempty"`   // git: URL or path; bundle, archive: may hold {tag}
	NPM      string            `toml:"npm" json:"npm,omitempty"`   // bundle: the npm package that holds it
	File     string            `toml:"file" json:"file,omitempty"` // bundle: its path inside the package
	Tags     map[string]string `toml:"tags" json:"tags,omitempty"` // bundle: tag -> version of the package
}

// Pin is what recipes/tags.lock holds of a tag: its identity. Without Tree it only
// says the tag's number, and what else is known: the tree is pinned when it is
// first fetched.
type Pin struct {
	Commit string `json:"commit,omitempty"` // upstream's commit; empty where it is not known
	Tree   string `json:"tree,omitempty"`   // git tree id: what every transport must yield
	// build number: the commit count on master; with Max the lowest that it can be
	Build int       `json:"build"`
	Max   int       `json:"build_max,omitempty"` // the highest that it can be; 0: Build is the number
	Time  time.Time `json:"time,omitzero"`       // commit time: SOURCE_DATE_EPOCH of the build
	Note  string    `json:"note,omitempty"`
}

// Lock is recipes/tags.lock: upstream -> tag -> pin.
type Lock map[string]map[string]Pin

// Named returns the release that a commit is, where one pins it: of several the
// one named after its build, else the first by name. Every other tag is itself.
func (k Lock) Named(upstream string, t tag.Tag) tag.Tag {
	if t.Kind() != tag.Commit {
		return t
	}
	named := t
	for _, name := range sortedKeys(k[upstream]) {
		is, err := tag.Parse(name)
		if err == nil && k[upstream][name].Commit == t.String() && is.Kind() < named.Kind() {
			named = is
		}
	}
	return named
}
