package buildenv

import "testing"

// What a root's results may need is said before it is made: by the limit that they are held to, else
// by the glibc that its lock names.
func TestFloor(t *testing.T) {
	lock := &Lock{Packages: []Package{{Name: "libc6-dev", Version: "1.0"}, {Name: "libc6", Version: "2.43-7"}}}
	for want, d := range map[string]Decl{
		"2.43": {Lock: lock}, "2.31": {Lock: lock, Verify: Limits{GlibcMax: "2.31"}}, "": {Lock: &Lock{}},
	} {
		if got := d.Floor(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (Decl{}).Floor(); got != "" {
		t.Errorf("without a lock: %q", got)
	}
}
