package chain

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
)

func TestCanStart(t *testing.T) {
	for _, c := range []struct{ floor, here, want string }{
		{"2.38", "2.43", ""},
		{"2.38", "2.38", ""},
		{"", "2.31", ""},
		{"2.38", "", ""},
		{"2.43", "2.36", "the programs need glibc 2.43 and this machine has 2.36"},
	} {
		if err := canStart(c.floor, c.here); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
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
