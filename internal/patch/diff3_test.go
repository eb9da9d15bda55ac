package patch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// abc makes a file of one-letter lines: "a b" is two lines; "a b-" has no
// newline at its end.
func abc(s string) []byte {
	s, open := strings.CutSuffix(s, "-")
	out := strings.Join(strings.Fields(s), "\n")
	if out != "" && !open {
		out += "\n"
	}
	return []byte(out)
}

// mergeText merges what ours and theirs make of base, line by line. Changes that
// touch, with no common line between them, are a conflict, unless both sides
// make the same one. It is clean where git merge-file is, with the same bytes,
// but for changes among equal lines (AmongEqual). If there is a conflict, merged
// is nil and conflicts has every one, in order.
func mergeText(base, ours, theirs []byte) (merged []byte, conflicts []Region) {
	m := newMerge(base, ours, theirs)
	for _, r := range m.regions {
		if r.Cause != "" {
			conflicts = append(conflicts, r)
		}
	}
	if conflicts != nil {
		return nil, conflicts
	}
	return m.bytes(), nil
}

func TestMerge3(t *testing.T) {
	for name, tc := range map[string]struct {
		base, ours, theirs string
		want               string
		conflicts          []Region
	}{
		"nothing changed":         {base: "a b", ours: "a b", theirs: "a b", want: "a b"},
		"all empty":               {},
		"one side":                {base: "a b c", ours: "a x c", theirs: "a b c", want: "a x c"},
		"other side":              {base: "a b c", ours: "a b c", theirs: "a c", want: "a c"},
		"apart":                   {base: "a b c d e", ours: "x b c d e", theirs: "a b c d y", want: "x b c d y"},
		"one line between":        {base: "a b c", ours: "x b c", theirs: "a b y", want: "x b y"},
		"same change":             {base: "a b c", ours: "a x c", theirs: "a x c", want: "a x c"},
		"same among others":       {base: "a b c d e", ours: "1 b x d e", theirs: "a b x d 2", want: "1 b x d 2"},
		"same insertion":          {base: "a b", ours: "a x b", theirs: "a x b", want: "a x b"},
		"both delete":             {base: "a b c", ours: "a c", theirs: "a c", want: "a c"},
		"from nothing, same":      {ours: "a b", theirs: "a b", want: "a b"},
		"newline added elsewhere": {base: "a b c d-", ours: "a b c d", theirs: "x b c d-", want: "x b c d"},
		"adjoining": {
			base: "a b c d", ours: "a x c d", theirs: "a b y d",
			conflicts: []Region{{Base: Span{2, 2}, Ours: Span{2, 2}, Theirs: Span{2, 2}, From: Both, Cause: BothChanged}},
		},
		"two insertions": {
			base: "a b", ours: "a x b", theirs: "a y z b",
			conflicts: []Region{{Base: Span{2, 0}, Ours: Span{2, 1}, Theirs: Span{2, 2}, From: Both, Cause: BothChanged}},
		},
		"changed and deleted": {
			base: "a b c d e f g", ours: "a b x d e f h", theirs: "a b d e f g",
			conflicts: []Region{{Base: Span{3, 1}, Ours: Span{3, 1}, Theirs: Span{3, 0}, From: Both, Cause: BothChanged}},
		},
		"chain": {
			base: "a b c d e f", ours: "1 2 c d 5 f", theirs: "a x y d e f",
			conflicts: []Region{{Base: Span{1, 3}, Ours: Span{1, 3}, Theirs: Span{1, 3}, From: Both, Cause: BothChanged}},
		},
		"newline and text of the last line": {
			base: "a b-", ours: "a b", theirs: "a c-",
			conflicts: []Region{{Base: Span{2, 1}, Ours: Span{2, 1}, Theirs: Span{2, 1}, From: Both, Cause: BothChanged}},
		},
		// git takes the new x for the last one: a x y x x x b; it could be a x x y x x b.
		"among equal lines": {
			base: "a x x x x b", ours: "a x x x x x b", theirs: "a x y x x b",
			conflicts: []Region{{Base: Span{6, 0}, Ours: Span{6, 1}, Theirs: Span{6, 0}, From: Ours, Cause: AmongEqual}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, conflicts := mergeText(abc(tc.base), abc(tc.ours), abc(tc.theirs))
			if fmt.Sprint(conflicts) != fmt.Sprint(tc.conflicts) {
				t.Fatalf("conflicts %+v, want %+v", conflicts, tc.conflicts)
			}
			if conflicts == nil && !bytes.Equal(got, abc(tc.want)) {
				t.Errorf("got %q, want %q", got, abc(tc.want))
			}
			mirrored, conflicts2 := mergeText(abc(tc.base), abc(tc.theirs), abc(tc.ours))
			if len(conflicts2) != len(conflicts) || !bytes.Equal(mirrored, got) {
				t.Errorf("with the sides exchanged: %q, %+v", mirrored, conflicts2)
			}
		})
	}
}

