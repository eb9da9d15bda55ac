package build

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/page"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Input is everything that a plan depends on.
type Input struct {
	Tag       string              // as upstream writes it
	Build     int                 // build number
	BuildMax  int                 // not 0: it is known to be from Build to BuildMax only, and nothing is built
	Commit    string              // full upstream commit; empty where only the tree is known
	Time      time.Time           // of the tag's commit: SOURCE_DATE_EPOCH
	Tree      string              // git tree id of the patched tree
	Revision  int                 // the n of -llp<n>
	Series    []string            // ids of the fixes in the tree, in order
	Touched   map[string][]string // path in the tree -> ids of the fixes that change it
	Missing   []string            // paths of the tree that its source could not give
	Page      *Page               // the web page that is in the source, which the tree has not; nil: none
	NoPage    string              // why there is none, where it could be
	NoVersion bool                // the tree's CMake takes no build number and commit
	Only      []string            // CMake targets to make instead of the recipe's programs; the digest is the same
	Recipe    spec.Recipe
	Toolchain spec.Toolchain
	Facts     Facts
	Peaks     Peaks  // of earlier builds' jobs; zero: none is known
	Source    string // absolute path of the patched work tree
	Dir       string // absolute path of the build folder
}

// Plan is every command of a build, and what must be true when they have run.
type Plan struct {
	Upstream      string              `json:"upstream"`
	Tag           string              `json:"tag"`
	Target        string              `json:"target"`
	Build         int                 `json:"build"`
	VersionCommit string              `json:"version_commit"` // as --version prints it: 45cac7ca7-llp1
	Revision      int                 `json:"revision"`       // its n of -llp<n>
	Tree          string              `json:"tree"`
	Series        []string            `json:"series"`
	Touched       map[string][]string `json:"touched,omitempty"`
	Page          *Page               `json:"page,omitempty"`
	Source        string              `json:"source"`
	Dir           string              `json:"dir"`
	Steps         []Step              `json:"steps"` // configure, then build
	Options       []Option            `json:"options"`
	Programs      []string            `json:"programs"` // Ninja targets
	Backends      []string            `json:"backends"`
	Jobs          int                 `json:"jobs"`
	JobsWhy       string              `json:"jobs_why"`
	Cost          Cost                `json:"cost,omitzero"`
	Glibc         string              `json:"glibc,omitempty"`   // the newest that the result may need
	Windows       string              `json:"windows,omitempty"` // what every object must be for: win7; empty: Linux
	Off           []string            `json:"off"`               // features left out, each with its reason
	Inherited     []string            `json:"inherited"`         // names in the steps' environment that are this machine's
	Tools         map[string]ToolFact `json:"tools"`             // beside the digest, not in it
	CUDA          CUDAFact            `json:"cuda,omitzero"`
	HIP           HIPFact             `json:"hip,omitzero"`
	Library       LibraryFact         `json:"library,omitzero"` // likewise: what is linked in of the toolchain's own
	// the build root that the steps run in, where it is not this machine itself; likewise
	Root   *RootFact   `json:"root,omitempty"`
	Remote *RemoteFact `json:"host,omitempty"` // the machine that the steps run on, where it is not this one; likewise
	Box    *BoxFact    `json:"box,omitempty"`  // for a Windows machine whose tools the script finds; nil: for any other
	Digest string      `json:"digest"`         // sha256 of what decides the binaries, whatever the machine's paths
}

// Page is a web page in the source of a build.
type Page struct {
	page.Page
	Place spec.PagePlace `json:"place"`
	Env   []string       `json:"env"`  // what npm's build of it was told
	Time  time.Time      `json:"time"` // of its files
}

// sum is the hash of the page; empty: there is none.
func (p *Page) sum() string {
	if p == nil {
		return ""
	}
	return p.SHA256
}

// Step is one command.
type Step struct {
	Name string   `json:"name"` // configure or build
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // the whole environment, sorted KEY=VALUE
	Dir  string   `json:"dir"`
}

// Option is a CMake cache entry that is passed with -D.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// The steps' names.
const (
	Configure = "configure"
	Compile   = "build"
)

// NewPlan makes the plan. It looks at nothing but in. The digest is the same on
// every machine that compiles the same thing: paths, job count, compiler cache
// and revision do not enter it, and neither do the compilers' versions, which
// stand beside it in Tools.
func NewPlan(in Input) (Plan, error) {
	digest, err := in.Digest()
	var p Plan
	if err == nil {
		p, err = newPlan(in)
	}
	p.Digest = digest
	return p, err
}

