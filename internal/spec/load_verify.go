package spec

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/buildenv"
)

var (
	versionRE = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)
	machineRE = regexp.MustCompile(`^(EM|IMAGE_FILE_MACHINE)_[A-Z0-9_]+$`)
	updateRE  = regexp.MustCompile(`^KB[0-9]{6,7}$`)
	smRE      = regexp.MustCompile(`^sm_[1-9][0-9]{1,2}[af]?$`)
	computeRE = regexp.MustCompile(`^compute_[1-9][0-9]{1,2}[af]?$`)
)

// verify checks what a recipe says the built binaries must look like.
func (f *file) verify(rec *Recipe) {
	v := rec.Verify
	f.refuse(v.Machine != "" && !machineRE.MatchString(v.Machine), "verify.machine",
		"machine %q is not the name of an ELF or PE machine, such as EM_X86_64 or IMAGE_FILE_MACHINE_AMD64", v.Machine)
	f.limits(v.Limits)
	f.names("verify.needed", v.Needed)
	f.hip(rec)
	if v.PE != nil {
		f.pe(*v.PE)
	}
	c := v.CUDA
	if c == nil {
		return
	}
	f.refuse(!slices.Contains(rec.Backends, "cuda"), "verify.cuda",
		"verify.cuda is for recipes that build the backend cuda, which backends does not name")
	f.refuse(len(c.Files) == 0, "verify.cuda.files",
		"verify.cuda says no files: name those that hold device code, such as libggml-cuda.so")
	f.names("verify.cuda.files", c.Files)
	said := 0
	for _, n := range []int{len(c.Archs), len(c.AtLeast), len(c.Toolkits)} {
		said += min(n, 1)
	}
	f.refuse(said != 1, "verify.cuda.archs",
		"verify.cuda needs either archs, for exactly these, or at-least, for these and others, or tables toolkit with "+
			"archs by the version of nvcc")
	f.refuse(len(c.Toolkits) > 0 && len(c.PTX) > 0, "verify.cuda.ptx",
		"ptx stands in each toolkit where there are tables toolkit")
	f.archs("verify.cuda.archs", c.Archs, smRE, "sm_86")
	f.archs("verify.cuda.at-least", c.AtLeast, smRE, "sm_86")
	f.archs("verify.cuda.ptx", c.PTX, computeRE, "compute_86")
	for i, t := range c.Toolkits {
		f.refuse(!versionRE.MatchString(t.From), "verify.cuda.toolkit", "from %q is not a version of CUDA, such as 11.8",
			t.From)
		f.refuse(i > 0 && !versionLess(c.Toolkits[i-1].From, t.From), "verify.cuda.toolkit",
			"toolkit from %q stands after one from %q: the oldest comes first", t.From, c.Toolkits[max(i-1, 0)].From)
		f.refuse(len(t.Archs) == 0, "verify.cuda.toolkit", "toolkit from %q says no archs", t.From)
		f.archs("verify.cuda.toolkit", t.Archs, smRE, "sm_86")
		f.archs("verify.cuda.toolkit", t.PTX, computeRE, "compute_86")
	}
	if c.Newest == "" {
		return
	}
	f.refuse(len(c.Toolkits) > 0, "verify.cuda.newest", "newest has no place beside tables toolkit")
	f.archs("verify.cuda.newest", []string{c.Newest}, smRE, "sm_86")
	for key, list := range map[string][]string{"archs": c.Archs, "at-least": c.AtLeast, "ptx": c.PTX} {
		if err := c.tooNew(list); err != nil {
			f.fail("verify.cuda."+key, "%v", err)
		}
	}
}

// pe checks what Windows files may need.
func (f *file) pe(pe PE) {
	f.oneOf("verify.pe.os", pe.OS, Win7, Win7VxKex)
	for i, u := range pe.Updates {
		f.refuse(!updateRE.MatchString(u), "verify.pe.updates",
			"%q is not the number of an update of Windows, such as KB2533623", u)
		f.refuse(slices.Contains(pe.Updates[:i], u), "verify.pe.updates", "%s is named twice", u)
	}
}

// names checks plain file names that may hold * and ?.
func (f *file) names(key string, patterns []string) {
	for _, p := range patterns {
		if _, err := path.Match(p, "x"); err != nil || p == "" || strings.Contains(p, "/") {
			f.fail(key, "%q is not the name of a file, nor a pattern of one", p)
		}
	}
}

func (f *file) archs(key string, list []string, re *regexp.Regexp, such string) {
	for i, a := range list {
		f.refuse(!re.MatchString(a), key, "%q is not an architecture as nvcc names it, such as %s", a, such)
		f.refuse(slices.Contains(list[:i], a), key, "%s is named twice", a)
	}
}

// limits checks the versions of a [verify], a recipe's or a buildenv's.
func (f *file) limits(l buildenv.Limits) {
	f.refuse(l.GlibcMax != "" && !versionRE.MatchString(l.GlibcMax), "verify.glibc-max",
		"glibc-max %q is not a version, such as 2.31", l.GlibcMax)
	f.refuse(l.GlibcxxMax != "" && !versionRE.MatchString(l.GlibcxxMax), "verify.glibcxx-max",
		"glibcxx-max %q is not a version of libstdc++'s symbols, such as 3.4.28", l.GlibcxxMax)
}
