//go:build linux

package buildenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
)

func TestUpdate(t *testing.T) {
	m := newMirror(t)
	d := m.locked()
	var names []string
	for _, p := range d.Lock.Packages {
		names = append(names, p.Name)
		if data, err := os.ReadFile(filepath.Join(m.dir, p.File)); err != nil || sha(data) != p.SHA256 ||
			int64(len(data)) != p.Size {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	// Not what is only recommended, and not what an unpacked package depends on.
	if !slices.Equal(names, []string{"basis", "big-dev", "libtiny", "tools"}) {
		t.Errorf("packages: %v", names)
	}
	again, err := ParseLock([]byte(d.Lock.String()))
	if err != nil || again.String() != d.Lock.String() {
		t.Errorf("a lock does not read as it was written: %v", err)
	}

	other := d
	other.Base = append(slices.Clone(d.Base), "no-such-package")
	_, err = Update(t.Context(), other, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "no-such-package", "tiny")
	other = d
	other.Unpack = []string{"libtiny"}
	_, err = Update(t.Context(), other, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "libtiny is to be unpacked alone")
	// A mirror that somebody else signed.
	stranger, err := openpgp.NewEntity("others", "", "others@example.org", nil)
	must(t, err)
	strange := filepath.Join(t.TempDir(), "keys.gpg")
	writeKeys(t, stranger, strange)
	_, err = Update(t.Context(), d, Options{Mirror: newMirror(t).url, Keyring: strange})
	wantErr(t, err, "package lists of tiny")
	_, err = Update(t.Context(), d, Options{Mirror: m.url, Keyring: "/no/such/keys"})
	var missing *Missing
	if !errors.As(err, &missing) {
		t.Errorf("keys that are not there: %v", err)
	}
}

// Lists whose time is over, as those of a snapshot are, count only on request, and
// their signatures all the same.
func TestUpdatePast(t *testing.T) {
	m := newMirror(t)
	m.past = true
	m.index()
	d := decl()
	_, err := Update(t.Context(), d, Options{Mirror: m.url, Keyring: m.keys})
	wantErr(t, err, "package lists of tiny", "expired", "--past")
	lock, err := Update(t.Context(), d, Options{Mirror: m.url, Keyring: m.keys, Past: true})
	must(t, err)
	if len(lock.Packages) != 4 {
		t.Errorf("%d packages", len(lock.Packages))
	}
	stranger, err := openpgp.NewEntity("others", "", "others@example.org", nil)
	must(t, err)
	strange := filepath.Join(t.TempDir(), "keys.gpg")
	writeKeys(t, stranger, strange)
	_, err = Update(t.Context(), d, Options{Mirror: m.url, Keyring: strange, Past: true})
	wantErr(t, err, "package lists of tiny")
}