// Digest is the Digest of the plan, which does not depend on the revision: what finds that.
func (in Input) Digest() (string, error) {
	err := in.check()
	var c Plan
	if err == nil {
		c, err = newPlan(canonical(in))
	}
	if err != nil {
		return "", fmt.Errorf("plan %s %s: %w", in.Tag, in.Recipe.Name, err)
	}
	return digest(c)
}

func newPlan(in Input) (Plan, error) {
	p := Plan{
		Upstream: cmp.Or(in.Recipe.Upstream, spec.LlamaCpp), Tag: in.Tag, Target: in.Recipe.Name, Build: in.Build,
		Tree: in.Tree, Series: in.Series, Touched: in.Touched, Page: in.Page,
		VersionCommit: versionCommit(in), Revision: in.Revision, Source: in.Source, Dir: in.Dir,
		Programs: in.Recipe.Programs, Backends: in.Recipe.Backends, Tools: in.Facts.Tools, CUDA: in.Facts.CUDA,
		HIP: in.Facts.HIP, Library: in.Facts.Library, Root: in.Facts.Root, Remote: in.Facts.Remote,
		Box: boxFact(in.Toolchain),
	}
	if in.Recipe.OS == spec.Win7 {
		p.Windows = in.Recipe.OS
	}
	if len(in.Only) > 0 {
		p.Programs = in.Only
	}
	p.Jobs, p.JobsWhy = jobs(in.Facts, in.Toolchain, in.Peaks)
	in.Source, in.Dir = p.source(), p.dir()
	opts := options{}
	if err := opts.collect(in, p.VersionCommit, &p.Off); err != nil {
		return Plan{}, err
	}
	p.Options = opts.sorted()
	env := planEnv(in.Facts, in.Toolchain, in.Time.Unix())
	if msvc(in.Toolchain) {
		env = boxEnv(in)
	}
	p.Inherited = slices.Sorted(maps.Keys(in.Facts.Env))
	configure := []string{in.Facts.Tools["cmake"].Path, "-G", "Ninja", "-S", in.Source, "-B", in.Dir}
	for _, o := range p.Options {
		configure = append(configure, "-D"+o.Name+"="+o.Value)
	}
	compile := append([]string{in.Facts.Tools["ninja"].Path, "-C", in.Dir, "-j", strconv.Itoa(p.Jobs)}, p.Programs...)
	p.Steps = []Step{
		{Name: Configure, Argv: configure, Env: env, Dir: in.Source},
		{Name: Compile, Argv: compile, Env: env, Dir: in.Source},
	}
	return p, nil
}

func (in Input) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if in.Revision < 0 || in.Build <= 0 {
		fail("build number %d or revision %d makes no sense", in.Build, in.Revision)
	}
	if len(in.Tree) < 9 || (in.Commit != "" && len(in.Commit) < 9) {
		fail("the tree id %q or the commit %q is too short", in.Tree, in.Commit)
	}
	if in.Time.IsZero() {
		fail("the time of the tag's commit is not known")
	}
	if in.BuildMax > 0 {
		fail("%s is known to be build %s only, and --version of what is built would have to print one; write its number "+
			"into recipes/tags.lock (the release's nightly-tag.txt names it)",
			in.Tag, spec.Number(in.Build, in.BuildMax))
	}
	if !in.Recipe.Range.IsZero() && !in.Recipe.Range.Contains(in.Build) {
		fail("recipe %s builds %s, and this is build %d", in.Recipe.Name, in.Recipe.Range, in.Build)
	}
	errs = append(errs, checkMachine(in.Toolchain, in.Facts))
	if in.Toolchain.File != "" {
		errs = append(errs, toolchainFault(in.Toolchain, "file",
			"it names the CMake toolchain file %s, which a plan cannot pass on yet", in.Toolchain.File))
	}
	for _, role := range []string{"cmake", "ninja", "cc"} {
		if in.Facts.Tools[role].Path == "" {
			errs = append(errs, toolchainFault(in.Toolchain, "program", "it brings no program %s", role))
		}
	}
	for _, dir := range []string{in.Source, in.Dir} {
		errs = append(errs, CheckFolder(dir))
	}
	return errors.Join(errs...)
}

// versionCommit is what LLAMA_BUILD_COMMIT becomes. Where upstream's commit is
// not known, the tree's digits stand for it, and say that they are a tree's.
func versionCommit(in Input) string {
	id := "tree-" + in.Tree[:9]
	if in.Commit != "" {
		id = in.Commit[:9]
	}
	return id + "-llp" + strconv.Itoa(in.Revision)
}

