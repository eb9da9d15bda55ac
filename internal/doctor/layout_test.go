package doctor

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// laid compiles a program in bin and the library that it needs in lib into bun.
func laid(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sh(t, dir, `mkdir -p bun/bin bun/lib
echo 'int f(void) { return 0; }' > l.c
echo 'int f(void); int main(void) { return f(); }' > m.c
gcc -shared -fPIC -Wl,-soname,libf.so.0 -o bun/lib/libf.so.0 l.c
gcc -Wl,-rpath,'$ORIGIN/../lib' -o bun/bin/prog m.c -Lbun/lib -l:libf.so.0`)
	return dir
}

// What runs when it is unpacked is said to run, however it is packed and linked.
func TestLayouts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, file string }{
		"linked folder": {"ln -s lib bun/lib64", "bun"},
		"lib is a link": {"mkdir bun/real; mv bun/lib bun/real/lib; ln -s real/lib bun/lib", "bun"},
		"lib is a link, packed": {
			"mkdir bun/real; mv bun/lib bun/real/lib; ln -s real/lib bun/lib; tar -czf a.tgz bun",
			"a.tgz",
		},
		"a folder linked to itself": {"ln -s . bun/self; ln -s ../bin bun/bin/again", "bun"},
		"linked bundle":             {"ln -s bun lb", "lb"},
		"program":                   {"", "bun/bin/prog"},
		"linked program":            {"ln -s bun/bin/prog lnk", "lnk"},
		"link to the program":       {"ln -s bin/prog bun/prog", "bun"},
		"top folder":                {"tar -czf a.tgz bun", "a.tgz"},
		"flat":                      {"tar -czf a.tgz -C bun .", "a.tgz"},
		"flat, no dot":              {"tar -czf a.tgz -C bun bin lib", "a.tgz"},
		"hard links": {"ln bun/lib/libf.so.0 bun/lib/a.so; tar -czf a.tgz bun/lib/a.so " +
			"bun/lib/libf.so.0 bun/bin", "a.tgz"},
		"one folder": {`mkdir fl; cp bun/lib/* fl; gcc -Wl,-rpath,'$ORIGIN' -o fl/prog m.c -Lfl -l:libf.so.0
			tar -czf a.tgz -C fl .`, "a.tgz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := laid(t)
			sh(t, dir, c.script)
			r, err := soon(t, filepath.Join(dir, c.file))
			must(t, err)
			if !r.Able || !has(r, OK, "bundle", "Its 2 files find one another") {
				t.Errorf("\n%s", r.Text())
			}
		})
	}
}

// backendless puts a libggml that loads its backends, as GGML_BACKEND_DL makes it, into
// the bundle's only library's place.
const backendless = `echo 'int base(void) { return 0; }' > base.c
echo 'int base(void); int f(void) { return base(); }' > ggml.c
gcc -shared -fPIC -Wl,-soname,libggml-base.so.0 -o bun/lib/libggml-base.so.0 base.c
rm bun/lib/libf.so.0
gcc -shared -fPIC -Wl,-rpath,'$ORIGIN' -Wl,-soname,libggml.so.0 -o bun/lib/libggml.so.0 ggml.c -Lbun/lib -l:libggml-base.so.0
gcc -Wl,-rpath,'$ORIGIN/../lib' -Wl,-rpath-link,bun/lib -o bun/bin/prog m.c -Lbun/lib -l:libggml.so.0
`

// A backend of any kind serves.
func TestBackend(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, backendless+backend+"gcc -shared -fPIC -o bun/bin/libggml-cpu-haswell.so b.c")
	for _, file := range []string{"bun", "bun/bin/prog"} {
		if r, err := soon(t, filepath.Join(dir, file)); err != nil || !r.Able {
			t.Errorf("%v\n%s", err, r.Text())
		}
	}
	// auditwheel's names with a hash are those of variants, which need a score; another name is no
	// backend's at all.
	sh(t, dir, `rm bun/bin/libggml-cpu-haswell.so; echo 'int ggml_backend_init(void) { return 0; }' > n.c
gcc -shared -fPIC -o bun/bin/libggml-cpu-05e8ee48.so n.c; gcc -shared -fPIC -o bun/bin/libfast.so b.c`)
	for _, file := range []string{"bun", "bun/bin/prog"} {
		r, err := soon(t, filepath.Join(dir, file))
		if err != nil || r.Able || !has(r, Missing, "bundle", "libggml.so.0 loads its backends from the program's folder") {
			t.Errorf("%v\n%s", err, r.Text())
		}
	}
}

