package buildenv

import (
	"errors"
	"strings"
	"testing"
)

func FuzzParseLock(f *testing.F) {
	f.Add("suite tiny amd64\ntools 1.0-1 amd64 6 9 " + strings.Repeat("0", 64) + " pool/main/t/tools.deb\n")
	f.Add("# only words\n")
	f.Add("suite tiny amd64\n\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLock([]byte(text))
		var bad *LockError
		if err != nil {
			if !errors.As(err, &bad) || bad.Line < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := ParseLock([]byte(l.String()))
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q does not read as it was written: %v", l, err)
		}
		for _, p := range l.Packages {
			if strings.Contains(p.File, "..") && strings.HasPrefix(p.File, "../") {
				t.Fatalf("%q leads out of the mirror", p.File)
			}
		}
	})
}
