package binary_test

import (
	"bytes"
	"debug/pe"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

var peDir = flag.String("pe", "", "a folder of real Windows files, to be compared with objdump too")

// objdump says what the oracle, binutils' objdump -p, reads from a PE file, in the
// words of inspect.
type objdump struct {
	Version, OS string
	Library     bool
	Imports     []inspect.ImportedDLL
	Exports     []string
	Forwards    []string // where to, each once
}

var (
	objdumpHead    = regexp.MustCompile(`^(M(?:ajor|inor)(?:Subsystem|OSystem)Version)\s+(\d+)`)
	objdumpThunk   = regexp.MustCompile(`^\t([0-9a-f]+)\t\s*[0-9a-f]+ {2}(.*)$`)
	objdumpExport  = regexp.MustCompile(`^\t\[\s*\d+\] (?:\+base\[\s*\d+\]\s+\S+ )?(.*)$`)
	objdumpForward = regexp.MustCompile(`Forwarder RVA -- (.*)$`)
)

func readObjdump(t *testing.T, path string) (o objdump) {
	t.Helper()
	out, err := exec.Command("objdump", "-p", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	version := map[string]string{}
	part := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if m := objdumpHead.FindStringSubmatch(line); m != nil {
			version[m[1]] = m[2]
		}
		switch {
		case line == "\tDLL":
			o.Library = true
		case strings.HasPrefix(line, "\tDLL Name: "):
			o.Imports = append(o.Imports, inspect.ImportedDLL{
				DLL:       strings.TrimPrefix(line, "\tDLL Name: "),
				Functions: []string{},
			})
			part = "import"
		case strings.HasPrefix(line, "[Ordinal/Name Pointer] Table"):
			part = "export"
		case strings.HasPrefix(line, "The ") || strings.HasPrefix(line, "PE File Base"):
			part = ""
		case objdumpForward.MatchString(line):
			o.Forwards = append(o.Forwards, objdumpForward.FindStringSubmatch(line)[1])
		case part == "import":
			if m := objdumpThunk.FindStringSubmatch(line); m != nil {
				name := m[2]
				if name == "<none>" {
					n, err := strconv.ParseUint(m[1][len(m[1])-4:], 16, 16)
					if err != nil {
						t.Fatal(err)
					}
					name = fmt.Sprintf("#%d", n)
				}
				last := &o.Imports[len(o.Imports)-1]
				last.Functions = append(last.Functions, name)
			}
		case part == "export":
			if m := objdumpExport.FindStringSubmatch(line); m != nil {
				o.Exports = append(o.Exports, m[1])
			}
		}
	}
	o.Version = version["MajorSubsystemVersion"] + "." + version["MinorSubsystemVersion"]
	o.OS = version["MajorOSystemVersion"] + "." + version["MinorOSystemVersion"]
	slices.Sort(o.Exports)
	slices.Sort(o.Forwards)
	o.Forwards = slices.Compact(o.Forwards)
	return o
}

func TestPEAgreesWithObjdump(t *testing.T) {
	dirs := []string{"testdata/pe"}
	if *peDir != "" {
		dirs = append(dirs, *peDir)
	}
	files, functions, exports, forwards := 0, 0, 0, 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !slices.Contains([]string{".exe", ".dll", ".node", ".pyd"}, strings.ToLower(filepath.Ext(path))) {
				return err
			}
			f, err := inspect.Inspect(path)
			if err != nil {
				return err
			}
			want := readObjdump(t, path)
			got := objdump{
				Version: f.PE.SubsystemVersion, OS: f.PE.OSVersion, Library: f.PE.Kind == "library",
				Exports: inspect.Names(f.Exports()),
			}
			for _, d := range f.PE.Imports {
				if !d.Delayed { // objdump does not read those
					got.Imports = append(got.Imports, d)
					functions += len(d.Functions)
				}
			}
			for _, fw := range f.PE.Forwards {
				got.Forwards = append(got.Forwards, fw.To)
			}
			slices.Sort(got.Forwards)
			got.Forwards = slices.Compact(got.Forwards)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %.2000s", path, diff)
			}
			files, exports, forwards = files+1, exports+len(got.Exports), forwards+len(got.Forwards)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 2 {
		t.Fatalf("%d files compared", files)
	}
	t.Logf("%d files, %d imported functions, %d exported names and %d forwards are as objdump has them", files, functions,
		exports, forwards)
}