// backend is the source of one in b.c.
const backend = `echo 'int ggml_backend_init(void) { return 0; } int ggml_backend_score(void) { return 1; }' > b.c
`

// A program and the folder in which it lies are one thing: what is missing of a backend that it
// loads is missing of both. Where another backend has all of its own, it is no hindrance.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	const cuda = `echo 'int c;' > c.c
gcc -shared -fPIC -Wl,-soname,libnowhere.so.12 -o libnowhere.so.12 c.c
gcc -shared -fPIC -Wl,--no-as-needed -o bun/bin/libggml-cuda.so b.c -L. -l:libnowhere.so.12
gcc -shared -fPIC -o bun/bin/libggml-cpu-haswell.so b.c
`
	for name, c := range map[string]struct {
		script string
		able   bool
		status Status
		says   string
	}{
		"CUDA's is missing": {cuda, false, Missing, "libggml-cuda.so needs libnowhere.so.12, which is not here."},
		"Vulkan serves": {
			cuda + "gcc -shared -fPIC -o bun/bin/libggml-vulkan.so b.c", true, Missing,
			"libggml-cuda.so needs libnowhere.so.12, which is not here: that backend is not loaded.",
		},
		"BLAS is missing, and the processor's own is there": {
			strings.ReplaceAll(cuda, "libggml-cuda", "libggml-blas"), true, Missing,
			"libggml-blas.so needs libnowhere.so.12, which is not here: that backend is not loaded.",
		},
		"RPC alone does not": {
			cuda + "gcc -shared -fPIC -o bun/bin/libggml-rpc.so b.c", false, Missing,
			"libggml-cuda.so needs libnowhere.so.12, which is not here.",
		},
	} {
		dir := laid(t)
		sh(t, dir, backendless+backend+c.script)
		var answers []string
		for _, file := range []string{"bun", "bun/bin/prog"} {
			r, err := soon(t, filepath.Join(dir, file))
			must(t, err)
			if r.Able != c.able || !has(r, c.status, "library", c.says) {
				t.Errorf("%s, %s:\n%s", name, file, r.Text())
			}
			text := strings.ReplaceAll(r.Text(), "bin/", "")
			answers = append(answers, text[:strings.LastIndex(strings.TrimSpace(text), "\n")])
		}
		for _, about := range []string{"library ", "card "} {
			if one, two := lines(answers[0], about), lines(answers[1], about); one != two {
				t.Errorf("%s: the folder\n%sand the program\n%s", name, one, two)
			}
		}
	}
}

// A library that one backend lacks ends no search for what the others lack.
func TestSymbolsBesideSpare(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, backendless+backend+`echo 'int c;' > c.c
gcc -shared -fPIC -Wl,-soname,libnowhere.so.12 -o libnowhere.so.12 c.c
echo 'int of_nowhere(void); int ggml_backend_init(void) { return of_nowhere(); }' > n.c
gcc -shared -fPIC -Wl,--no-as-needed -o bun/bin/libggml-cuda.so n.c -L. -l:libnowhere.so.12
gcc -shared -fPIC -o bun/bin/libggml-vulkan.so b.c
gcc -shared -fPIC -o bun/bin/libggml-cpu.so b.c`)
	r, err := soon(t, filepath.Join(dir, "bun"))
	if err != nil || !r.Able || strings.Contains(r.Text(), "of_nowhere") {
		t.Errorf("%v\n%s", err, r.Text())
	}
	sh(t, dir, `echo 'int lost(void); int ggml_backend_init(void) { return lost(); }' > b.c
