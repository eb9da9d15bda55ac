package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every abbreviation of every object gives what git gives for it: of packs, of
// loose objects, and of what another repository lends.
func TestAbbreviated(t *testing.T) {
	dir := t.TempDir()
	lender, repo := filepath.Join(dir, "lender"), filepath.Join(dir, "repo")
	git(t, dir, "init", "-q", lender)
	write := func(repo, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, "f"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, repo, "add", "f")
		git(t, repo, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"+text)
	}
	write(lender, "lent")
	git(t, dir, "clone", "-q", "-s", lender, repo)
	for i := range 40 {
		write(repo, strings.Repeat("x", i))
	}
	git(t, repo, "repack", "-q", "-a", "-d", "-l")
	for i := range 10 {
		write(repo, strings.Repeat("y", i))
	}
	r, err := OpenRepository(repo)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := strings.Fields(git(t, repo, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
	if len(all) < 140 {
		t.Fatalf("only %d objects", len(all))
	}
	for _, id := range all {
		for _, n := range []int{7, 8, 11, 40} {
			var want []string
			for _, other := range all {
				if strings.HasPrefix(other, id[:n]) {
					want = append(want, other)
				}
			}
			got, err := r.Abbreviated(id[:n])
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v, want %v", id[:n], got, err, want)
			}
		}
	}
	for _, bad := range []string{
		"", "12345", "123456", "xxxxxxx", "1234567x", strings.Repeat("0", 40),
		strings.Repeat("1", 41),
	} {
		if got, err := r.Abbreviated(bad); err != nil || len(got) > 0 {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}
