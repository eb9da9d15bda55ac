package doctor

import (
	"path/filepath"
	"testing"
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
		"linked folder":             {"ln -s lib bun/lib64", "bun"},
		"lib is a link":             {"mkdir bun/real; mv bun/lib bun/real/lib; ln -s real/lib bun/lib", "bun"},
		"lib is a link, packed":     {"mkdir bun/real; mv bun/lib bun/real/lib; ln -s real/lib bun/lib; tar -czf a.tgz bun", "a.tgz"},
		"a folder linked to itself": {"ln -s . bun/self; ln -s ../bin bun/bin/again", "bun"},
		"linked bundle":             {"ln -s bun lb", "lb"},
		"program":                   {"", "bun/bin/prog"},
		"linked program":            {"ln -s bun/bin/prog lnk", "lnk"},
		"link to the program":       {"ln -s bin/prog bun/prog", "bun"},
		"top folder":                {"tar -czf a.tgz bun", "a.tgz"},
		"flat":                      {"tar -czf a.tgz -C bun .", "a.tgz"},
		"flat, no dot":              {"tar -czf a.tgz -C bun bin lib", "a.tgz"},
		"hard links":                {"ln bun/lib/libf.so.0 bun/lib/a.so; tar -czf a.tgz bun/lib/a.so bun/lib/libf.so.0 bun/bin", "a.tgz"},
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

// What does not run is not said to.
func TestDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, file, say string }{
		"two top folders": {"mkdir a b; mv bun/bin a; mv bun/lib b; tar -czf a.tgz a b", "a.tgz", "a/bin/prog does not find what it needs of the bundle (libf.so.0)"},
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