// gitMerge asks git merge-file.
func gitMerge(t testing.TB, dir string, base, ours, theirs []byte) ([]byte, bool) {
	t.Helper()
	names := []string{"ours", "base", "theirs"}
	for i, data := range [][]byte{ours, base, theirs} {
		if err := os.WriteFile(filepath.Join(dir, names[i]), data, 0o644); err != nil {
			t.Error(err)
			return nil, false
		}
	}
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"merge-file", "-p", "-q"}, names...)...)
	cmd.Dir, cmd.Env = dir, gitEnv(t, dir)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return nil, false
	}
	if err != nil {
		t.Errorf("git merge-file: %v", err)
	}
	return out, true
}

// agreement counts how our merges compare with git's.
type agreement struct {
	mu    sync.Mutex
	count map[string]int
}

// judge compares one merge. It is an error if both are clean with other bytes,
// or if one is clean and the other not for a reason that is not documented.
func (a *agreement) judge(t *testing.T, what, dir string, base, ours, theirs []byte) {
	t.Helper()
	got, conflicts := mergeText(base, ours, theirs)
	want, clean := gitMerge(t, dir, base, ours, theirs)
	verdict := "both conflict"
	switch {
	case conflicts == nil && clean && bytes.Equal(got, want):
		verdict = "same bytes"
	case conflicts == nil && clean:
		verdict = "OTHER BYTES"
	case conflicts == nil:
		verdict = "ONLY WE ARE CLEAN"
	case clean:
		verdict = string(AmongEqual)
		for _, c := range conflicts {
			if c.Cause != AmongEqual {
				verdict = "ONLY GIT IS CLEAN"
			}
		}
	}
	a.mu.Lock()
	a.count[verdict]++
	a.mu.Unlock()
	if verdict == strings.ToUpper(verdict) {
		t.Errorf("%s: %s\nbase   %q\nours   %q\ntheirs %q\nwe     %q %+v\ngit    %q", what, verdict, short(base),
			short(ours), short(theirs), short(got), conflicts, short(want))
	}
}

func short(b []byte) []byte { return b[:min(len(b), 400)] }

// randomMerge makes a file and two edits of it. Few different lines make places
// that look alike; both sides sometimes make the same edit.
func randomMerge(r *rand.Rand) (base, ours, theirs []byte) {
	vocabulary := []int{2, 3, 6, 20, 100000}[r.IntN(5)]
	line := func() string { return "w" + strconv.Itoa(r.IntN(vocabulary)) + "\n" }
	type change struct {
		at, gone int
		added    []string
	}
	var lines []string
	for range []int{r.IntN(6), 1 + r.IntN(40), 1 + r.IntN(40), 100 + r.IntN(300)}[r.IntN(4)] {
		lines = append(lines, line())
	}
	random := func() change {
		c := change{at: r.IntN(len(lines) + 1)}
		c.gone = min(r.IntN(4), len(lines)-c.at)
		if r.IntN(20) == 0 {
			c.gone = r.IntN(len(lines) - c.at + 1)
		}
		for range r.IntN(4) {
			c.added = append(c.added, line())
		}
		switch {
		case r.IntN(10) == 0: // a block of the file once more
			from := r.IntN(len(lines) + 1)
			c.added = lines[from:min(len(lines), from+r.IntN(12))]
		case r.IntN(30) == 0: // much
			for range r.IntN(60) {
				c.added = append(c.added, line())
			}
		}
		return c
	}
	apply := func(cs []change) []byte {
		out := strings.Builder{}
		at := 0
		for i := range lines {
			for _, c := range cs {
				if c.at == i {
					for _, l := range c.added {
						out.WriteString(l)
					}
					at = max(at, i+c.gone)
				}
			}
			if i >= at {
				out.WriteString(lines[i])
			}
		}
		for _, c := range cs {
			if c.at == len(lines) {
				out.WriteString(strings.Join(c.added, ""))
			}
		}
		b := []byte(out.String())
		if r.IntN(12) == 0 {
			b = bytes.TrimSuffix(b, []byte("\n"))
		}
		return b
	}
	var left, right []change
	for range 1 + r.IntN(4) {
		left = append(left, random())
	}
	for range 1 + r.IntN(4) {
		if r.IntN(5) == 0 {
			right = append(right, left[r.IntN(len(left))])
		} else {
			right = append(right, random())
		}
	}
	return apply(nil), apply(left), apply(right)
}

