package binary_test

import (
	"debug/pe"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

// The fixture has a function of every standing.
func TestJudgeWindows7(t *testing.T) {
	files, err := inspect.GatherPE(t.Context(), []string{"testdata/pe/app.exe"})
	if err != nil {
		t.Fatal(err)
	}
	// helper.dll lies beside it and is taken with it.
	if len(files) != 2 || files[1].Name != "testdata/pe/helper.dll" {
		t.Fatalf("gathered %+v", files)
	}
	for os, want := range map[string]string{
		spec.Win7: `AddDllDirectory update KB2533623
CertOpenStore unknown
CreateFile2 vxkex KxBase
CreateFileMappingFromApp vxkex KxBase
HeapAlloc windows7
MapViewOfFileFromApp vxkex KxBase
NoSuchFunction missing
Sleep windows7
WaitOnAddress vxkex KxBase
accept as #1 windows7
cuInit driver
cudaMalloc missing
forwarded windows7
forwardedToNothing vxkex KxBase
greet bundle testdata/pe/helper.dll
left missing
puts update KB2999226
round missing
second as #7 bundle testdata/pe/helper.dll
missing: cudart64_110.dll CreateFile2 CreateFileMappingFromApp MapViewOfFileFromApp NoSuchFunction WaitOnAddress forwardedToNothing left round
updates: KB2533623 KB2999226`,
		spec.Win7VxKex: `AddDllDirectory vxkex KxBase
CertOpenStore unknown
CreateFile2 vxkex KxBase
CreateFileMappingFromApp vxkex KxBase
HeapAlloc windows7
MapViewOfFileFromApp vxkex KxBase
NoSuchFunction missing
Sleep windows7
WaitOnAddress vxkex KxBase
accept as #1 windows7
cuInit driver
cudaMalloc missing
forwarded windows7
forwardedToNothing vxkex KxBase
greet bundle testdata/pe/helper.dll
left missing
puts update KB2999226
round missing
second as #7 bundle testdata/pe/helper.dll
missing: cudart64_110.dll NoSuchFunction left round
updates: KB2999226`,
	} {
		w := inspect.JudgeWindows7(files, os)
		var got, missing []string
		for _, i := range w.Files[0].Imports {
			name := map[string]string{"#1": "accept as #1", "#7": "second as #7"}[i.Function]
			if name == "" {
				name = i.Function
			}
			got = append(got, strings.TrimSpace(name+" "+string(i.Standing)+" "+i.By))
		}
		slices.Sort(got)
		for _, i := range w.Missing {
			name := i.Function
			if name == "" {
				name = i.DLL
			}
			missing = append(missing, name)
			if !slices.Equal(i.NeededBy, []string{"testdata/pe/app.exe"}) {
				t.Errorf("%s is needed by %v", name, i.NeededBy)
			}
		}
		slices.SortFunc(missing, func(a, b string) int {
			if a, b := strings.HasSuffix(a, ".dll"), strings.HasSuffix(b, ".dll"); a != b {
				return map[bool]int{true: -1, false: 1}[a]
			}
			return strings.Compare(a, b)
		})
		got = append(got, "missing: "+strings.Join(missing, " "), "updates: "+strings.Join(w.Updates, " "))
		if diff := cmp.Diff(strings.Split(want, "\n"), got); diff != "" {
			t.Errorf("%s:\n%s", os, diff)
		}
	}
}

// needs makes a file that imports functions of one DLL.
func needs(t *testing.T, name, dll string, functions ...any) *inspect.File {
	t.Helper()
	p := newPE(64)
	p.imports(dll, p.thunks(0, functions...), 1)
	f, err := p.read(t)
	if err != nil {
		t.Fatal(err)
	}
	f.Name = name
	return f
}

func TestStandings(t *testing.T) {
	for _, c := range []struct {
		dll, function string
		bare, vxkex   string
	}{
		{"KERNEL32.dll", "WriteFile", "windows7", "windows7"},
		{"kernel32", "WriteFile", "windows7", "windows7"}, // the loader adds .dll
		{"KERNEL32.dll", "GetSystemTimePreciseAsFileTime", "vxkex KxBase", "vxkex KxBase"},
		{"ws2_32.dll", "__WSAFDIsSet", "windows7", "windows7"},
		{"ws2_32.dll", "#151", "windows7", "windows7"},
		{"ws2_32.dll", "#9999", "unknown", "unknown"},
		{"kernelbase.dll", "GetPtrCalData", "windows7", "windows7"},
		{"kernelbase.dll", "WriteFile", "unknown", "vxkex KxBase"}, // the table has a part of it
		{"api-ms-win-core-file-l1-1-0.dll", "CreateFileW", "windows7", "windows7"},
		{"api-ms-win-core-file-l1-1-0.dll", "CreateFile2", "vxkex KxBase", "vxkex KxBase"},
		{"api-ms-win-core-file-l1-2-0.dll", "CreateFileW", "vxkex KxBase", "vxkex KxBase"}, // another set than -l1-1-0
		{"api-ms-win-core-rtlsupport-l1-1-0.dll", "RtlCaptureContext", "windows7", "windows7"},
		{"api-ms-win-service-management-l2-1-0.dll", "QueryServiceConfigW", "windows7", "windows7"},
		{"api-ms-win-security-systemfunctions-l1-1-0.dll", "SystemFunction036", "vxkex KxAdvapi", "vxkex KxAdvapi"},
		{"api-ms-win-core-version-l1-1-0.dll", "VerQueryValueW", "vxkex version", "vxkex version"}, // VxKex sends it on
		{"api-ms-win-mm-time-l1-1-0.dll", "timeGetTime", "unknown", "unknown"},
		{"ext-ms-win-gdi-font-l1-1-0.dll", "TextOutW", "unknown", "unknown"},
		{"api-ms-win-no-such-l1-1-0.dll", "f", "missing", "missing"},
		{"api-", "f", "missing", "missing"},
		{"api-ms-win-crt-heap-l1-1-0.dll", "malloc", "update KB2999226", "update KB2999226"},
		{"ucrtbase.dll", "malloc", "update KB2999226", "update KB2999226"},
		{"shcore.dll", "GetDpiForMonitor", "vxkex KxUser", "vxkex KxUser"},
		{"d3d12.dll", "NoSuchFunction", "missing", "missing"},
		{"iphlpapi.dll", "GetAdaptersAddresses", "unknown", "unknown"},
		{"crypt32.dll", "CertOpenSystemStoreW", "windows7", "windows7"},
		{"CRYPT32.dll", "CertOpenStore", "unknown", "unknown"}, // a part of it
		{"nvcuda.dll", "cuInit", "driver", "driver"},
		{"bcryptprimitives.dll", "ProcessPrng", "vxkex KxCryp", "vxkex KxCryp"},
		{"msvcp140.dll", "f", "missing", "missing"},
	} {
		var function any = c.function
		if c.function[0] == '#' {
			function = map[string]int{"#151": 151, "#9999": 9999}[c.function]
		}
		f := needs(t, "x.exe", c.dll, function)
		for os, want := range map[string]string{spec.Win7: c.bare, spec.Win7VxKex: c.vxkex} {
			i := inspect.JudgeWindows7([]*inspect.File{f}, os).Files[0].Imports[0]
			if got := strings.TrimSpace(string(i.Standing) + " " + i.By); got != want {
				t.Errorf("%s!%s on %s: %s, want %s (%s)", c.dll, c.function, os, got, want, i.Why)
			}
		}
	}
}

// What the loader takes from Windows it takes there, whatever lies beside a program;
// a DLL for another processor is none.
func TestSiblings(t *testing.T) {
	for dll, want := range map[string]inspect.Standing{
		"kernel32.dll": inspect.OnWindows7, "dwrite.dll": inspect.InBundle,
		"own.dll": inspect.InBundle,
	} {
		own := newPE(64)
		own.flags |= pe.IMAGE_FILE_DLL
		lib, err := own.read(t)
		if err != nil {
			t.Fatal(err)
		}
		lib.Name = "bin/" + strings.ToUpper(dll)
		w := inspect.JudgeWindows7([]*inspect.File{needs(t, "bin/x.exe", dll, "WriteFile"), lib}, spec.Win7)
		if w.DLLs[0].Standing != want {
			t.Errorf("%s: %+v", dll, w.DLLs)
		}
	}
	other := newPE(32)
	lib, err := other.read(t)
	if err != nil {
		t.Fatal(err)
	}
	lib.Name = "bin/own.dll"
	copied := *lib
	copied.Name = "bin/sub/OWN.dll"
	w := inspect.JudgeWindows7([]*inspect.File{needs(t, "bin/x.exe", "own.dll", "f"), lib, &copied}, spec.Win7)
	if !w.Faulty() || len(w.Missing) != 1 || w.Missing[0].Why != "bin/own.dll is for I386" {
		t.Errorf("%+v", w.Missing)
	}
	if diff := cmp.Diff([][]string{{"bin/own.dll", "bin/sub/OWN.dll"}}, w.Copies); diff != "" {
		t.Error(diff)
	}
}

// A bundle may bring the C runtime itself, as API sets that forward to it.
func TestOwnRuntime(t *testing.T) {
	library := func(name, export, to string) *inspect.File {
		p := newPE(64)
		at := peRVA + uint32(len(p.data))
		address, size := uint32(1), uint32(40) // outside of the directory
		if to != "" {
			address, size = at+64, 120
		}
		p.dirs[0] = pe.DataDirectory{VirtualAddress: at, Size: size}
		p.put([20]byte{}, uint32(1), uint32(1), at+40, at+44, at+48)
		p.put(address, at+52, uint16(0), [2]byte{}, export+"\x00")
		p.put(to + "\x00")
		f, err := p.read(t)
		if err != nil {
			t.Fatal(err)
		}
		f.Name = name
		return f
	}
	files := []*inspect.File{
		needs(t, "x.exe", "api-ms-win-crt-heap-l1-1-0.dll", "malloc"),
		library("api-ms-win-crt-heap-l1-1-0.dll", "malloc", "ucrtbase.malloc"),
		library("ucrtbase.dll", "malloc", ""),
	}
	for _, os := range []string{spec.Win7, spec.Win7VxKex} {
		w := inspect.JudgeWindows7(files, os)
		if i := w.Files[0].Imports[0]; i.Standing != inspect.InBundle || i.By != "ucrtbase.dll" || len(w.Updates) > 0 {
			t.Errorf("%s: %+v", os, i)
		}
	}
}

// Where NVIDIA's DLLs alone are missing, as of a thin bundle, the user is told that.
func TestLackingHint(t *testing.T) {
	lacking := func(missing ...inspect.Import) *inspect.Lacking {
		return &inspect.Lacking{Windows7: &inspect.Windows7{OS: spec.Win7VxKex, Missing: missing}}
	}
	cudart, other := inspect.Import{DLL: "cudart64_110.dll"}, inspect.Import{DLL: "KERNEL32.dll", Function: "NoSuch"}
	if l := lacking(cudart, inspect.Import{DLL: "cublas64_11.dll"}); !strings.Contains(l.Hint(),
		"NVIDIA's CUDA toolkit") || !strings.Contains(l.Error(), "SP1 with VxKex NEXT: 2 DLLs: cudart64_110.dll") {
		t.Errorf("%s; %s", l, l.Hint())
	}
	if l := lacking(cudart, other); l.Hint() != "" || !strings.Contains(l.Error(), ": 1 function and 1 DLL: ") {
		t.Errorf("%s; %s", l, l.Hint())
	}
}

func TestFaultsOfPE(t *testing.T) {
	for say, change := range map[string]func(p *peImage){
		"asks for Windows 10.0 (its subsystem version); Windows 7 is 6.1": func(p *peImage) { p.version = [2]uint16{10, 0} },
		"is for ARM64, which Windows 7 x64 does not run": func(p *peImage) {
			p.machine = pe.IMAGE_FILE_MACHINE_ARM64
		},
	} {
		p := newPE(64)
		change(p)
		f, err := p.read(t)
		if err != nil {
			t.Fatal(err)
		}
		w := inspect.JudgeWindows7([]*inspect.File{f}, spec.Win7)
		if !w.Faulty() || !slices.Equal(w.Files[0].Faults, []string{say}) {
			t.Errorf("%q, want %q", w.Files[0].Faults, say)
		}
		if err := (&inspect.Lacking{Windows7: w}).Error(); !strings.Contains(err, say) {
			t.Error(err)
		}
	}
	// The loader does not ask a library.
	p := newPE(64)
	p.version, p.flags = [2]uint16{10, 0}, pe.IMAGE_FILE_DLL
	f, err := p.read(t)
	if err != nil {
		t.Fatal(err)
	}
	if w := inspect.JudgeWindows7([]*inspect.File{f}, spec.Win7); w.Faulty() {
		t.Errorf("%+v", w.Files)
	}
}

func TestGatherPE(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"app.exe", "helper.dll"} {
		data, err := os.ReadFile(filepath.Join("testdata/pe", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, strings.ToUpper(name)), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"README.txt": "hello", "old.com": "MZ" + strings.Repeat("x", 70),
		"empty": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := inspect.GatherPE(t.Context(), []string{dir, filepath.Join(dir, "APP.EXE")})
	if err != nil || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if _, err := inspect.GatherPE(t.Context(), []string{t.TempDir()}); !errors.Is(err, inspect.ErrNoPE) {
		t.Errorf("nothing in it: %v", err)
	}
	// What is broken is said, and the others are returned.
	if err := os.WriteFile(filepath.Join(dir, "broken.dll"), []byte("MZ"+strings.Repeat("\x00", 58)+
		"\x40\x00\x00\x00PE\x00\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err = inspect.GatherPE(t.Context(), []string{dir})
	if err == nil || !strings.Contains(err.Error(), "broken.dll: header: ") || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if _, err := inspect.GatherPE(t.Context(), []string{os.Args[0], filepath.Join(dir, "none")}); !errors.Is(err,
		inspect.ErrNoPE) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestVerifyPE(t *testing.T) {
	both := []string{"app.exe", "helper.dll"}
	for name, c := range map[string]struct {
		files []string
		v     spec.Verify
		say   []string
	}{
		"not asked": {both, spec.Verify{}, nil},
		"bare": {both, spec.Verify{
			Needed: []string{"CRYPT32.DLL", "nvcuda.dll"},
			PE:     &spec.PE{OS: spec.Win7, Updates: []string{"KB2999226"}},
		}, []string{
			"app.exe: needs WaitOnAddress of api-ms-win-core-synch-l1-2-0.dll, which Windows 7 SP1 does not have; VxKex NEXT " +
				"has it in KxBase",
			"app.exe: needs cudart64_110.dll, which is neither beside it nor part of Windows 7 SP1",
			"app.exe: needs forwardedToNothing of helper.dll, which Windows 7 SP1 does not have; VxKex NEXT has it in KxBase",
			"app.exe: needs left of helper.dll, which is missing: helper.dll does not export it",
			"app.exe: needs round of helper.dll, which is missing: helper.dll forwards it to helper.circle: it is forwarded " +
				"in a circle",
			"app.exe: needs CreateFile2 of KERNEL32.dll", "app.exe: needs CreateFileMappingFromApp",
			"app.exe: needs MapViewOfFileFromApp",
			"app.exe: needs NoSuchFunction of KERNEL32.dll, which Windows 7 SP1 does not have",
			"app.exe: needs AddDllDirectory of KERNEL32.dll, which Windows 7 SP1 has with KB2533623 only",
		}},
		"with VxKex": {both, spec.Verify{
			Machine: "IMAGE_FILE_MACHINE_I386", Needed: []string{"cudart64_*.dll"},
			PE: &spec.PE{OS: spec.Win7VxKex},
		}, []string{
			"app.exe: is for IMAGE_FILE_MACHINE_AMD64, not for IMAGE_FILE_MACHINE_I386",
			"helper.dll: is for IMAGE_FILE_MACHINE_AMD64",
			"app.exe: needs left of helper.dll", "app.exe: needs round of helper.dll",
			"app.exe: needs NoSuchFunction of KERNEL32.dll, which is missing: VxKex NEXT takes KxBase in place of kernel32, " +
				"and it does not have it",
			"app.exe: needs CertOpenStore of CRYPT32.dll, and llpatch cannot tell whether Windows 7 has that",
			"app.exe: needs puts of api-ms-win-crt-stdio-l1-1-0.dll, which Windows 7 SP1 has with KB2999226 only; name that " +
				"in verify.pe.updates",
			"app.exe: needs nvcuda.dll, which a graphics driver brings",
		}},
		"fine": {[]string{"helper.dll"}, spec.Verify{PE: &spec.PE{OS: spec.Win7}}, nil},
		"nothing": {
			[]string{"app.c"},
			spec.Verify{PE: &spec.PE{OS: spec.Win7}},
			[]string{"the bundle: holds no Windows program or library"},
		},
	} {
		_, err := inspect.Verify("testdata/pe", c.files, c.v)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
			var r *inspect.Rejected
			if !errors.As(err, &r) {
				t.Errorf("%s: %v is no *Rejected", name, err)
			}
		}
		if len(lines) != len(c.say) {
			t.Errorf("%s: %d faults, want %d:\n%v", name, len(lines), len(c.say), err)
			continue
		}
		for i, say := range c.say {
			if !strings.Contains(lines[i], say) {
				t.Errorf("%s: %q does not say %q", name, lines[i], say)
			}
		}
	}
	files, err := inspect.Verify("testdata/pe", both, spec.Verify{})
	if err != nil {
		t.Fatal(err)
	}
	if out := inspect.Outside(files); slices.Contains(out, "helper.dll") || !slices.Contains(out, "kernel32.dll") {
		t.Errorf("outside: %v", out)
	}
}

func BenchmarkJudgeWindows7(b *testing.B) {
	files, err := inspect.GatherPE(b.Context(), []string{"testdata/pe"})
	if err != nil {
		b.Fatal(err)
	}
	imports := 0
	for b.Loop() {
		for _, f := range inspect.JudgeWindows7(files, spec.Win7).Files {
			imports += len(f.Imports)
		}
	}
	b.ReportMetric(float64(imports)/b.Elapsed().Seconds(), "imports/s")
}
