package spec_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

const goodEnv = `summary = "s"
suite = "bookworm"
arch = "amd64"
components = ["main"]
base = ["cmake"]
unpack = ["nvidia-cuda-dev"]
exclude = ["usr/share/{doc,man}/**"]
[links]
"/usr/bin/cc" = "gcc-11"
[program.cc]
path = "/usr/bin/cc"
version = "11.3"
[gather]
"/opt/cuda/include" = "/usr/include"
`

const goodLock = "suite bookworm amd64\ncmake 3.25.1-1 amd64 10 20 " +
	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" + " pool/main/c/cmake/cmake_3.25.1-1_amd64.deb\n"

func loadEnv(t *testing.T, toml, lock string) (*spec.Repo, error) {
	t.Helper()
	m := files(t, "testdata/good.txtar")
	m["buildenv/x/env.toml"] = &fstest.MapFile{Data: []byte(toml)}
	if lock != "" {
		m["buildenv/x/packages.lock"] = &fstest.MapFile{Data: []byte(lock)}
	}
	return spec.Load(m)
}

func TestEnv(t *testing.T) {
	r, err := loadEnv(t, goodEnv, goodLock)
	if err != nil {
		t.Fatal(err)
	}
	limited, err := loadEnv(t, goodEnv+"[verify]\nglibcxx-max = \"3.4.28\"\n", goodLock)
	if err != nil || limited.Buildenvs["x"].Verify.GlibcxxMax != "3.4.28" {
		t.Errorf("verify: %v", err)
	}
	d, err := r.Buildenv("x")
	if err != nil || d.Name != "x" || len(d.Lock.Packages) != 1 || d.Programs["cc"].Path != "/usr/bin/cc" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := r.Buildenv("y"); err == nil || !strings.Contains(err.Error(), "there are: x") {
		t.Error(err)
	}
	if r, err = loadEnv(t, goodEnv, ""); err != nil || r.Buildenvs["x"].Lock != nil {
		t.Errorf("no lock: %v", err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`summary = "s"`, ``, "summary is missing"},
		{`suite = "bookworm"`, `suite = "book worm"`, `buildenv/x/env.toml:2:1: "book worm" is not a word`},
		{`["main"]`, `[]`, "env.toml:4:1: components is empty"},
		{`["cmake"]`, `["cmake", "cmake"]`, "env.toml:5:1: package cmake stands here twice"},
		{`["cmake"]`, `[]`, "base is empty"},
		{`["nvidia-cuda-dev"]`, `["cmake"]`, "env.toml:6:1: package cmake is in base as well"},
		{`"usr/share/{doc,man}/**"`, `"/usr/share"`, "env.toml:7:1:"},
		{`"usr/share/{doc,man}/**"`, `"usr/[a"`, "env.toml:7:1:"},
		{`"/usr/bin/cc" = "gcc-11"`, `"usr/../cc" = "gcc-11"`, "must be an absolute path in the root"},
		{`path = "/usr/bin/cc"`, `path = "cc"`, "env.toml:11:1: path \"cc\" must be absolute"},
		{`version = "11.3"`, `version = "new"`, "env.toml:12:1: version"},
		{
			`"/opt/cuda/include" =`, `"opt/cuda/include" =`,
			`env.toml:13:2: "opt/cuda/include" = "/usr/include" must be two folders of the root`,
		},
		{`= "/usr/include"`, `= "/usr/../include"`, `must be two folders of the root`},
		{`= "/usr/include"`, `= "/opt/cuda"`, `env.toml:13:2: /opt/cuda/include and /opt/cuda must lie beside each other`},
		{`= "/usr/include"`, `= "/opt/cuda/include/deep"`, `must lie beside each other`},
		{`["nvidia-cuda-dev"]`, `[]`, `env.toml:13:2: gather takes what packages of unpack have, and unpack is empty`},
		{`[gather]`, "[verify]\nglibc-max = \"new\"\n[gather]", `env.toml:14:1: glibc-max "new" is not a version`},
		{`version = "11.3"`, `color = "red"`, `unknown key "program.cc.color"`},
	} {
		if _, err := loadEnv(t, strings.Replace(goodEnv, c.old, c.new, 1), goodLock); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
	// One of libraries alone has neither base nor programs; another one may name it.
	libraries := strings.Replace(goodEnv[:strings.Index(goodEnv, "[links]")], `["cmake"]`, `[]`, 1)
	if r, err := loadEnv(t, libraries, ""); err != nil || len(r.Buildenvs["x"].Unpack) != 1 {
		t.Errorf("libraries alone: %v", err)
	}
	both := func(runtime, arch string) error {
		m := files(t, "testdata/good.txtar")
		m["buildenv/x/env.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(goodEnv, "components", "runtime = \""+
			runtime+"\"\ncomponents", 1))}
		m["buildenv/y/env.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(libraries, "amd64", arch, 1))}
		r, err := spec.Load(m)
		if err == nil && r.Buildenvs["x"].Runtime != runtime {
			t.Errorf("runtime %q", r.Buildenvs["x"].Runtime)
		}
		return err
	}
	if err := both("y", "amd64"); err != nil {
		t.Error(err)
	}
	if err := both("z", "amd64"); err == nil || !strings.Contains(err.Error(),
		`buildenv/x/env.toml:4:1: there is no buildenv "z"`) {
		t.Error(err)
	}
	if err := both("y", "arm64"); err == nil || !strings.Contains(err.Error(),
		"buildenv y is of arm64, and this one of amd64") {
		t.Error(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"suite bookworm amd64\n", "", "packages.lock:1:1: the first line must be"},
		{" amd64 10", " i386 10", `packages.lock:2:1: architecture "i386"`},
		{" 10 20 ", " ten 20 ", "packages.lock:2:1: the sizes"},
		{"0011", "00XX", "is not a SHA-256"},
		{" pool/", " ../pool/", "is not the path of a .deb"},
		{"cmake 3", "Cmake 3", "is not the name of a package"},
	} {
		if _, err := loadEnv(t, goodEnv, strings.Replace(goodLock, c.old, c.new, 1)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
}

// Packages of another suite are named beside the root's own.
func TestEnvFrom(t *testing.T) {
	good := strings.Replace(goodEnv, "[links]", "[from.trixie]\ncomponents = [\"main\"]\nunpack = [\"libnvvm4\"]\n[links]", 1)
	lock := strings.Replace(goodLock, "suite bookworm", "suite bookworm+trixie", 1)
	r, err := loadEnv(t, good, lock)
	if err != nil || len(r.Buildenvs["x"].From["trixie"].Unpack) != 1 {
		t.Fatal(err)
	}
	alone := strings.Replace(good, `unpack = ["nvidia-cuda-dev"]`, `unpack = []`, 1) // gather takes what From has as well
	if _, err := loadEnv(t, alone, lock); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"[from.trixie]", "[from.bookworm]", "env.toml:8:2: bookworm is the root's own suite"},
		{"[from.trixie]", "[from.\"a b\"]", `"a b" is not a word of Debian's for a suite`},
		{"components = [\"main\"]\nunpack", "unpack", "env.toml:8:2: components is empty"},
		{
			"components = [\"main\"]\nunpack", "components = [\"a b\"]\nunpack",
			`env.toml:9:1: "a b" is not a word of Debian's`,
		},
		{`["libnvvm4"]`, `[]`, "unpack is empty: name the packages that are taken of trixie"},
		{`["libnvvm4"]`, `["Libnvvm4"]`, `env.toml:10:1: "Libnvvm4" is not the name of a Debian package`},
		{`["libnvvm4"]`, `["libnvvm4", "libnvvm4"]`, "package libnvvm4 stands here twice"},
		{`["libnvvm4"]`, `["cmake"]`, "env.toml:10:1: package cmake is taken of the root's own suite as well"},
		{
			"[links]", "[from.sid]\ncomponents = [\"main\"]\nunpack = [\"libnvvm4\"]\n[links]",
			"package libnvvm4 is taken of sid as well",
		},
		{`base = ["cmake"]`, `base = []`, "base is empty: packages of another suite are laid over a root"},
	} {
		if _, err := loadEnv(t, strings.Replace(good, c.old, c.new, 1), lock); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
}

const goodRedist = `summary = "s"
arch = "amd64"
room-mib = 10
holds = ["include/cuda.h"]
exclude = ["lib64/*_static.a"]
[links]
"/lib" = "lib64"
[redist]
url = "https://example.com/redist"
release = "11.4.4"
linux = ["cuda_cudart"]
windows = ["cuda_cudart"]
`

const goodWheels = `summary = "s"
arch = "amd64"
room-mib = 10
holds = ["x.dll"]
[wheels]
platform = "win_amd64"
packages = ["nvidia-cuda-runtime-cu11==11.8.89"]
`

const redistLock = "redist 11.4.4 amd64\n" +
	"cuda_cudart 11.4.148 linux-x86_64 10 0 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff " +
	"cuda_cudart/a.tar.xz\n" +
	"cuda_cudart 11.4.148 windows-x86_64 10 0 10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff " +
	"cuda_cudart/a.zip\n"

// Buildenvs of NVIDIA's archives and of Python's wheels.
func TestEnvArchives(t *testing.T) {
	r, err := loadEnv(t, goodRedist, redistLock)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.Buildenv("x"); err != nil || d.CheckLock() != nil || len(d.Lock.Packages) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	if r, err = loadEnv(t, goodWheels, "wheels win_amd64 amd64\nnvidia-cuda-runtime-cu11 11.8.89 win_amd64 10 0 "+
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff a.whl\n"); err != nil {
		t.Fatal(err)
	}
	if d := r.Buildenvs["x"]; d.CheckLock() != nil {
		t.Error(d.CheckLock())
	}
	for _, c := range []struct{ good, old, new, want string }{
		{
			goodRedist, `arch = "amd64"`, `arch = "arm64"`,
			`env.toml:2:1: arch is "arm64"; archives and wheels are known for amd64`,
		},
		{goodRedist, `room-mib = 10`, ``, "room-mib is 0; it must be a bound"},
		{goodRedist, `["include/cuda.h"]`, `[]`, "holds is empty"},
		{goodRedist, `include/cuda.h`, `/include/cuda.h`, `env.toml:4:1: "/include/cuda.h" must be a path in the root`},
		{goodRedist, `include/cuda.h`, `../x`, `"../x" must be a path in the root`},
		{goodRedist, `https://example.com/redist`, `file:///x`, "must be the folder of NVIDIA's archives, http or https"},
		{goodRedist, `"11.4.4"`, `"../11.4.4"`, `release "../11.4.4" must be numbers`},
		{goodRedist, `linux = ["cuda_cudart"]`, `linux = ["cuda-cudart"]`, `"cuda-cudart" is not the name of a component`},
		{goodRedist, `linux = ["cuda_cudart"]`, `linux = ["a", "a"]`, "a stands here twice"},
		{goodRedist, "linux = [\"cuda_cudart\"]\nwindows = [\"cuda_cudart\"]", ``, "it names no component"},
		{goodRedist, `arch =`, "suite = \"bookworm\"\narch =", "suite has no place in a buildenv of redist"},
		{goodRedist, `arch =`, "base = [\"cmake\"]\narch =", "base has no place in a buildenv of redist"},
		{goodRedist, `arch =`, "runtime = \"x\"\narch =", "runtime has no place in a buildenv of redist"},
		{goodRedist, `[redist]`, "[gather]\n\"/a\" = \"/b\"\n[redist]", "gather has no place in a buildenv of redist"},
		{
			goodRedist, `[redist]`, "[from.sid]\nunpack = [\"x1\"]\n[redist]",
			"from has no place in a buildenv of redist",
		},
		{
			goodRedist, `[redist]`, "[wheels]\nplatform = \"win_amd64\"\npackages = [\"a==1\"]\n[redist]",
			"redist has no place in a buildenv of redist",
		},
		{goodWheels, `win_amd64`, `win amd64`, `platform "win amd64" must be one of pip's`},
		{goodWheels, `["nvidia-cuda-runtime-cu11==11.8.89"]`, `[]`, "packages is empty"},
		{goodWheels, `==11.8.89`, `>=11`, "is not a package and its version, joined by =="},
		{goodWheels, `"nvidia-`, `"--index-url=x nvidia-`, "is not a package and its version"},
		{goodEnv, `[links]`, "holds = [\"x\"]\n[links]", "holds and room-mib are for archives and wheels"},
	} {
		if _, err := loadEnv(t, strings.Replace(c.good, c.old, c.new, 1), ""); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"redist 11.4.4", "rpm 11.4.4", "packages.lock:1:1: the first line must be"},
		{"linux-x86_64", "linux-sbsa", `packages.lock:2:1: platform "linux-sbsa" is neither`},
		{"a.tar.xz", "a.deb", `"cuda_cudart/a.deb" is not the path of a .tar.xz or .zip file`},
		{
			"cuda_cudart 11.4.148 windows-x86_64", "cuda_cudart 11.4.148 linux-x86_64",
			"packages.lock:3:1: cuda_cudart linux-x86_64 must stand before",
		},
	} {
		if _, err := loadEnv(t, goodRedist, strings.Replace(redistLock, c.old, c.new, 1)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

const goodLibrary = `[library]
name = "OpenSSL 3.5.5"
header = "openssl/ssl.h"
crate = "openssl-src"
version = "300.5.5+3.5.5"
sha256 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
dir = "openssl"
license = "LICENSE.txt"
steps = [["/usr/bin/make", "all"]]
`

// A library alone is a buildenv that a toolchain may name; it needs no lock, and takes nothing
// that is for a root.
func TestLibraryAlone(t *testing.T) {
	const alone = "summary = \"s\"\narch = \"amd64\"\n" + goodLibrary
	r, err := loadEnv(t, alone, "")
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Buildenvs["x"]; d.Kind() != buildenv.Rust || d.CheckLock() != nil {
		t.Errorf("%s, %v", d.Kind(), d.CheckLock())
	}
	for _, c := range []struct{ old, new, want string }{
		{"arch =", "base = [\"make\"]\narch =", "base has no place in a buildenv of crate"},
		{"arch =", "room-mib = 5\narch =", "holds and room-mib are for archives and wheels"},
		{"amd64", "arm64", `arch is "arm64"`},
		{`"openssl"`, `"../openssl"`, `dir "../openssl" must be a folder of the crate`},
	} {
		if _, err := loadEnv(t, strings.Replace(alone, c.old, c.new, 1), ""); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	m := files(t, "testdata/good.txtar")
	m["buildenv/x/env.toml"] = &fstest.MapFile{Data: []byte(alone)}
	m["buildenv/root/env.toml"] = &fstest.MapFile{Data: []byte(goodEnv)}
	for name, want := range map[string]string{
		"x":    "",
		"root": `toolchains/tc.toml:1:1: there is no buildenv "root" that is a library alone`,
		"y":    `there is no buildenv "y" that is`,
	} {
		n := maps.Clone(m)
		n["toolchains/tc.toml"] = &fstest.MapFile{Data: append([]byte("library = \""+name+"\"\n"),
			m["toolchains/tc.toml"].Data...)}
		if _, err := spec.Load(n); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A library that is built in a root says all that is needed for it.
func TestLibraryDeclaration(t *testing.T) {
	good := goodEnv + goodLibrary
	r, err := loadEnv(t, good, goodLock)
	if err != nil || r.Buildenvs["x"].Library.Steps[0][1] != "all" {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"OpenSSL 3.5.5"`, `""`, "name \"\" must be what the library calls itself"},
		{`"openssl/ssl.h"`, `"/ssl.h"`, `header "/ssl.h" must be`},
		{`"openssl-src"`, `"../x"`, `"../x" is not the name of a crate`},
		{`"300.5.5+3.5.5"`, `"../1"`, `"../1" is not the version of a crate`},
		{`"0011`, `"AA11`, "is not a SHA-256 in lower case"},
		{`"openssl"`, `"../openssl"`, `dir "../openssl" must be a folder of the crate`},
		{`"LICENSE.txt"`, `""`, `license "" must be a file in dir`},
		{`[["/usr/bin/make", "all"]]`, `[]`, "steps is empty"},
		{`[["/usr/bin/make", "all"]]`, `[["make", "all"]]`, `and this is ["make" "all"]`},
		{`[["/usr/bin/make", "all"]]`, `[[]]`, "a step begins with a program"},
	} {
		if _, err := loadEnv(t, strings.Replace(good, c.old, c.new, 1), goodLock); err == nil ||
			!strings.Contains(err.Error(), "buildenv/x/env.toml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
}

// A root may be given the library that another root has.
func TestLibraryOf(t *testing.T) {
	load := func(of, other string) (*spec.Repo, error) {
		m := files(t, "testdata/good.txtar")
		m["buildenv/x/env.toml"] = &fstest.MapFile{Data: []byte(goodEnv + of)}
		m["buildenv/y/env.toml"] = &fstest.MapFile{Data: []byte(goodEnv + other)}
		return spec.Load(m)
	}
	r, err := load("[library]\nof = \"y\"\n", goodLibrary)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := r.Buildenvs["x"], r.Buildenvs["y"]; x.Library.Name != "OpenSSL 3.5.5" || x.Library.Of != "" ||
		x.Library != y.Library {
		t.Errorf("%+v", x.Library)
	}
	for _, c := range []struct{ of, other, want string }{
		{"y", "", `buildenv/x/env.toml:16:1: there is no buildenv "y" of Debian's packages with a library of its own`},
		{"z", goodLibrary, `there is no buildenv "z" of Debian's packages`},
		{"x", goodLibrary, `there is no buildenv "x" of`},
		{"y", "[library]\nof = \"x\"\n", `there is no buildenv "y" of`},
		{"y\"\nname = \"Z 1", goodLibrary, "env.toml:15:2: of says all of a library that is another buildenv's"},
	} {
		if _, err := load("[library]\nof = \""+c.of+"\"\n", c.other); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.of, err, c.want)
		}
	}
}