gcc -shared -fPIC -o bun/bin/libggml-cpu.so b.c`)
	r, err = soon(t, filepath.Join(dir, "bun"))
	if err != nil || r.Able || !has(r, Missing, "bundle", "libggml-cpu.so imports lost, which no library") ||
		strings.Contains(r.Text(), "of_nowhere") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// lines are those of a text that are about something.
func lines(text, about string) (out string) {
	for l := range strings.Lines(text) {
		if strings.Contains(l, "  "+about) {
			out += l
		}
	}
	return out
}

// What Node or Python gives an addon is nobody's to lack; what it lacks beside that is.
func TestAddon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `echo 'int napi_create_int32(void); void napi_register_module_v1(void) { napi_create_int32(); }' > n.c
gcc -shared -fPIC -o llama-addon.node n.c
echo 'int PyLong_FromLong(long), lost(void); int PyInit_m(void) { return PyLong_FromLong(lost()); }' > p.c
gcc -shared -fPIC -o m.so p.c`)
	r, err := soon(t, filepath.Join(dir, "llama-addon.node"))
	must(t, err)
	if !r.Able || !has(r, OK, "bundle", "llama-addon.node is loaded by Node, which gives it 1 function of its own") {
		t.Errorf("\n%s", r.Text())
	}
	if r, err = soon(t, filepath.Join(dir, "m.so")); err != nil || r.Able || !has(r, OK, "bundle", "loaded by Python") ||
		!has(r, Missing, "bundle", "m.so imports lost, which") {
		t.Errorf("%v\n%s", err, r.Text())
	}
	// Who is no addon, and lies beside none, is given nothing; a library beside one is.
	sh(t, dir, `mkdir none some; echo 'int uv_run(void); int g(void) { return uv_run(); }' > u.c
gcc -shared -fPIC -o none/libu.so u.c; cp none/libu.so llama-addon.node some; cp m.so none`)
	for folder, able := range map[string]bool{"none/libu.so": false, "none": false, "some": true} {
		r, err := soon(t, filepath.Join(dir, folder))
		if err != nil || r.Able != able || !able && !has(r, Missing, "bundle", "libu.so imports uv_run, which") {
			t.Errorf("%s: %v\n%s", folder, err, r.Text())
		}
	}
}

// A program for another system is named as one; beside programs for Linux it is nobody's business.
func TestForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const wasm = "\x00asm\x01\x00\x00\x00"
	macho := "\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + strings.Repeat("\x00", 4) + "\x02" + strings.Repeat("\x00", 19)
	for name, c := range map[string]struct{ text, says string }{
		"page.wasm": {wasm, "page.wasm is a WebAssembly module for any runtime"},
		"prog":      {macho, "prog is a Mach-O program for an Apple system on arm64, and this machine is Linux on "},
	} {
		r, err := soon(t, put(t, filepath.Join(dir, name), c.text, 0o755))
		must(t, err)
		if r.Able || r.Kind != KindFile || !has(r, Missing, "machine", c.says) {
			t.Errorf("\n%s", r.Text())
		}
	}
	exe, err := soon(t, "../binary/testdata/pe/app.exe")
	must(t, err)
	if exe.Able || !has(exe, Missing, "machine", "It is for IMAGE_FILE_MACHINE_AMD64") {
		t.Errorf("\n%s", exe.Text())
	}
	if r, err := soon(t, dir); err != nil || r.Able {
		t.Errorf("a folder of them: %v\n%s", err, r.Text())
	}
	bun := laid(t)
	put(t, filepath.Join(bun, "bun/page.wasm"), wasm, 0o644)
	if r, err := soon(t, filepath.Join(bun, "bun")); err != nil || !r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// What needs Vulkan is no build for the processor alone.
func TestOtherCards(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, backendless+backend+`echo 'int v;' > v.c; mkdir sys; gcc -shared -fPIC -Wl,-soname,libvulkan.so.1 -o sys/libvulkan.so.1 v.c
gcc -shared -fPIC -Wl,--no-as-needed -o bun/bin/libggml-vulkan.so b.c -Lsys -l:libvulkan.so.1`)
	env := append(none(t), "LD_LIBRARY_PATH="+filepath.Join(dir, "sys"))
	r, err := Bundle(t.Context(), env, spec.Advisories{}, filepath.Join(dir, "bun/bin/prog"))
	must(t, err)
	if !r.Able || !has(r, Unknown, "card", "libggml-vulkan.so runs on any card that has a driver for Vulkan") ||
		strings.Contains(r.Text(), "It needs no card") {
		t.Errorf("\n%s", r.Text())
	}
}

// A symbol may come from a library of the system that has no versions, or from one that
// such a library needs.
func TestSystemSymbol(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, `mkdir sys; gcc -shared -fPIC -o sys/libdeep.so l.c; echo 'int h;' > h.c
gcc -shared -fPIC -Wl,--no-as-needed -o sys/libf.so.0 h.c -Lsys -l:libdeep.so; rm bun/lib/libf.so.0`)
	env := append(none(t), "LD_LIBRARY_PATH="+filepath.Join(dir, "sys"))
	r, err := Bundle(t.Context(), env, spec.Advisories{}, filepath.Join(dir, "bun"))
	if err != nil || !r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
	sh(t, dir, "gcc -shared -fPIC -o sys/libdeep.so h.c")
	if r, err = Bundle(t.Context(), env, spec.Advisories{}, filepath.Join(dir, "bun")); err != nil ||
		!has(r, Missing, "bundle", "bin/prog imports f, which no library") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// What a file demands of a version is compared by the version's own name, and a symbol
// by both: a library may have the highest version and lack another, or a symbol of it.
func TestSymbolVersions(t *testing.T) {
	t.Parallel()
	const make = `mkdir -p sys bun
