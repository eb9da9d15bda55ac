package spec_test

import (
	"strings"
	"testing"
	"testing/fstest"

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
`

const goodLock = "suite bookworm amd64\ncmake 3.25.1-1 amd64 10 20 " + "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" + " pool/main/c/cmake/cmake_3.25.1-1_amd64.deb\n"

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
	d, err := r.Env("x")
	if err != nil || d.Name != "x" || len(d.Lock.Packages) != 1 || d.Programs["cc"].Path != "/usr/bin/cc" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := r.Env("y"); err == nil || !strings.Contains(err.Error(), "there are: x") {
		t.Error(err)
	}
	if r, err = loadEnv(t, goodEnv, ""); err != nil || r.Envs["x"].Lock != nil {
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
		{`version = "11.3"`, `color = "red"`, `unknown key "program.cc.color"`},
	} {
		if _, err := loadEnv(t, strings.Replace(goodEnv, c.old, c.new, 1), goodLock); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
	// One of libraries alone has neither base nor programs; another one may name it.
	libraries := strings.Replace(goodEnv[:strings.Index(goodEnv, "[links]")], `["cmake"]`, `[]`, 1)
	if r, err := loadEnv(t, libraries, ""); err != nil || len(r.Envs["x"].Unpack) != 1 {
		t.Errorf("libraries alone: %v", err)
	}
	both := func(runtime, arch string) error {
		m := files(t, "testdata/good.txtar")
		m["buildenv/x/env.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(goodEnv, "components", "runtime = \""+runtime+"\"\ncomponents", 1))}
		m["buildenv/y/env.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(libraries, "amd64", arch, 1))}
		r, err := spec.Load(m)
		if err == nil && r.Envs["x"].Runtime != runtime {
			t.Errorf("runtime %q", r.Envs["x"].Runtime)
		}
		return err
	}
	if err := both("y", "amd64"); err != nil {
		t.Error(err)
	}
	if err := both("z", "amd64"); err == nil || !strings.Contains(err.Error(), `buildenv/x/env.toml:4:1: there is no buildenv "z"`) {
		t.Error(err)
	}
	if err := both("y", "arm64"); err == nil || !strings.Contains(err.Error(), "buildenv y is of arm64, and this one of amd64") {
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
		if _, err := loadEnv(t, goodEnv, strings.Replace(goodLock, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.new, err, c.want)
		}
	}
}
