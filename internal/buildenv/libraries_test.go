//go:build linux

package buildenv

import (
	"os"
	"path/filepath"
	"testing"
)

// A buildenv of libraries alone: no package but those that it names, no program to run.
func TestLibrariesAlone(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	d.Name, d.Base, d.Links, d.Programs = "libraries", nil, nil, nil
	var err error
	d.Lock, err = Update(t.Context(), d, Options{Mirror: m.url, Keyring: m.keys})
	must(t, err)
	if len(d.Lock.Packages) != 1 || d.Lock.Packages[0].Name != d.Unpack[0] {
		t.Fatalf("the lock has %v", d.Lock.Packages)
	}
	o := m.options()
	// One that is being made, or was stopped, is told from one that is there.
	work := filepath.Join(o.Cache, "env", d.id()+workSuffix)
	must(t, os.MkdirAll(work, 0o755))
	must(t, writeInfo(work, Info{Form: infoForm, Name: d.Name, Digest: d.Digest()}))
	must(t, os.Mkdir(filepath.Join(o.Cache, "env", "else"+workSuffix), 0o755))
	begun, err := Begun(o.Cache)
	if err != nil || len(begun) != 1 || begun[0].Name != d.Name || begun[0].Bytes == 0 {
		t.Errorf("begun: %+v, %v", begun, err)
	}
	made, err := Create(t.Context(), d, o)
	must(t, err)
	if made.Packages != 1 || made.Bytes == 0 || len(made.Programs) != 0 {
		t.Errorf("made %+v", made)
	}
	if begun, err = Begun(o.Cache); err != nil || len(begun) != 0 {
		t.Errorf("still begun: %+v, %v", begun, err)
	}
	e, err := Open(t.Context(), o.Cache, d, nil)
	must(t, err)
	must(t, e.Close())
	if none, err := Begun(t.TempDir()); err != nil || none != nil {
		t.Errorf("an empty cache: %v, %v", none, err)
	}
}