v() { printf "$1" > v.map; printf "$2" > v.c; gcc -shared -fPIC -Wl,--version-script=v.map -Wl,-soname,libv.so.1 -o $3/libv.so.1 v.c; }
v 'FOO_1 { f; }; FOO_2 { g; }; FOO_3 { h; };' 'int f(void){return 0;} int g(void){return 0;} int h(void){return 0;}' sys
echo 'int g(void); int main(void) { return g(); }' > m.c
gcc -Wl,-rpath,'$ORIGIN' -o bun/prog m.c -Lsys -l:libv.so.1
`
	for name, c := range map[string]struct {
		script string
		able   bool
		about  string
		say    string
	}{
		"all": {"", true, "library", "What it needs of the system and is here: libc.so.6, libv.so.1"},
		"another version": {
			"v 'FOO_1 { f; }; FOO_3 { h; };' 'int f(void){return 0;} int h(void){return 0;}' sys",
			false, "libv.so.1", "prog needs the version FOO_2 of libv.so.1, which that of this machine does not have.",
		},
		"without the symbol": {
			"v 'FOO_1 { f; }; FOO_2 { h; };' 'int f(void){return 0;} int h(void){return 0;}' sys",
			false, "bundle", "prog imports g@FOO_2, which no library that it needs has.",
		},
		"under another version": {
			"v 'FOO_1 { g; }; FOO_2 { h; };' 'int g(void){return 0;} int h(void){return 0;}' sys",
			false, "bundle", "prog imports g@FOO_2, which no library",
		},
		"without versions": {"echo 'int g(void){return 0;}' > v.c; gcc -shared -fPIC -Wl,-soname,libv.so.1 -o " +
			"sys/libv.so.1 v.c", false, "libv.so.1", "prog needs the version FOO_2 of libv.so.1"},
		"of the bundle": {"v 'FOO_1 { f; }; FOO_3 { h; };' 'int f(void){return 0;} int h(void){return 0;}' bun; rm " +
			"sys/libv.so.1", false, "libv.so.1", "prog needs the version FOO_2 of libv.so.1, which that of the bundle " +
			"does not have."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, make+c.script)
			r, err := Bundle(t.Context(), append(none(t), "LD_LIBRARY_PATH="+filepath.Join(dir, "sys")), spec.Advisories{},
				filepath.Join(dir, "bun"))
			must(t, err)
			status := OK
			if !c.able {
				status = Missing
			}
			if r.Able != c.able || !has(r, status, c.about, c.say) {
				t.Errorf("\n%s", r.Text())
			}
			// The loader is the judge.
			cmd := exec.Command(filepath.Join(dir, "bun/prog"))
			cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "sys"), "LD_BIND_NOW=1"}
			if out, err := cmd.CombinedOutput(); (err == nil) != c.able {
				t.Errorf("it runs: %v\n%s", err, out)
			}
		})
	}
}

// What is half built is not said to run.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, `mkdir -p out/build/stage out/stage; echo x > out/build/CMakeCache.txt; cp -r bun out/build; cp -r bun out/stage
(cd bun; echo more > extra; sha256sum bin/prog lib/libf.so.0 extra > SHA256SUMS)`)
	for _, at := range []string{"out", "out/build"} {
		refused(t, filepath.Join(dir, at), "a folder to build in")
	}
	r, err := soon(t, filepath.Join(dir, "out/build/bun"))
	if err != nil || !r.Able || !has(r, Unknown, "bundle", "whether all of it is built is not known") {
		t.Errorf("%v\n%s", err, r.Text())
	}
	if r, err = soon(t, filepath.Join(dir, "bun")); err != nil || !r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
	sh(t, dir, "rm bun/extra")
	r, err = soon(t, filepath.Join(dir, "bun"))
	if err != nil || r.Able || !has(r, Missing, "bundle", "extra is not there, and SHA256SUMS names it") ||
		has(r, OK, "bundle", "find one another") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// A library in a folder of this machine that the file names is found, and what that needs.
func TestNamedFolder(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, `mkdir -p own/deep one; echo 'int d(void) { return 0; }' > d.c; gcc -shared -fPIC -o own/deep/libd.so d.c
echo 'int d(void); int f(void) { return d(); }' > f.c
gcc -shared -fPIC -Wl,-rpath,'$ORIGIN/deep' -Wl,-soname,libf.so.0 -o own/libf.so.0 f.c -Lown/deep -l:libd.so
gcc -Wl,-rpath,$PWD/own -o one/prog m.c -Lown -l:libf.so.0 -Wl,-rpath-link,own/deep`)
	r, err := soon(t, filepath.Join(dir, "one/prog"))
	if err != nil || !r.Able || !has(r, OK, "library", "libf.so.0") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// ld.so knows two spellings of a file's own folder (ld.so(8)): a report says the same of both.
func TestOrigin(t *testing.T) {
	t.Parallel()
	const linked = `gcc -Wl,-rpath,'ORIGIN/../lib' -o bun/bin/prog m.c -Lbun/lib -l:libf.so.0`
	for name, c := range map[string]struct {
		script, file string
		able         bool
	}{
		"bundle":  {linked, "bun", true},
		"program": {linked, "bun/bin/prog", true},
		// What a library of this machine needs is read too: here it lacks f.
		"beyond the bundle": {`mkdir -p own/deep one; echo 'int f(void) { return 0; } int g(void) { return 0; }' > g.c