// What objdump does not read, and no linker at hand writes.
func TestPEImports(t *testing.T) {
	for _, bits := range []int{32, 64} {
		p := newPE(bits)
		p.imports("old.dll", 0, p.thunks(0, "first", 0xffff, "third")) // no lookup table
		name, lookup := p.put("late.dll\x00"), p.thunks(0, 3, "fourth")
		p.dirs[13] = pe.DataDirectory{VirtualAddress: p.put(uint32(1), name, uint32(0), uint32(0), lookup, [12]byte{},
			[32]byte{}), Size: 64}
		// Its address is an offset in the file.
		at := p.put(uint32(7), uint16(32), uint16(1), uint32(7), uint16(41), uint16(0), [16]byte{},
			"bound.dll\x00next.dll\x00")
		p.dirs[11] = pe.DataDirectory{VirtualAddress: at - peRVA + peRaw, Size: 60}
		f, err := p.read(t)
		if err != nil {
			t.Fatal(err)
		}
		want := []inspect.ImportedDLL{
			{DLL: "old.dll", Functions: []string{"first", "#65535", "third"}},
			{DLL: "late.dll", Delayed: true, Functions: []string{"#3", "fourth"}},
		}
		if diff := cmp.Diff(want, f.PE.Imports); diff != "" {
			t.Errorf("%d bits: %s", bits, diff)
		}
		if diff := cmp.Diff([]string{"bound.dll"}, f.PE.Bound); diff != "" {
			t.Errorf("%d bits: %s", bits, diff)
		}
		if f.PE.Bits != bits || f.PE.Imported() != 5 || f.PE.Kind != "program" {
			t.Errorf("%d bits: %+v", bits, f.PE)
		}
	}
	// Visual C++ 6 wrote addresses that are not relative.
	p := newPE(32)
	const base = 0x400000
	name, lookup := p.put("late.dll\x00"), p.thunks(base, "function")
	p.dirs[13] = pe.DataDirectory{VirtualAddress: p.put(uint32(0), name+base, uint32(0), uint32(0), lookup+base,
		[12]byte{}, [32]byte{}), Size: 64}
	f, err := p.read(t)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]inspect.ImportedDLL{{DLL: "late.dll", Delayed: true, Functions: []string{"function"}}},
		f.PE.Imports); diff != "" {
		t.Error(diff)
	}
}

// A DLL's device code is read as a shared library's; the drivers that are known are
// Linux's, so none is named.
func TestPECUDA(t *testing.T) {
	p := newPE(64)
	p.name = ".nv_fatb"
	p.put(string(read(t, "cuda-11.8-lz4.fatbin")))
	p.imports("cudart64_110.dll", p.thunks(0, "cudaMalloc"), 1)
	f, err := p.read(t)
	if err != nil {
		t.Fatal(err)
	}
	v := inspect.Judge(f)
	if f.CUDA.Fatbins != 1 || f.CUDA.Runtime != "11.0" || v == nil || v.Driver != nil || v.JIT != nil {
		t.Fatalf("%+v, %+v", f.CUDA, v)
	}
	if diff := cmp.Diff("7.5=sm_75 8.6=sm_86 8.9=sm_86 9.0=compute_86 10.0=compute_86 10.3=compute_86 12.0=compute_86",
		runs(v)); diff != "" {
		t.Error(diff)
	}
	f.Name = "ggml-cuda.dll"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, f.Name), p.file(t), 0o644); err != nil {
		t.Fatal(err)
	}
	want := spec.CUDA{Files: []string{"ggml-cuda.dll"}, Archs: []string{"sm_86"}}
	if _, err := inspect.Verify(dir, []string{f.Name}, spec.Verify{CUDA: &want}); err == nil ||
		!strings.Contains(err.Error(), "holds machine code for sm_75") {
		t.Errorf("%v", err)
	}
}

// MinGW's linker writes names of more than eight letters behind the symbols.
func TestPELongName(t *testing.T) {
	p := newPE(64)
	p.name, p.long = ".nv_fatbin", true
	p.put(string(read(t, "cuda-11.8-lz4.fatbin")))
	f, err := p.read(t)
	if err != nil || f.CUDA == nil || f.CUDA.Fatbins != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	whole := p.file(t)
	for n := len(whole) - 20; n < len(whole); n++ { // a name that is cut off is none
		f, err := inspect.Read(bytes.NewReader(whole[:n]), int64(n))
		if err != nil || f.CUDA != nil {
			t.Errorf("%d bytes of %d: %+v, %v", n, len(whole), f, err)
		}
	}
}

