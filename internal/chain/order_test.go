package chain

import (
	"errors"
	"os"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// An order is the target's recipe with the flags in it, and says what it takes on disk where
// that is known. Making one does no work.
func TestNewOrder(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	e, b8833 := Workspace{Repo: repo}, tag.MustParse("b8833")
	for name, c := range map[string]struct {
		flags   Flags
		room    bool
		drop    string
		runtime string
	}{
		"as declared": {Flags{}, true, "", spec.Thin},
		"other archs": {Flags{Archs: "86-real"}, false, "", spec.Thin},
		"a drop-in":   {Flags{BackendOnly: true}, false, "libggml-cuda.so", spec.Thin},
		"full":        {Flags{Runtime: spec.Full}, true, "", spec.Full},
	} {
		o, err := NewOrder(e, b8833, "linux-cuda", c.flags)
		if err != nil || o.Tag != b8833 || (o.Room > 0) != c.room || o.DropIn != c.drop ||
			o.Recipe.Bundle.Runtime != c.runtime {
			t.Errorf("%s: %v, %d MiB, drop-in %q, %s, %v", name, o.Tag, o.Room, o.DropIn, o.Recipe.Bundle.Runtime, err)
		}
	}
	for flag, f := range map[string]Flags{
		"--cuda-archs": {Archs: "x"}, "--gfx": {GFX: "x"}, "--backend-only": {BackendOnly: true},
		"--with": {With: []string{"none"}},
	} {
		if _, err := NewOrder(e, b8833, "linux-cpu", f); !is[*BadOption](err) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := NewOrder(e, b8833, "linux-cpu", Flags{Runtime: spec.Full}); !is[*NoRuntime](err) {
		t.Errorf("a full bundle of no toolkit: %v", err)
	}
	if _, err := NewOrder(e, tag.MustParse("b1"), "linux-cpu", Flags{}); !is[*spec.OutOfRange](err) {
		t.Errorf("a tag out of range: %v", err)
	}
	e.Nearest = true // which tag it will be is not known yet
	if _, err := NewOrder(e, tag.MustParse("b1"), "linux-cpu", Flags{}); err != nil {
		t.Error(err)
	}
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
