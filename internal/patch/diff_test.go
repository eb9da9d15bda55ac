package patch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/source"
)

// checkEdits fails unless the edits make b of a.
func checkEdits(t *testing.T, a, b *numbered, es []lineEdit) {
	t.Helper()
	var out bytes.Buffer
	i, j := 0, 0
	for k, e := range es {
		if e.a0 < i || e.b0 < j || e.a1 < e.a0 || e.b1 < e.b0 || e.a0-i != e.b0-j || e.a0 == e.a1 && e.b0 == e.b1 || k > 0 &&
			e.a0 == i {
			t.Fatalf("edit %d of %+v is out of order, empty, or joins its neighbour", k, es)
		}
		out.Write(a.slice(i, e.a0))
		out.Write(b.slice(e.b0, e.b1))
		i, j = e.a1, e.b1
	}
	out.Write(a.slice(i, a.count()))
	if !bytes.Equal(out.Bytes(), b.data) {
		t.Fatalf("edits %+v of %q give %q, want %q", es, a.data, out.Bytes(), b.data)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nc"))
	f.Add([]byte(""), []byte("\n"))
	f.Add([]byte("x\nx\ny\nx\nx\n"), []byte("x\nx\nx\nx\n"))
	for seed := range uint64(10) {
		base, ours, _ := randomMerge(rand.New(rand.NewPCG(seed, 6)))
		f.Add(base, ours)
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		start := time.Now()
		var tbl lineTable
		a, b := tbl.number(before), tbl.number(after)
		checkEdits(t, a, b, diffLines(a.id, b.id))
		checkEdits(t, b, a, diffLines(b.id, a.id))
		if es := diffLines(a.id, a.id); len(es) > 0 {
			t.Errorf("a file differs from itself: %+v", es)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("took %s", d)
		}
		if isBinary(before) || isBinary(after) || bytes.Contains(before, []byte("\r")) ||
			bytes.Contains(after, []byte("\r")) {
			return // as a patch, CR at the end of every line is taken for damage
		}
		var diff bytes.Buffer
		writeFile(&diff, modify, "f", "f", &source.File{Mode: source.Regular, Data: before},
			&source.File{Mode: source.Regular, Data: after}, false)
		if bytes.Equal(before, after) {
			return
		}
		got, places, err := applyOne(t, "f", string(before), diff.String())
		if err != nil || got != string(after) {
			t.Fatalf("as a patch: %q, %v, want %q\n%s", got, err, after, diff.String())
		}
		for _, p := range places {
			if p.Kind != Exact {
				t.Errorf("placement %+v is not exact", p)
			}
		}
	})
}

// TestDiffLikeGit compares whole diffs with git's, byte for byte.
func TestDiffLikeGit(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var want bytes.Buffer
	files := 0
	for i := range 1500 {
		before, after, _ := randomMerge(rand.New(rand.NewPCG(uint64(i), 5)))
		// Names in the order in which git lists them, some with odd signs.
		name := fmt.Sprintf("%05d%s", i, []string{"", " x", "é", `"q"`, "\t"}[i%5])
		write("a/"+name, before)
		write("b/"+name, after)
		if bytes.Equal(before, after) {
			continue
		}
		files++
		writeFile(&want, modify, name, name, &source.File{Mode: source.Regular, Data: before},
			&source.File{Mode: source.Regular, Data: after}, false)
	}
	cmd := exec.CommandContext(t.Context(), "git", "diff", "--no-index", "--no-indent-heuristic", "--full-index",
		"--no-prefix", "a", "b")
	cmd.Dir, cmd.Env = dir, gitEnv(t, dir)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("git diff: %v", err)
	}
	got, wanted := strings.Split(string(out), "diff --git "), strings.Split(want.String(), "diff --git ")
	if len(got) != len(wanted) || len(got) < 1000 {
		t.Fatalf("git lists %d files, we %d", len(got), len(wanted))
	}
	for i := range got {
		if got[i] != wanted[i] {
			t.Fatalf("we write\n%s\ngit writes\n%s", wanted[i], got[i])
		}
	}
	t.Log(files, "diffs are the same")
}

// source of large files, with the mix of rare and frequent lines that code has.
func bigFile(r *rand.Rand, lines int) []string {
	out := make([]string, lines)
	for i := range out {
		switch r.IntN(6) {
		case 0:
			out[i] = "\n"
		case 1:
			out[i] = "    }\n"
		default:
			out[i] = "    call(" + strconv.Itoa(r.IntN(lines)) + ");\n"
		}
	}
	return out
}

// drift changes one line in every so many, by replacing, adding or removing.
func drift(r *rand.Rand, lines []string, every int) []byte {
	var b strings.Builder
	for _, l := range lines {
		if r.IntN(every) == 0 {
			switch r.IntN(3) {
			case 0:
				b.WriteString(l)
				b.WriteString("    other(" + strconv.Itoa(r.IntN(len(lines))) + ");\n")
			case 1:
				b.WriteString("    call(" + strconv.Itoa(r.IntN(len(lines))) + ");\n")
			}
			continue
		}
		b.WriteString(l)
	}
	return []byte(b.String())
}

// Large files with large differences must stay cheap: the exact search would
// take a time that grows with their product.
func TestDiffBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const lines = 20000
	shuffled := bigFile(r, lines)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	a := bigFile(r, lines)
	twoKinds := func() []byte {
		var b strings.Builder
		for range lines {
			b.WriteString([]string{"a\n", "b\n"}[r.IntN(2)])
		}
		return []byte(b.String())
	}
	reversed := make([]string, lines)
	for i, l := range a {
		reversed[lines-1-i] = l
	}
	join := func(l []string) []byte { return []byte(strings.Join(l, "")) }
	for name, pair := range map[string][2][]byte{
		"half changed":      {join(a), drift(r, a, 2)},
		"same lines, any":   {join(a), join(shuffled)},
		"reversed":          {join(a), join(reversed)},
		"two kinds":         {twoKinds(), twoKinds()},
		"nothing in common": {join(a), bytes.ReplaceAll(join(a), []byte("\n"), []byte("!\n"))},
	} {
		t.Run(name, func(t *testing.T) {
			var tbl lineTable
			x, y := tbl.number(pair[0]), tbl.number(pair[1])
			start := time.Now()
			es := diffLines(x.id, y.id)
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("took %s", d)
			} else {
				t.Log(d, len(es), "edits")
			}
			checkEdits(t, x, y, es)
		})
	}
}

func BenchmarkMerge3(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 2))
	lines := bigFile(r, 5000)
	base := []byte(strings.Join(lines, ""))
	theirs := drift(r, lines, 50)
	ours := []byte(strings.Join(lines[:2500], "") + "new\n" + strings.Join(lines[2500:], ""))
	b.SetBytes(int64(len(base)))
	for b.Loop() {
		mergeText(base, ours, theirs)
	}
}

func BenchmarkDiffHalfChanged(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 3))
	lines := bigFile(r, 20000)
	var t lineTable
	x, y := t.number([]byte(strings.Join(lines, ""))), t.number(drift(r, lines, 2))
	for b.Loop() {
		diffLines(x.id, y.id)
	}
}
