package binary_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "fatbin", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func parse(tb testing.TB, data []byte) *inspect.File {
	tb.Helper()
	f, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// said turns cuobjdump's text into lines as held writes them.
func said(text string) []string {
	kinds := map[string]string{"elf": "cubin sm_", "ptx": "ptx compute_", "nvvm": "nvvm lto_"}
	version := regexp.MustCompile(`code version = \[(\d+),(\d+)\]`)
	var list []string
	for _, part := range regexp.MustCompile(`(?m)^\s*Fatbin `).Split(text, -1)[1:] {
		kind, _, _ := strings.Cut(part, " ")
		if kind == "concatenated" {
			continue
		}
		arch := regexp.MustCompile(`arch = sm_(\w+)`).FindStringSubmatch(part)[1]
		line := kinds[kind] + arch
		if v := version.FindStringSubmatch(part); kind == "ptx" {
			line += " " + v[1] + "." + v[2]
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

func held(c *inspect.CUDA) []string {
	var list []string
	for _, code := range c.Code {
		for range code.Entries {
			list = append(list, strings.TrimSpace(code.Kind+" "+code.Arch+" "+code.ISA))
		}
	}
	slices.Sort(list)
	return list
}

// The oracle is NVIDIA's cuobjdump, whose answers lie beside the fatbins.
func TestFatbinsAgreeWithCuobjdump(t *testing.T) {
	for name, want := range map[string]struct {
		toolkit, compression string
		fatbins              int
	}{
		"cuda-11.8-none": {"11.8", "none", 1}, "cuda-11.8-lz4": {"11.8", "lz4", 1}, "cuda-13.5-none": {"13.5", "none", 1},
		"cuda-13.5-zstd": {"13.5", "zstd", 1}, "cuda-13.5-concat": {"13.5", "zstd", 1}, "cuda-13.5-lto": {"13.5", "zstd", 1},
		"linked": {"13.5", "zstd", 2},
	} {
		c := parse(t, read(t, name+".fatbin")).CUDA
		expect := said(string(read(t, name+".cuobjdump")))
		if len(expect) < 2 {
			t.Fatalf("%s: cuobjdump says only %v", name, expect)
		}
		if diff := cmp.Diff(expect, held(c)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if c.Fatbins != want.fatbins || len(c.Faults) > 0 {
			t.Errorf("%s: %d fatbins, %v", name, c.Fatbins, c.Faults)
		}
		if diff := cmp.Diff([]string{want.toolkit}, c.Toolkits); diff != "" {
			t.Errorf("%s: toolkits %s", name, diff)
		}
		for _, code := range c.Code {
			if code.Kind == "cubin" && !slices.Contains(code.Compression, want.compression) {
				t.Errorf("%s: %s is compressed by %v, not by %s", name, code.Arch, code.Compression, want.compression)
			}
		}
	}
}

// What contradicts itself is said, and what can still be read stays.
func TestFatbinFaults(t *testing.T) {
	le := binary.LittleEndian
	none, lz4, zstd, concat := read(t, "cuda-11.8-none.fatbin"), read(t, "cuda-11.8-lz4.fatbin"),
		read(t, "cuda-13.5-zstd.fatbin"), read(t, "cuda-13.5-concat.fatbin")
	// The second entry of concat is the first that packs several.
	packed := 16 + int(le.Uint32(concat[20:])) + int(le.Uint64(concat[24:]))
	if concat[packed+1] != 1 {
		packed = 16
	}
	for name, c := range map[string]struct {
		data   []byte
		change func(b []byte) []byte
		want   string
	}{
		"a lie about the arch": {none, func(b []byte) []byte {
			b[16+28] = 80
			return b
		}, "the fatbin says sm_80, the cubin in it sm_75"},
		"cut off in a cubin": {none, func(b []byte) []byte {
			return b[:500]
		}, "says it is 6112 bytes long, more than there are"},
		"cut off in the header": {none, func(b []byte) []byte { return b[:10] }, "cut off in its header"},
		"cut off in the next":   {none, func(b []byte) []byte { return append(b, b[:12]...) }, "cut off in its header"},
		"something behind it": {none, func(b []byte) []byte {
			return append(b, "rubbish, and more of it"...)
		}, "is no fatbin"},
		"an endless fatbin": {none, func(b []byte) []byte {
			le.PutUint64(b[8:], 1<<63)
			return b
		}, "more than there are"},
		"a header of nothing":     {none, func(b []byte) []byte { le.PutUint16(b[6:], 0); return b }, "more than there are"},
		"an endless entry":        {none, func(b []byte) []byte { le.PutUint64(b[24:], 1<<63); return b }, "does not fit"},
		"an endless entry header": {none, func(b []byte) []byte { le.PutUint32(b[20:], 1<<31); return b }, "does not fit"},
		"an entry of no length":   {none, func(b []byte) []byte { le.PutUint32(b[20:], 0); return b }, "does not fit"},
		"broken lz4":              {lz4, func(b []byte) []byte { copy(b[100:], make([]byte, 300)); return b }, "sm_75: "},
		"lz4 that explodes": {lz4, func(b []byte) []byte {
			le.PutUint64(b[16+56:], 31<<20)
			return b
		}, "cannot become as long"},
		"broken zstd": {zstd, func(b []byte) []byte { b[16+64+6] ^= 0xff; return b }, "sm_75: zstd"},
		"too many bytes packed": {lz4, func(b []byte) []byte {
			le.PutUint32(b[32:], 1<<20)
			return b
		}, "more compressed bytes than it is long"},
		"more packed than there": {concat, func(b []byte) []byte {
			le.PutUint32(b[packed+64:], 1<<30)
			return b
		}, "that it says it has"},
		"packed far away": {concat, func(b []byte) []byte {
			le.PutUint32(b[packed+72+4:], 1<<30)
			return b
		}, "outside of what it is packed into"},
	} {
		f := parse(t, c.change(slices.Clone(c.data)))
		if all := strings.Join(f.CUDA.Faults, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: faults %q, want %q", name, all, c.want)
		}
	}
	// 4 EiB are claimed of a cubin that has 912 bytes: it is not opened.
	big := slices.Clone(lz4)
	le.PutUint64(big[16+56:], 1<<62)
	if c := parse(t, big).CUDA; len(c.Faults) > 0 || len(c.Code) != 3 {
		t.Errorf("a large cubin: %v, %v", c.Faults, c.Code)
	}
}

// embed makes a shared library with fatbins in the sections that nvcc uses.
func embed(tb testing.TB, sections map[string][]string, source string, flags ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	var asm strings.Builder
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&asm, ".section %s,\"a\",@progbits\n.align 8\n", section)
		for _, name := range sections[section] {
			path, err := filepath.Abs(filepath.Join("testdata", "fatbin", name))
			if err != nil {
				tb.Fatal(err)
			}
			fmt.Fprintf(&asm, ".incbin \"%s\"\n.align 8\n", path)
		}
	}
	if len(sections) > 0 {
		asm.WriteString(".section .nvFatBinSegment,\"aw\",@progbits\n.quad 0,0,0\n")
	}
	asm.WriteString(".section .note.GNU-stack,\"\",@progbits\n")
	for name, text := range map[string]string{"device.s": asm.String(), "host.c": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-o", "libggml-cuda.so", "device.s", "host.c"},
		flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("gcc: %v\n%s", err, out)
	}
	return filepath.Join(dir, "libggml-cuda.so")
}

func TestCUDAInELF(t *testing.T) {
	const host = "const char *name = \"cudaErrorCudartUnloading\"; int ggml_backend_init(void) { return name[0]; }\n"
	get := func(sections map[string][]string, source string, flags ...string) *inspect.CUDA {
		f, err := inspect.Inspect(embed(t, sections, source, flags...))
		if err != nil {
			t.Fatal(err)
		}
		return f.CUDA
	}
	both := map[string][]string{
		".nv_fatbin":     {"cuda-11.8-lz4.fatbin", "cuda-13.5-zstd.fatbin"},
		"__nv_relfatbin": {"cuda-13.5-none.fatbin"},
	}
	c := get(both, host)
	if c.Fatbins != 2 || c.Unlinked || len(c.Faults) > 0 {
		t.Errorf("both sections: %+v", c)
	}
	if diff := cmp.Diff([]string{"11.8", "13.5"}, c.Toolkits); diff != "" {
		t.Error(diff)
	}
	if !c.Static || c.Runtime != "13.5" {
		t.Errorf("static runtime: %v %q", c.Static, c.Runtime)
	}
	if c = get(map[string][]string{"__nv_relfatbin": {"cuda-13.5-none.fatbin"}}, "int x;"); c.Fatbins != 1 ||
		!c.Unlinked || c.Static || c.Runtime != "" {
		t.Errorf("relocatable only: %+v", c)
	}
	if c = get(nil, host); c != nil {
		t.Errorf("no CUDA at all: %+v", c)
	}
	// Needed by name, as of a toolkit that is not here.
	lib := filepath.Join(t.TempDir(), "libcudart.so.12")
	if out, err := exec.Command("gcc", "-shared", "-Wl,-soname,libcudart.so.12", "-o", lib, "-x", "c",
		"/dev/null").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c = get(both, host, "-Wl,--no-as-needed", lib); c.Static || c.Runtime != "12" {
		t.Errorf("needed: %v %q", c.Static, c.Runtime)
	}
	if c = get(nil, host, "-Wl,--no-as-needed", lib); c == nil || c.Runtime != "12" || c.Fatbins != 0 {
		t.Errorf("host code only: %+v", c)
	}
	if f, err := inspect.Inspect(lib); err != nil || f.CUDA == nil || f.CUDA.Runtime != "12" || inspect.Judge(f) != nil {
		t.Errorf("the runtime itself: %+v, %v", f, err)
	}
}

func FuzzFatbin(f *testing.F) {
	names, err := filepath.Glob("testdata/fatbin/*.fatbin")
	if err != nil || len(names) < 7 {
		f.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		data := read(f, filepath.Base(name))
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if v := inspect.Judge(out); v != nil && out.CUDA == nil {
			t.Fatal("a verdict without device code")
		}
		if out.CUDA == nil {
			return
		}
		var stored int64
		for _, c := range out.CUDA.Code {
			stored += c.Bytes
		}
		if stored > int64(len(data)) {
			t.Fatalf("%d bytes of code in a file of %d", stored, len(data))
		}
	})
}
