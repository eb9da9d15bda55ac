package build

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/spec"
)

func win7Input(t *testing.T, name string) Input {
	t.Helper()
	in := inputFor(t, "win7-cpu", name)
	in.Facts.Tools["cc"] = ToolFact{
		"/usr/bin/x86_64-w64-mingw32-gcc-posix", "12",
		"x86_64-w64-mingw32-gcc-posix (GCC) 12-posix",
	}
	in.Facts.Tools["cxx"] = ToolFact{
		"/usr/bin/x86_64-w64-mingw32-g++-posix", "12",
		"x86_64-w64-mingw32-g++-posix (GCC) 12-posix",
	}
	in.Facts.Tools["rc"] = ToolFact{"/usr/bin/x86_64-w64-mingw32-windres", "2.40", "GNU windres (GNU Binutils) 2.40"}
	in.Facts.Headers = map[string]bool{}
	return in
}

// The plans of win7-cpu, and that each says Windows 7 to every compiler: a tag from
// before curl went, those that have logs, pages and versions of their own kind.
func TestGoldenWin7Plans(t *testing.T) {
	for _, name := range []string{"b7300", "b8390", "b8833", "v0.5.0"} {
		p := mustPlan(t, win7Input(t, name))
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "plans", "win7-cpu-"+name+".json"), append(text, '\n'))
		for _, o := range p.Options {
			if strings.HasSuffix(o.Name, "_FLAGS") && !strings.Contains(o.Name, "LINKER") &&
				!strings.Contains(o.Value, "-D_WIN32_WINNT=0x0601") {
				t.Errorf("%s: %s is %q", name, o.Name, o.Value)
			}
		}
	}
}

// A program that only checks run stops no build that lacks it.
func TestProbeWithoutWine(t *testing.T) {
	tc := gcc()
	tc.Programs["wine"] = spec.Tool{Names: []string{"no-such-wine"}, For: spec.ForSmoke, Debian: "wine64"}
	f, err := Probe(t.Context(), tc, spec.Recipe{})
	if err != nil {
		t.Fatal(err)
	}
	if _, there := f.Tools["wine"]; there {
		t.Error("the build's tools have wine")
	}
	var m *MissingTools
	if _, err := FindTool(t.Context(), tc, "wine"); !errors.As(err, &m) ||
		!strings.Contains(err.Error(), "apt-get install -y wine64") {
		t.Errorf("got %v", err)
	}
	if found, err := FindTool(t.Context(), tc, "cc"); err != nil || found.Path != f.Tools["cc"].Path {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestVersionOfMinGW(t *testing.T) {
	for banner, want := range map[string]string{
		"x86_64-w64-mingw32-g++-posix (GCC) 12-posix":                     "12",
		"x86_64-w64-mingw32-gcc (GCC) 10-win32 20220113":                  "10",
		"x86_64-w64-mingw32-g++ (Fedora MinGW 14.2.1-3.fc42) 14.2.1 2025": "14.2.1",
		"wine-8.0 (Debian 8.0~repack-4)":                                  "8.0",
		"x86_64-w64-mingw32-gcc-posix (GCC)":                              "",
	} {
		if _, got := buildenv.VersionOf(banner + "\n"); got != want {
			t.Errorf("%s: version %q, want %q", banner, got, want)
		}
	}
}
