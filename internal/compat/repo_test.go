package compat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// history is a repository being written, one commit after the other.
type history struct {
	t      testing.TB
	dir    string
	stream strings.Builder
	n      int // commits so far: the build number of the last
}

func newHistory(tb testing.TB) *history {
	tb.Helper()
	return &history{t: tb, dir: tb.TempDir()}
}

// commit adds a commit that sets files; "" removes one, and a name that ends in
// "@" makes a symbolic link. It returns the build number.
func (h *history) commit(subject string, files map[string]string) int {
	h.n++
	when := fmt.Sprintf("A <a@example.org> %d +0000", 1700000000+60*h.n)
	fmt.Fprintf(&h.stream, "commit refs/heads/master\nmark :%d\nauthor %s\ncommitter %s\ndata %d\n%s\n", h.n, when, when,
		len(subject), subject)
	if h.n > 1 {
		fmt.Fprintf(&h.stream, "from :%d\n", h.n-1)
	}
	// Removals first: to remove a folder after a file was put into it would take the file too.
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if files[name] == "" {
			fmt.Fprintf(&h.stream, "D %s\n", strings.TrimSuffix(name, "@"))
		}
	}
	for _, name := range names {
		text, mode := files[name], "100644"
		if n, ok := strings.CutSuffix(name, "@"); ok {
			name, mode = n, "120000"
		}
		if text == "" {
			continue
		}
		fmt.Fprintf(&h.stream, "M %s inline %s\ndata %d\n%s\n", mode, name, len(text), text)
	}
	h.stream.WriteByte('\n')
	return h.n
}

// tag names the last commit after its build number.
func (h *history) tag() {
	fmt.Fprintf(&h.stream, "reset refs/tags/b%d\nfrom :%d\n\n", h.n, h.n)
}

// write makes the repository, bare, and returns its path.
func (h *history) write() string {
	h.t.Helper()
	git(h.t, h.dir, "init", "-q", "--bare", "-b", "master")
	if _, err := tryGit(h.t, h.dir, nil, h.stream.String(), "fast-import", "--quiet"); err != nil {
		h.t.Fatal(err)
	}
	return h.dir
}

func open(tb testing.TB, path string, lock ...map[string]spec.Pin) *History {
	tb.Helper()
	h, err := Open(path, spec.LlamaCpp, append(lock, nil)[0])
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

// numbered returns the lines "1 word" to "n word".
func numbered(word string, from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// diffOf returns the patch from one content of files to another, as git writes it.
func diffOf(tb testing.TB, subject string, old, now map[string]string) string {
	tb.Helper()
	h := newHistory(tb)
	h.commit("old", old)
	changed := maps.Clone(now)
	for name := range old {
		changed[name] = now[name]
	}
	h.commit(subject, changed)
	return git(tb, h.write(), "format-patch", "-1", "--stdout", "--full-index", "-M", "master")
}

func writeFiles(tb testing.TB, files map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// declared makes a stack of one fix from patches by their ranges.
func declared(tb testing.TB, fixedIn int, variants ...[2]string) Stack {
	tb.Helper()
	files := map[string]string{}
	fix := spec.Fix{ID: "fix", Summary: "A fix", Upstream: spec.LlamaCpp}
	if fixedIn > 0 {
		fix.Defects = []spec.Defect{{Upstream: spec.LlamaCpp, Since: 1, FixedIn: fixedIn}}
	}
	for i, v := range variants {
		name := fmt.Sprintf("v%d.patch", i+1)
		files["patches/fix/"+name] = v[1]
		fix.Variants = append(fix.Variants, spec.Variant{
			Upstream: spec.LlamaCpp, Range: tag.MustParseRange(v[0]),
			Patch: name,
		})
	}
	s, err := Declared(&spec.Repo{FS: os.DirFS(writeFiles(tb, files)), Fixes: []spec.Fix{fix}}, spec.LlamaCpp, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// runs writes a fix's runs as "b1..b3 exact, b4 conflict".
func runs(st Status) string {
	var out []string
	for _, r := range fold(st.Runs) {
		out = append(out, fmt.Sprintf("%s %s", Span{From: r.From, To: r.To}, r.Verdict))
	}
	return strings.Join(out, ", ")
}

// randomStack writes a history of a few files whose lines are drawn from few, so
// that places repeat, and patches made on commits of it: edits, new files,
// deletions and renames.
func randomStack(tb testing.TB, seed uint64, commits, patches int) (repo, dir string) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	names := []string{"a.c", "sub/b.c", "sub/deep/c.h", "sub/new.c"}
	line := func() string { return fmt.Sprintf("line %d\n", rng.IntN(60)) }
	edit := func(text string) string {
		lines := slices.Collect(strings.Lines(text))
		at := rng.IntN(len(lines) + 1)
		switch {
		case len(lines) == 0 || rng.IntN(3) == 0:
			lines = slices.Insert(lines, at, line(), line())
		case at == len(lines) || rng.IntN(2) == 0:
			lines = slices.Delete(lines, max(0, at-2), at)
		default:
			lines[at] = line()
		}
		return strings.Join(lines, "")
	}
	// A name without text is a file that is not there.
	state := map[string]string{}
	for _, n := range names[:3] {
		for range 40 + rng.IntN(40) {
			state[n] += line()
		}
	}
	state[names[3]] = ""
	h := newHistory(tb)
	var states []map[string]string
	for range commits {
		h.commit("change", state)
		h.tag()
		states = append(states, maps.Clone(state))
		n := names[rng.IntN(len(names))]
		switch rng.IntN(14) {
		case 0:
			state[n] = ""
		case 1:
			other := names[rng.IntN(len(names))]
			state[n], state[other] = state[other], state[n]
		default:
			state[n] = edit(state[n])
		}
	}
	files := map[string]string{}
	for k := 0; len(files) < patches; k++ {
		old := states[rng.IntN(len(states))]
		now := maps.Clone(old)
		for range 1 + rng.IntN(2) {
			n := names[rng.IntN(len(names))]
			if rng.IntN(10) == 0 && now[n] != "" {
				now["moved.c"], now[n] = now[n], ""
			} else {
				now[n] = edit(now[n])
			}
		}
		if !maps.Equal(old, now) {
			files[fmt.Sprintf("%03d.patch", k)] = diffOf(tb, "patch", old, now)
		}
	}
	return h.write(), writeFiles(tb, files)
}