func TestHostilePE(t *testing.T) {
	whole, err := os.ReadFile("testdata/pe/helper.dll")
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		f, err := inspect.Read(bytes.NewReader(whole[:n]), int64(n))
		if (f == nil) == (err == nil) {
			t.Fatalf("cut at %d: %v, %v", n, f, err)
		}
	}
	// last puts an import table whose one DLL has its name or lookup table at the end.
	last := func(p *peImage, name, lookup uint32, end any) {
		n := p.put("x.dll\x00")
		at := peRVA + uint32(len(p.data))
		if name != 0 {
			n = at + 40
		}
		p.dirs[1] = pe.DataDirectory{VirtualAddress: p.put(at+40, uint32(0), uint32(0), n, uint32(1), [20]byte{}), Size: 40}
		p.put(end)
		p.data = p.data[:len(p.data)-int(lookup)]
	}
	// exports puts an export directory with what is to follow it at its address plus 40.
	exports := func(p *peImage, functions, names uint32, follow ...any) {
		at := peRVA + uint32(len(p.data))
		p.dirs[0] = pe.DataDirectory{VirtualAddress: p.put([20]byte{}, functions, names, at+40, at+44, at+48), Size: 80}
		p.put(follow...)
	}
	for name, c := range map[string]struct {
		make func(p *peImage)
		say  string
	}{
		"a table without an end": {func(p *peImage) {
			last(p, 0, 0, uint64(1)<<63)
		}, "x.dll: address 0x1038 is in no section"},
		"half an entry":         {func(p *peImage) { last(p, 0, 4, uint64(1)<<63) }, "8 bytes do not fit into its section"},
		"a name without an end": {func(p *peImage) { last(p, 1, 0, "xxxxxxxx") }, "a name at offset 0x430 has no end"},
		"a table outside":       {func(p *peImage) { p.dirs[1].VirtualAddress = 0xfffffff0 }, "is in no section"},
		"a lookup table outside": {func(p *peImage) {
			p.imports("x.dll", 0x7fffffff, 1)
		}, "x.dll: address 0x7fffffff is in no section"},
		"a name outside": {func(p *peImage) {
			p.imports("x.dll", p.put(uint64(0x12345678), uint64(0)), 1)
		}, "function 1: address 0x1234567a is in no section"},
		"an empty name": {func(p *peImage) { p.imports("", p.put(uint64(0)), 1) }, "name of DLL 1: an empty name"},
		"bound and without names": {func(p *peImage) {
			n := p.put("x.dll\x00")
			p.dirs[1].VirtualAddress = p.put(uint32(0), uint32(99), uint32(0), n, uint32(1), [20]byte{})
		}, "it is bound to addresses, and the names of its functions are not there"},
		"a bound name outside": {func(p *peImage) {
			p.dirs[11] = pe.DataDirectory{VirtualAddress: p.put(uint32(1), uint16(999), uint16(0)) - peRVA + peRaw, Size: 8}
		}, "lies outside of the table"},
		"too many sections": {func(p *peImage) { p.sections = 60000 }, "60000 sections; llpatch reads 512 at most"},
		"too many exports":  {func(p *peImage) { exports(p, 1<<31, 1<<31) }, "there are 65536 ordinals"},
		"an ordinal of none": {func(p *peImage) {
			exports(p, 1, 1, uint32(1), p.put("f\x00"), uint16(9))
		}, "f has ordinal 9 of 1"},
		"forwarded to nothing": {func(p *peImage) {
			exports(p, 1, 0, peRVA+uint32(48), uint32(0), "nowhere\x00")
		}, "nowhere names no DLL to forward to"},
	} {
		p := newPE(64)
		c.make(p)
		f, err := p.read(t)
		if err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, %v; want %q", name, f, err, c.say)
		}
	}
	for name, data := range map[string]string{"DOS": "MZ" + strings.Repeat("x", 62), "short": "MZ", "far": "MZ" +
		strings.Repeat("\xff", 100)} {
		if _, err := inspect.Read(strings.NewReader(data), int64(len(data))); !errors.Is(err, inspect.ErrNotELF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name that would break a line or hide is shown escaped.
	p := newPE(64)
	p.imports("a\nb.dll", p.thunks(0, "f\x1b[2Jg"), 1)
	f, err := p.read(t)
	if err != nil || f.PE.Imports[0].DLL != `a\nb.dll` || f.PE.Imports[0].Functions[0] != `f\x1b[2Jg` {
		t.Errorf("%+v, %v", f, err)
	}
}

// Many entries that name one long text would fill the memory.
func TestHostilePEMemory(t *testing.T) {
	p := newPE(64)
	name := p.put(uint16(0), strings.Repeat("x", 30000)+"\x00")
	p.imports("x.dll", p.put(slices.Repeat([]uint64{uint64(name)}, 1<<17)), 1)
	q := newPE(64)
	n := q.put(uint16(0), "x\x00")
	q.imports("x.dll", q.put(slices.Repeat([]uint64{uint64(n)}, 1<<19)), 1)
	for say, p := range map[string]*peImage{"more than 64 MiB of names": p, "more than 262144 names": q} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		data := p.file(t)
		_, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %s", err, say)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 400 {
			t.Errorf("%s: %d MiB were taken", say, got)
		}
	}
}

func FuzzPE(f *testing.F) {
	for _, name := range []string{"app.exe", "helper.dll"} {
		data, err := os.ReadFile(filepath.Join("testdata/pe", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	p := newPE(32)
	p.imports("old.dll", 0, p.thunks(0, "first", 2))
	f.Add(p.file(f))
	for _, header := range []string{"/4", "//AAAAAE", "//D/////", "////////"} {
		f.Add(named(f, header, "", ".nv_fatbin").file(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
		if (out == nil) == (err == nil) {
			t.Fatal("neither a file nor an error")
		}
		if err == nil && out.PE != nil {
			out.Name = "x.dll"
			w := inspect.JudgeWindows7([]*inspect.File{out}, spec.Win7VxKex)
			if n := len(w.Files[0].Imports); n != out.PE.Imported() {
				t.Fatalf("%d of %d imports are judged", n, out.PE.Imported())
			}
		}
	})
}
