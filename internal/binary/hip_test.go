package binary_test

import (
	"bytes"
	"compress/zlib"
	"crypto/md5" //nolint:gosec // clang's own checksum
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	inspect "github.com/llpatch/llpatch/internal/binary"
)

func readHIP(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/hip", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

var (
	saidMachineRE = regexp.MustCompile(`Machine: +EM_AMDGPU`)
	saidABIRE     = regexp.MustCompile(`ABI Version: +(\d)`)
	saidFlagsRE   = regexp.MustCompile(`Flags: +0x[0-9A-F]+, ([^\n]+)`)
)

// saidHIP turns what LLVM's tools said into lines as heldHIP writes them.
func saidHIP(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	for _, part := range strings.Split(text, "bundle ")[1:] {
		id, rest, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(id, "host-") {
			if strings.TrimSpace(rest) != "" {
				t.Fatalf("the host's part holds something: %s", rest)
			}
			continue
		}
		flags, abi := saidFlagsRE.FindStringSubmatch(rest), saidABIRE.FindStringSubmatch(rest)
		if flags == nil || abi == nil || !saidMachineRE.MatchString(rest) {
			t.Fatalf("%s: %s", id, rest)
		}
		words := strings.Split(flags[1], ", ")
		line := words[0]
		for _, f := range []string{"sramecc", "xnack"} {
			for _, w := range words[1:] {
				switch w {
				case f:
					line += " " + f + "=any"
				case f + "+":
					line += " " + f + "=on"
				case f + "-":
					line += " " + f + "=off"
				}
			}
		}
		list = append(list, line+" v"+string(abi[1][0]+2))
	}
	slices.Sort(list)
	return list
}

func heldHIP(h *inspect.HIP) []string {
	var list []string
	for _, c := range h.Code {
		line, _, _ := strings.Cut(c.Target, ":")
		for _, f := range [][2]string{{"sramecc", c.SramECC}, {"xnack", c.Xnack}} {
			if f[1] != "" {
				line += " " + f[0] + "=" + f[1]
			}
		}
		for range c.Objects {
			list = append(list, line+" v"+string(rune('0'+c.Version)))
		}
	}
	slices.Sort(list)
	return list
}

// The oracles are clang-offload-bundler and llvm-readelf, whose answers lie beside
// the bundles.
func TestBundlesAgreeWithLLVM(t *testing.T) {
	for name, compression := range map[string]string{
		"plain": "none", "packed2": "zstd", "packed3": "zstd",
		"version4": "none",
	} {
		h := parse(t, readHIP(t, name+".hipfb")).HIP
		expect := saidHIP(t, string(readHIP(t, name+".said")))
		if len(expect) == 0 {
			t.Fatalf("%s: nothing was said", name)
		}
		if diff := cmp.Diff(expect, heldHIP(h)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if h.Bundles != 1 || len(h.Faults) > 0 || !slices.Equal(h.Compiler, []string{"Debian clang version 21.1.8 (13)"}) {
			t.Errorf("%s: %+v", name, h)
		}
		for _, c := range h.Code {
			if !slices.Equal(c.Compression, []string{compression}) || c.Bytes < 1000 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// Targets come in the order of their generations, and those of one generation by name and version.
func TestOrderOfTargets(t *testing.T) {
	var got []string
	old, all := readHIP(t, "version4.hipfb"), readHIP(t, "plain.hipfb")
	for _, c := range parse(t, slices.Concat(all, make([]byte, 8-len(all)%8), old)).HIP.Code {
		got = append(got, c.Target+" v"+string(rune('0'+c.Version)))
	}
	want := []string{
		"gfx906 v6", "gfx1200 v6", "gfx1201 v4", "gfx1201 v6", "gfx12-generic v6",
		"gfx90a:sramecc+:xnack+ v6", "gfx90a:sramecc+:xnack- v6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// repack makes a compressed bundle with a header of version 1, which does not say how
// long it is, of what a plain one holds.
func repack(body []byte, method uint16, content []byte) []byte {
	sum := md5.Sum(content) //nolint:gosec // as above
	out := binary.LittleEndian.AppendUint16([]byte("CCOB"), 1)
	out = binary.LittleEndian.AppendUint16(out, method)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(content)))
	return append(append(out, sum[:8]...), body...)
}

// A header of version 1 does not say where the bundle ends: what is compressed does.
func TestBundlesWithoutLength(t *testing.T) {
	body := readHIP(t, "packed2.hipfb")[24:]
	d, err := zstd.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	plain, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	first := repack(body, 1, plain)
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(first, make([]byte, 8-len(first)%8), repack(packed.Bytes(), 0, plain))
	all = append(all, make([]byte, 8-len(all)%8)...)
	all = append(all, plain...)
	h := parse(t, all).HIP
	if h.Bundles != 3 || len(h.Faults) > 0 {
		t.Fatalf("%+v", h)
	}
	for _, c := range h.Code {
		if c.Objects != 3 || !slices.Equal(c.Compression, []string{"none", "zlib", "zstd"}) {
			t.Errorf("%+v", c)
		}
	}
}

// What contradicts itself is said, and what can still be read stays.
func TestBundleFaults(t *testing.T) {
	le := binary.LittleEndian
	plain, two, three := readHIP(t, "plain.hipfb"), readHIP(t, "packed2.hipfb"), readHIP(t, "packed3.hipfb")
	object := bytes.Index(plain, []byte("\x7fELF"))
	for name, c := range map[string]struct {
		data   []byte
		change func(b []byte) []byte
		want   string
	}{
		"a lie about the target": {plain, func(b []byte) []byte {
			return bytes.Replace(b, []byte("--gfx1201"), []byte("--gfx1100"), 1)
		}, "the bundle says gfx1100, the code object in it gfx1201"},
		"another feature": {plain, func(b []byte) []byte {
			return bytes.Replace(b, []byte(":xnack+"), []byte(":xnack-"), 1)
		}, "the bundle says gfx90a:sramecc+:xnack-, the code object in it gfx90a:sramecc+:xnack+"},
		"cut off in the header": {plain, func(b []byte) []byte { return b[:28] }, "cut off in its header"},
		"cut off in an id":      {plain, func(b []byte) []byte { return b[:60] }, "cut off in the id of entry 1"},
		"cut off in an object":  {plain, func(b []byte) []byte { return b[:len(b)-100] }, "which does not fit"},
		"something behind it": {plain, func(b []byte) []byte {
			return append(b, "rubbish, and more of it"...)
		}, "is no offload bundle"},
		"endless entries": {plain, func(b []byte) []byte {
			le.PutUint64(b[24:], 1<<60)
			return b
		}, "the id of entry"},
		"an endless id": {plain, func(b []byte) []byte {
			le.PutUint64(b[48:], 1<<60)
			return b
		}, "the id of entry 1 is"},
		"an entry far away": {plain, func(b []byte) []byte {
			le.PutUint64(b[32:], 1<<60)
			return b
		}, "which does not fit"},
		"an unknown processor": {plain, func(b []byte) []byte {
			b[object+48] = 0xfe
			return b
		}, "its processor has the number 0xfe"},
		"code of another machine": {plain, func(b []byte) []byte { b[object+18] = 62; return b }, "EM_X86_64"},
		"no ELF file":             {plain, func(b []byte) []byte { b[object] = 0; return b }, "no ELF file"},
		"an unknown version":      {two, func(b []byte) []byte { b[4] = 9; return b }, "version 9"},
		"an unknown compression":  {two, func(b []byte) []byte { b[6] = 9; return b }, "not known (9)"},
		"a wrong checksum":        {two, func(b []byte) []byte { b[16] ^= 1; return b }, "does not have the checksum"},
		"a wrong length": {two, func(b []byte) []byte {
			le.PutUint32(b[12:], 40000)
			return b
		}, "becomes 40000 bytes long, and becomes 33208"},
		"longer than it says": {two, func(b []byte) []byte {
			le.PutUint32(b[12:], 100)
			return b
		}, "becomes 100 bytes long, and becomes 101"},
		"longer than the file": {two, func(b []byte) []byte {
			le.PutUint32(b[8:], 1<<30)
			return b
		}, "says that it is 1073741824 bytes long"},
		"an explosion": {three, func(b []byte) []byte {
			le.PutUint64(b[16:], 1<<60)
			return b
		}, "more than is opened"},
		"cut off, compressed": {three, func(b []byte) []byte { return b[:20] }, "cut off in its header"},
		"broken zstd":         {three, func(b []byte) []byte { b[60] ^= 0xff; return b }, "zstd"},
		"no zstd at all":      {three, func(b []byte) []byte { b[32] = 0; return b }, "no zstd frame"},
	} {
		f := parse(t, c.change(slices.Clone(c.data)))
		if all := strings.Join(f.HIP.Faults, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: faults %q, want %q", name, all, c.want)
		}
	}
}

// Which cards run what: exactly what is named, and a family for a generic target.
func TestGPUs(t *testing.T) {
	var list []string
	for _, g := range inspect.GPUs(parse(t, readHIP(t, "plain.hipfb"))) {
		list = append(list, g.GFX+"="+strings.Join(g.By, "+"))
	}
	want := "gfx906=gfx906 gfx90a=gfx90a:sramecc+:xnack+ gfx1200=gfx1200 gfx1201=gfx1201"
	if got := strings.Join(list, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		targets []string
		gfx     string
		want    string
	}{
		{[]string{"gfx12-generic", "gfx1201"}, "gfx1201", "gfx1201"},
		{[]string{"gfx1201", "gfx12-generic"}, "gfx1201", "gfx1201"},
		{[]string{"gfx12-generic", "gfx1201"}, "gfx1200", "gfx12-generic"},
		{[]string{"gfx1201"}, "gfx1200", ""},
		{[]string{"gfx11-generic"}, "gfx1151", "gfx11-generic"},
		{[]string{"gfx9-generic"}, "gfx90a", ""},
		{[]string{"gfx90a:xnack-"}, "gfx90a", "gfx90a:xnack-"},
	} {
		if got := inspect.ServesGFX(c.targets, c.gfx); got != c.want {
			t.Errorf("%v on %s: %q, want %q", c.targets, c.gfx, got, c.want)
		}
	}
}

// Each processor's number, and what clang makes of its name, on the clang that is
// here: it knows most of them.
func TestProcessorsAgreeWithClang(t *testing.T) {
	clang := newestClang()
	if clang == "" {
		t.Skip("SKIPPED: there is no clang for AMD's processors on this machine (Debian package clang-19 or newer)")
	}
	dir := t.TempDir()
	known := 0
	for _, gfx := range inspect.GFXNames() {
		file := filepath.Join(dir, gfx+".o")
		if out, err := exec.Command(clang, "--target=amdgcn-amd-amdhsa", "-mcpu="+gfx, "-c", "-x", "assembler", "-o", file,
			os.DevNull).CombinedOutput(); err != nil {
			if strings.Contains(string(out), gfx) {
				t.Logf("%s does not know %s", clang, gfx)
				continue
			}
			t.Fatalf("%v: %s", err, out)
		}
		known++
		f, err := inspect.Inspect(file)
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != "EM_AMDGPU" || f.HIP == nil || len(f.HIP.Code) != 1 ||
			!strings.HasPrefix(f.HIP.Code[0].Target+":", gfx+":") {
			t.Errorf("%s: %s, %+v", gfx, f.Machine, f.HIP)
		}
	}
	if known < 40 {
		t.Errorf("clang knows only %d of them", known)
	}
}

func newestClang() string {
	for _, name := range []string{"clang-22", "clang-21", "clang-20", "clang-19"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// embedHIP makes a shared library with bundles in the section that clang uses.
func embedHIP(t *testing.T, flags []string, bundles ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	all := []byte{}
	for _, b := range bundles {
		all = append(all, b...)
		all = append(all, make([]byte, (4096-len(all)%4096)%4096)...)
	}
	if err := os.WriteFile(filepath.Join(dir, "bundles"), all, 0o644); err != nil {
		t.Fatal(err)
	}
	asm := ".section .hip_fatbin,\"a\",@progbits\n.align 4096\n.incbin \"bundles\"\n.section " +
		".note.GNU-stack,\"\",@progbits\n"
	if len(bundles) == 0 {
		asm = ".section .note.GNU-stack,\"\",@progbits\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "device.s"), []byte(asm), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-o", "libggml-hip.so", "device.s"}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return filepath.Join(dir, "libggml-hip.so")
}

func TestHIPInELF(t *testing.T) {
	runtime := filepath.Join(t.TempDir(), "libamdhip64.so.6")
	if out, err := exec.Command("gcc", "-shared", "-Wl,-soname,libamdhip64.so.6", "-o", runtime, "-x", "c",
		"/dev/null").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	get := func(path string) *inspect.HIP {
		f, err := inspect.Inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		return f.HIP
	}
	h := get(embedHIP(t, []string{"-Wl,--no-as-needed", runtime}, readHIP(t, "packed3.hipfb"),
		readHIP(t, "packed2.hipfb"), readHIP(t, "plain.hipfb")))
	if h.Bundles != 3 || h.Runtime != "6" || len(h.Faults) > 0 || len(h.Code) != 6 || h.Code[0].Objects != 3 {
		t.Errorf("%+v", h)
	}
	if h := get(embedHIP(t, []string{"-Wl,--no-as-needed", runtime})); h == nil || h.Runtime != "6" || h.Bundles != 0 {
		t.Errorf("host code only: %+v", h)
	}
	if h := get(runtime); h == nil || h.Runtime != "6" {
		t.Errorf("the runtime itself: %+v", h)
	}
	if h := get(embedHIP(t, nil)); h != nil {
		t.Errorf("no HIP at all: %+v", h)
	}
}

func FuzzBundle(f *testing.F) {
	names, err := filepath.Glob("testdata/hip/*.hipfb")
	if err != nil || len(names) < 4 {
		f.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		data := readHIP(f, filepath.Base(name))
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := inspect.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil || out.HIP == nil {
			return
		}
		objects := 0
		for _, c := range out.HIP.Code {
			objects += c.Objects
		}
		if len(inspect.GPUs(out)) > 0 && objects == 0 {
			t.Fatal("cards without a code object")
		}
	})
}
