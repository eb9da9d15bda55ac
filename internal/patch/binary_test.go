package patch

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/llpatch/llpatch/internal/source"
)

// binaryPatch writes a binary patch by hand, so that it can lie.
func binaryPatch(t testing.TB, path, oldID, newID string, method gitdiff.BinaryPatchMethod, size int64,
	raw []byte,
) string {
	t.Helper()
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	frag := gitdiff.BinaryFragment{Method: method, Size: size, RawData: z.Bytes()}
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nindex %[2]s..%[3]s 100644\nGIT binary patch\n%[4]s\n", path, oldID,
		newID, frag.String())
}

func TestBinary(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "init", "-q", "-b", "main")
	big := bytes.Repeat([]byte("0123456789\x00abcdef"), 2000)
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(repo, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("delta", big)
	write("literal", []byte("\x00\x01"))
	write("gone", []byte("\x00gone"))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "base")
	base := readTree(t, repo, "HEAD")
	write("delta", append(bytes.Clone(big), 0, 1, 2))
	write("literal", []byte("\x00\xff\xfe"))
	write("fresh", []byte("\x00fresh"))
	git(t, repo, "rm", "-q", "gone")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "binary")
	diff := git(t, repo, "format-patch", "-1", "--stdout", "--binary", "--full-index")
	if !strings.Contains(diff, "\ndelta ") || !strings.Contains(diff, "\nliteral ") {
		t.Fatalf("the patch lacks a kind of data:\n%s", diff)
	}
	series := parsed(t, diff)
	res, err := Apply(base, series)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(git(t, repo, "rev-parse", "HEAD^{tree}")); res.Tree.ID() != want {
		t.Errorf("tree %s, want %s", res.Tree.ID(), want)
	}
	// Not a byte may differ from what the patch was made from.
	other, err := base.With(map[string]*source.File{"delta": {
		Mode: source.Regular,
		Data: append(bytes.Clone(big[1:]), 'x'),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(other, series); err == nil || !strings.Contains(err.Error(),
		"does not fit: it was made from blob ") {
		t.Errorf("got %v", err)
	}
}

// TestBinaryBombs: a few bytes must not become any number of them.
func TestBinaryBombs(t *testing.T) {
	src := bytes.Repeat([]byte("x"), 1<<16)
	base := tree(t, map[string]source.File{"f": {Mode: source.Regular, Data: src}})
	oldID := blobID(src)
	varint := func(n int) []byte {
		var b []byte
		for ; n > 0x7f; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		return append(b, byte(n))
	}
	sizes := func(from, to int) []byte { return append(varint(from), varint(to)...) }
	copyAll := []byte{0x80} // 64 KiB from offset 0
	tests := map[string]struct {
		method gitdiff.BinaryPatchMethod
		size   int64
		raw    []byte
		want   string
	}{
		"inflates to more than it says": {gitdiff.BinaryPatchLiteral, 10, make([]byte, 64<<20), "received more"},
		"delta promises too much":       {gitdiff.BinaryPatchDelta, 8, sizes(len(src), 1<<34), "exceeds"},
		"delta copies more than it says": {
			gitdiff.BinaryPatchDelta, 1006, append(sizes(len(src), 100), bytes.Repeat(copyAll, 1002)...), "damaged",
		},
		"delta from another size": {gitdiff.BinaryPatchDelta, 3, sizes(5, 5), "damaged"},
		"wrong result":            {gitdiff.BinaryPatchLiteral, 3, []byte("abc"), "it should give blob"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			series := parsed(t, binaryPatch(t, "f", oldID, strings.Repeat("1", 40), tt.method, tt.size, tt.raw))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Apply(base, series)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}

// TestCopyBomb: a patch of some hundred kilobytes that copies a file over and over.
func TestCopyBomb(t *testing.T) {
	base := tree(t, map[string]source.File{"f": {Mode: source.Regular, Data: make([]byte, 16<<20)}})
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "diff --git a/f b/c%[1]d\nsimilarity index 100%%\ncopy from f\ncopy to c%[1]d\n", i)
	}
	_, err := Apply(base, parsed(t, b.String()))
	if err == nil || !strings.Contains(err.Error(), "it makes more than") {
		t.Errorf("got %v", err)
	}
}
