package doctor

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/spec"
)

// What is built in a root asks for the glibc of that root, made or not, and not for the
// one of this machine.
func TestBuildenvGlibc(t *testing.T) {
	rec := spec.Recipe{OS: "linux", Verify: spec.Verify{Machine: "EM_X86_64"}}
	lock := func(version string) *buildenv.Lock {
		return &buildenv.Lock{
			Kind: buildenv.Debian, Suite: "kit", Arch: "amd64",
			Packages: []buildenv.Package{{Name: "libc6", Version: version}},
		}
	}
	for _, c := range []struct {
		lock   *buildenv.Lock
		status Status
		says   string
	}{
		{lock("9.99-1+deb99u1"), Missing, "up to 9.99, kit's, and this machine has 2."},
		{lock("2.4-1"), OK, "no newer glibc than kit's, 2.4."},
		{nil, Unknown, "kit's glibc was not found"},
	} {
		r := &Report{}
		o := Options{
			Workspace: chain.Workspace{Cache: t.TempDir()},
			Root:      &buildenv.Decl{Name: "kit", Suite: "kit", Arch: "amd64", Lock: c.lock},
		}
		if err := r.system(t.Context(), o, rec, "", nil); err != nil {
			t.Fatal(err)
		}
		if !has(r, c.status, "glibc", c.says) || !r.judge().Able {
			t.Errorf("%q: %+v", c.says, r.Findings)
		}
	}
}

// Where this machine has not the tools, its glibc says nothing of the result: the buildenv that is
// recommended has one of its own, which is named before anything is built in it.
func TestRecommendedGlibc(t *testing.T) {
	rec := spec.Recipe{OS: "linux", Verify: spec.Verify{Machine: "EM_X86_64"}}
	env := func(name, version, limit string) buildenv.Decl {
		return buildenv.Decl{
			Name: name, Verify: buildenv.Limits{GlibcMax: limit},
			Lock: &buildenv.Lock{Packages: []buildenv.Package{{Name: "libc6", Version: version}}},
		}
	}
	tool := Finding{About: "tool", Status: Missing, Says: "hipcc is missing"}
	for _, c := range []struct {
		has    []Finding
		fit    []buildenv.Decl
		status Status
		says   string
		fix    string
		here   bool // this machine's own glibc is named
	}{
		{
			[]Finding{tool},
			[]buildenv.Decl{env("new", "9.99-1", "")},
			Missing, "up to 9.99, new's, and this machine has 2.",
			"build where the tools are installed", false,
		},
		{
			[]Finding{tool},
			[]buildenv.Decl{env("new", "9.99-1", ""), env("old", "2.4-1", "")},
			Missing,
			"up to 9.99, new's", "--env old makes it for glibc 2.4", false,
		},
		{
			[]Finding{tool},
			[]buildenv.Decl{env("bound", "9.99-1", "2.5")},
			OK,
			"--env bound, the result will need no newer glibc than bound's, 2.5", "", false,
		},
		{[]Finding{tool}, nil, "", "", "", false},
		{nil, []buildenv.Decl{env("new", "9.99-1", "")}, OK, "no newer glibc than this machine's, 2.", "", true},
	} {
		r := &Report{Findings: c.has}
		o := Options{Workspace: chain.Workspace{Cache: t.TempDir()}}
		if err := r.system(t.Context(), o, rec, "", c.fit); err != nil {
			t.Fatal(err)
		}
		text := r.Text()
		if c.says != "" && !has(r, c.status, "glibc", c.says) || !strings.Contains(text, c.fix) ||
			strings.Contains(text, "this machine's, 2.") != c.here {
			t.Errorf("%q: %s", c.says, text)
		}
	}
}

// Of a bundle for Windows nothing can be told here, but what can is said.
func TestWindowsBundle(t *testing.T) {
	r := &Report{}
	if r.machine(&held{files: []*binary.File{{Machine: "IMAGE_FILE_MACHINE_AMD64"}}}) ||
		!strings.Contains(r.Findings[0].Fix, "inspect --os win7") {
		t.Errorf("%+v", r.Findings)
	}
	if r := (&Report{}); r.machine(&held{files: []*binary.File{{Machine: "EM_S390"}}}) ||
		r.Findings[0].Fix != bundle.HintOtherBuild {
		t.Errorf("%+v", r.Findings)
	}
	if how := remedy("libamdhip64.so.6", "EM_X86_64", nil); !strings.Contains(how, "AMD's ROCm") {
		t.Error(how)
	}
}