// planEnv is the environment of every step: nothing of the caller's but what
// the toolchain inherits.
func planEnv(f Facts, tc spec.Toolchain, epoch int64) []string {
	env := map[string]string{
		"LANG": "C", "LC_ALL": "C", "TZ": "UTC",
		"PATH": toolPath(f),
		// A build takes nothing from git: inside any repository llama.cpp would take
		// that one's commit. A ceiling would not do where the tree has a .git itself.
		"GIT_DIR":           "/dev/null",
		"NINJA_STATUS":      ninjaStatus,
		"SOURCE_DATE_EPOCH": strconv.FormatInt(epoch, 10),
	}
	if _, ok := f.Tools["nvcc"]; ok && f.Tools["clang"].Path == "" {
		// A script of nvcc's, and a CMake that asks nvcc what it is, take gcc
		// from the PATH where no one says another.
		env["CC"], env["CXX"] = f.Tools["cc"].Path, f.Tools["cxx"].Path
	}
	if f.HIP.Root != "" {
		// Upstream's CMake takes /opt/rocm where nobody says another; and a clang that is
		// told looks for the device library nowhere but there.
		env["ROCM_PATH"], env["HIP_DEVICE_LIB_PATH"], env["HIP_PLATFORM"] = f.HIP.Root, f.HIP.DeviceLib, "amd"
	}
	for k, v := range f.Env {
		env[k] = v
	}
	for k, v := range tc.Env {
		env[k] = v
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// toolPath holds the folders of the tools and the system's own, and not the
// caller's PATH: CMake also looks for libraries beside each folder of it.
func toolPath(f Facts) string {
	var dirs []string
	add := func(dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, role := range []string{"cmake", "ninja", "cc", "cxx", "rc", "nvcc", "hipcc"} {
		if t, ok := f.Tools[role]; ok {
			add(filepath.Dir(t.Path))
		}
	}
	add("/usr/bin")
	add("/bin")
	return strings.Join(dirs, ":")
}

// canonical is in without what differs from machine to machine.
func canonical(in Input) Input {
	c := in
	c.Recipe.Verify.CUDA = in.Recipe.Verify.CUDA.For(in.Facts.CUDA.Version) // the version itself is left out below
	c.Source, c.Dir, c.Revision = "/source", "/build", 0
	c.Series, c.Touched, c.Only = nil, nil, nil
	c.Facts.Cores, c.Facts.MemoryMiB, c.Facts.Launcher = 1, 0, ""
	c.Facts.Env, c.Facts.Root, c.Facts.Remote = nil, nil, nil
	if in.Facts.Library.Dir != "" {
		c.Facts.Library.Dir = "/library/" + in.Facts.Library.Name // another version is another plan
	}
	c.Facts.Tools = map[string]ToolFact{}
	for role := range in.Facts.Tools {
		c.Facts.Tools[role] = ToolFact{Path: "/tools/" + role}
	}
	if _, ok := c.Facts.Tools[hostRole]; ok && in.Toolchain.Programs[hostRole].Optional {
		c.Facts.Tools[hostRole] = c.Facts.Tools["cxx"] // as where one compiler is for both
	}
	if in.Facts.CUDA.Root != "" {
		c.Facts.CUDA = CUDAFact{Root: "/tools/cuda"}
	}
	if in.Facts.HIP.Root != "" {
		c.Facts.HIP = HIPFact{Root: "/tools/rocm", Clang: "/tools/hipclang", DeviceLib: "/tools/devicelib"}
	}
	// The patched tree has an identity of its own; in the plan it stands only
	// for a commit that is not known.
	if in.Commit != "" {
		c.Tree = strings.Repeat("0", len(in.Tree))
	}
	return c
}

func digest(c Plan) (string, error) {
	text, err := json.Marshal(struct {
		Form     int // raised when the meaning of a plan changes without its commands
		Steps    []Step
		Backends []string
		Page     string `json:",omitempty"`
	}{1, c.Steps, c.Backends, c.Page.sum()})
	if err != nil {
		return "", err
	}
	return sha256Hex(text), nil
}

// isRelease reports whether the tag is one of upstream's versions, which its
// build calls a release and not a development state.
func isRelease(name string) bool {
	t, err := tag.Parse(name)
	return err == nil && t.Kind() == tag.Version
}