gcc -shared -fPIC -o own/libg.so g.c
echo 'int f(void); int g(void); int main(void) { return f() + g(); }' > n.c
gcc -Wl,-rpath,$PWD/own -o one/prog n.c -Lown -l:libg.so
echo 'int g(void) { return 0; }' > g.c; echo 'int h(void) { return 0; }' > h.c
gcc -shared -fPIC -o own/deep/libh.so h.c
gcc -shared -fPIC -Wl,--no-as-needed,-rpath,'ORIGIN/deep' -o own/libg.so g.c -Lown/deep -l:libh.so`, "one/prog", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := laid(t)
			var reports []string
			for _, origin := range []string{"$ORIGIN", "${ORIGIN}"} {
				sh(t, dir, "rm -rf own one;"+strings.ReplaceAll(c.script, "ORIGIN", origin))
				r, err := soon(t, filepath.Join(dir, c.file))
				must(t, err)
				if r.Able != c.able {
					t.Errorf("with %s: able %v", origin, r.Able)
				}
				reports = append(reports, r.Text())
			}
			if reports[0] != reports[1] {
				t.Errorf("without braces:\n%s\nwith:\n%s", reports[0], reports[1])
			}
		})
	}
}

// Files do not find one another where one of them is not there.
func TestTogether(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, "echo 'int other(void) { return 0; }' > o.c; gcc -shared -fPIC -o bun/lib/libother.so o.c; rm "+
		"bun/lib/libf.so.0")
	r, err := soon(t, filepath.Join(dir, "bun"))
	if err != nil || !has(r, Missing, "library", "bin/prog needs libf.so.0, which is not here") ||
		has(r, OK, "bundle", "find one another") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// A file whose loaded part lies beyond its end is loaded by nobody, whatever its sections
// say.
func TestShort(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	file := filepath.Join(dir, "bun/lib/libf.so.0")
	data, err := os.ReadFile(file)
	must(t, err)
	le := binary.LittleEndian
	for n := range int(le.Uint16(data[56:])) {
		ph := data[int(le.Uint64(data[32:]))+n*56:]
		if elf.ProgType(le.Uint32(ph)) == elf.PT_LOAD {
			le.PutUint64(ph[32:], 1<<30)
			le.PutUint64(ph[40:], 1<<30)
		}
	}
	must(t, os.WriteFile(file, data, 0o755))
	r, err := soon(t, filepath.Join(dir, "bun"))
	if err != nil || !has(r, Missing, "bundle", "lib/libf.so.0 ends before what it wants loaded") || r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// What does not run is not said to.
func TestDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, file, say string }{
		"two top folders": {
			"mkdir a b; mv bun/bin a; mv bun/lib b; tar -czf a.tgz a b", "a.tgz",
			"a/bin/prog does not find what it needs of the bundle (libf.so.0)",
		},
		"no right to run": {
			"chmod a-x bun/bin/prog", "bun",
			"bin/prog is a program and may not be run. [chmod +x bin/prog]",
		},
		"no right to run, packed": {
			"chmod a-x bun/bin/prog; tar -czf a.tgz bun", "a.tgz",
			"bin/prog is a program and may not be run",
		},
		"no right to run, alone": {"chmod a-x bun/bin/prog", "bun/bin/prog", "prog is a program and may not be run"},
		"a library without symbol": {"echo 'int g;' > g.c; gcc -shared -fPIC -Wl,-soname,libf.so.0 -o " +
			"bun/lib/libf.so.0 g.c", "bun", "bin/prog imports f, which no library that it needs has"},
		"no backend": {
			backendless, "bun",
			"libggml.so.0 loads its backends from the program's folder, and there is none",
		},
		"no backend beside a program": {backendless, "bun/bin/prog", "and there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := laid(t)
			sh(t, dir, c.script)
			r, err := soon(t, filepath.Join(dir, c.file))
			must(t, err)
			if r.Able || !has(r, Missing, "bundle", c.say) {
				t.Errorf("\n%s", r.Text())
			}
		})
	}
}

// An object file is no program; beside one it harms nobody.
func TestObjectFile(t *testing.T) {
	t.Parallel()
	dir := laid(t)
	sh(t, dir, "gcc -c -o m.o m.c; mkdir objects; cp m.o objects; cp m.o bun; tar -czf a.tgz objects")
	for _, file := range []string{"m.o", "objects", "a.tgz"} {
		refused(t, filepath.Join(dir, file), "holds object files (m.o) alone, which are no programs")
	}
	if r, err := soon(t, filepath.Join(dir, "bun")); err != nil || !r.Able {
		t.Errorf("%v\n%s", err, r.Text())
	}
}