// TestMergeOracle compares with git merge-file over random cases.
// LLPATCH_MERGE_CASES sets how many.
func TestMergeOracle(t *testing.T) {
	cases := 3000
	if s := os.Getenv("LLPATCH_MERGE_CASES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		cases = n
	}
	a := agreement{count: map[string]int{}}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		dir := t.TempDir()
		wg.Go(func() {
			for i := w; i < cases; i += workers {
				base, ours, theirs := randomMerge(rand.New(rand.NewPCG(uint64(i), 7)))
				a.judge(t, "case "+strconv.Itoa(i), dir, base, ours, theirs)
			}
		})
	}
	wg.Wait()
	t.Log(cases, "cases:", a.count)
	if a.count["same bytes"] < cases/4 || a.count["both conflict"] < cases/4 || a.count[string(AmongEqual)] == 0 {
		t.Errorf("the cases do not cover what they should: %v", a.count)
	}
}

// TestMergeOracleLarge does the same with files in which the search for the
// shortest edits is given up.
func TestMergeOracleLarge(t *testing.T) {
	a := agreement{count: map[string]int{}}
	dir := t.TempDir()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		lines := make([]int, 3000)
		for i := range lines {
			lines[i] = r.IntN(200)
		}
		write := func(change func(i int) int) []byte {
			var b bytes.Buffer
			for i, l := range lines {
				if n := change(i); n >= 0 {
					fmt.Fprintln(&b, "w", l+n)
				}
			}
			return b.Bytes()
		}
		most := r.IntN(2500)
		base := write(func(int) int { return 0 })
		ours := write(func(i int) int {
			if i < most {
				return r.IntN(4) - 1
			}
			return 0
		})
		theirs := write(func(i int) int {
			if i > most+2 && r.IntN(3) == 0 {
				return r.IntN(3) - 1
			}
			return 0
		})
		a.judge(t, "seed "+strconv.FormatUint(seed, 10), dir, base, ours, theirs)
	}
	t.Log(a.count)
}

func FuzzMerge3(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nx\nc\n"), []byte("a\nb\n"))
	f.Add([]byte("x\nx\nx\nx\n"), []byte("x\nx\nx\nx\nx\n"), []byte("x\ny\nx\nx"))
	f.Add([]byte(""), []byte("\n\n"), []byte("\x00"))
	for seed := range uint64(10) {
		base, ours, theirs := randomMerge(rand.New(rand.NewPCG(seed, 8)))
		f.Add(base, ours, theirs)
	}
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) {
		start := time.Now()
		is := func(what string, b, o, x, want []byte) {
			got, conflicts := mergeText(b, o, x)
			if conflicts != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %q, %+v, want %q", what, got, conflicts, want)
			}
		}
		is("only theirs", base, base, theirs, theirs)
		is("only ours", base, ours, base, ours)
		is("the same", base, ours, ours, ours)
		got, conflicts := mergeText(base, ours, theirs)
		back, conflicts2 := mergeText(base, theirs, ours)
		if len(conflicts) != len(conflicts2) || !bytes.Equal(got, back) {
			t.Errorf("the sides are not alike: %q %+v, %q %+v", got, conflicts, back, conflicts2)
		}
		m := newMerge(base, ours, theirs)
		at := 0
		for _, r := range m.regions {
			if r.Base.Line-1 < at {
				t.Fatalf("regions overlap: %+v", m.regions)
			}
			at = r.Base.Line - 1 + r.Base.Count
			r.Ours.lines(m.ours)
			r.Theirs.lines(m.theirs)
			if r.Cause == "" && len(conflicts) == 0 {
				var tbl lineTable
				want := r.Ours.bytes(m.ours)
				if r.From == Theirs {
					want = r.Theirs.bytes(m.theirs)
				}
				if merged := tbl.number(got); merged.count() > 0 && !bytes.Equal(r.Merged.bytes(merged), want) {
					t.Fatalf("merged lines %v are %q, want %q", r.Merged, r.Merged.bytes(merged), want)
				}
			}
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("took %s", d)
		}
	})
}
