package chain

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestCanStart(t *testing.T) {
	for _, c := range []struct{ floor, here, want string }{
		{"2.38", "2.43", ""},
		{"2.38", "2.38", ""},
		{"", "2.31", ""},
		{"2.38", "", ""},
		{"2.43", "2.36", "the programs need glibc 2.43 and this machine has 2.36"},
	} {
		if err := canStart(c.floor, c.here); (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	libs, err := binary.SystemLibraries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := libs.Glibc("EM_X86_64"); err != nil || binary.Less(v, "2.17") {
		t.Errorf("this machine's glibc is %q, %v", v, err)
	}
}

// What the plan has in is asked for, and what it leaves out is to be out.
func TestChecksAsPlanned(t *testing.T) {
	rec := spec.Recipe{Smoke: []spec.Check{
		{Name: "health"},
		{Name: "tls", Args: map[string]any{"model": "q8_0"}},
		{Name: "webui"},
		{Name: "tls", Args: map[string]any{"expect": true}},
	}}
	for _, on := range []string{"ON", "OFF"} {
		got := checks(rec, build.Plan{Options: []build.Option{
			{Name: "LLAMA_OPENSSL", Value: on},
			{Name: "LLAMA_BUILD_UI", Value: on},
		}})
		if got[0].Args != nil || got[1].Args["expect"] != (on == "ON") || got[1].Args["model"] != "q8_0" ||
			got[2].Args["expect"] != (on == "ON") || got[3].Args["expect"] != true {
			t.Errorf("%s: %+v", on, got)
		}
	}
	if _, changed := rec.Smoke[1].Args["expect"]; changed {
		t.Error("the recipe itself was changed")
	}
}
