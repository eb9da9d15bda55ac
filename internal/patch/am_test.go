package patch

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// readTree reads a commit of a git repository.
func readTree(t testing.TB, repo, rev string) *source.Tree {
	t.Helper()
	files := map[string]source.File{}
	for _, e := range strings.Split(strings.TrimSuffix(git(t, repo, "ls-tree", "-rz", rev), "\x00"), "\x00") {
		head, path, ok := strings.Cut(e, "\t")
		if !ok {
			continue
		}
		f := strings.Fields(head)
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = source.File{Mode: source.Mode(mode), Data: []byte(git(t, repo, "cat-file", "blob", f[2]))}
	}
	tree, err := source.New(files)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(git(t, repo, "rev-parse", rev+"^{tree}")); tree.ID() != want {
		t.Fatalf("tree %s, git has %s", tree.ID(), want)
	}
	return tree
}

// history is a repository with commits of every kind of change.
type history struct {
	r     *rand.Rand
	dir   string
	files map[string]bool // path -> text
	n     int
}

func (h *history) path() string {
	h.n++
	folder := []string{"", "src/", "a b/", "ä/ö/"}[h.r.IntN(4)]
	return folder + fmt.Sprintf([]string{
		"f%d.c", "with space %d", "quo\"te%d", "ünï%d", `back\slash%d\`, "tab\t%d",
		"new\nline%d", " lead%d ",
	}[h.r.IntN(8)], h.n)
}

func (h *history) write(t *testing.T, path string, data []byte) {
	t.Helper()
	full := filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (h *history) text() []byte {
	var b bytes.Buffer
	ending := []string{"\n", "\n", "\r\n"}[h.r.IntN(3)]
	for range h.r.IntN(60) {
		fmt.Fprintf(&b, "line %d\f%s", h.r.IntN(50), ending)
	}
	if h.r.IntN(6) == 0 {
		b.WriteString("no end")
	}
	return b.Bytes()
}

func (h *history) pick(t *testing.T) string {
	t.Helper()
	paths := slices.Sorted(maps.Keys(h.files))
	return paths[h.r.IntN(len(paths))]
}

// change makes one random change in the work tree.
func (h *history) change(t *testing.T) {
	t.Helper()
	edit := func(path string) {
		data, err := os.ReadFile(filepath.Join(h.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(data), "\n")
		at := h.r.IntN(len(lines))
		lines[at] = "edited " + strconv.Itoa(h.r.IntN(100)) + "\n" + lines[at]
		h.write(t, path, []byte(strings.Join(lines, "")))
	}
	kind := h.r.IntN(10)
	if len(h.files) < 4 {
		kind = 0
	}
	switch kind {
	case 0, 1:
		p := h.path()
		h.files[p] = true
		h.write(t, p, h.text())
	case 2:
		p := h.path()
		h.files[p] = false
		data := make([]byte, 100+h.r.IntN(3000))
		for i := range data {
			data[i] = byte(h.r.IntN(256))
		}
		h.write(t, p, data)
	case 3:
		from, to := h.pick(t), h.path()
		data, err := os.ReadFile(filepath.Join(h.dir, from))
		if err != nil {
			t.Fatal(err)
		}
		h.write(t, to, data)
		h.files[to] = h.files[from]
		if h.r.IntN(2) == 0 {
			if err := os.Remove(filepath.Join(h.dir, from)); err != nil {
				t.Fatal(err)
			}
			delete(h.files, from)
		}
		if h.files[to] && h.r.IntN(2) == 0 {
			edit(to)
		}
	case 4:
		p := h.pick(t)
		if err := os.Remove(filepath.Join(h.dir, p)); err != nil {
			t.Fatal(err)
		}
		delete(h.files, p)
	case 5:
		full := filepath.Join(h.dir, h.pick(t))
		info, err := os.Stat(full)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(full, info.Mode()^0o111); err != nil {
			t.Fatal(err)
		}
	case 6:
		// A file becomes a link: a deletion and a creation of the same path.
		p := h.pick(t)
		if err := os.Remove(filepath.Join(h.dir, p)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("somewhere", filepath.Join(h.dir, p)); err != nil {
			t.Fatal(err)
		}
		delete(h.files, p)
	default:
		if p := h.pick(t); h.files[p] {
			edit(p)
			edit(p)
			return
		}
		p := h.pick(t)
		data, err := os.ReadFile(filepath.Join(h.dir, p))
		if err != nil {
			t.Fatal(err)
		}
		if !h.files[p] {
			h.write(t, p, append(data, 0, byte(h.r.IntN(256))))
		}
	}
}

// makeHistory commits n random changes above a first commit.
func makeHistory(t *testing.T, seed uint64, n int) string {
	t.Helper()
	h := &history{r: rand.New(rand.NewPCG(seed, 5)), dir: t.TempDir(), files: map[string]bool{}}
	git(t, h.dir, "init", "-q", "-b", "main")
	for range 6 {
		h.change(t)
	}
	h.write(t, "somewhere", []byte("a target\n"))
	git(t, h.dir, "add", "-A")
	git(t, h.dir, "commit", "-q", "-m", "base", "--allow-empty")
	git(t, h.dir, "tag", "base")
	subjects := []string{
		"[cuda] pool: free it", "für Ödön: a subject long enough that it has to be folded and encoded over several lines " +
			"of the mail, which happens",
		"plain", "Re: [x][y] z", "=?weird?=", "a  b   c",
	}
	for i := range n {
		for range 1 + h.r.IntN(3) {
			h.change(t)
		}
		git(t, h.dir, "add", "-A")
		body := "why\n\n\n@@ -1 +1 @@\nFrom the report:\n>From a quote\n\nUpstream-Status: Pending\nBug: " +
			"https://example.org/1"
		git(t, h.dir, "-c", "user.name=x", "commit", "-q", "--allow-empty", "--author", "Grüß, \"Q\" Gott <g@example.org>",
			"--cleanup=verbatim", "-m", subjects[i%len(subjects)]+"\n\n"+body)
	}
	return h.dir
}

// TestGitAm exports random histories and compares with git am: the same tree at
// the end, and the tree of each commit on the way.
func TestGitAm(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			repo := makeHistory(t, seed, 12)
			mbox := git(t, repo, "format-patch", "--stdout", "--binary", "--full-index", "-M", "-C", "--find-copies-harder",
				"base")
			series, err := Parse("fix", "all.mbox", []byte(mbox))
			if err != nil {
				t.Fatal(err)
			}
			commits := strings.Fields(git(t, repo, "rev-list", "--reverse", "base..HEAD"))
			// format-patch leaves out a commit that changes nothing.
			commits = slices.DeleteFunc(commits, func(c string) bool {
				return git(t, repo, "diff", "--stat", c+"^", c) == ""
			})
			if len(series) != len(commits) {
				t.Fatalf("%d patches for %d commits", len(series), len(commits))
			}
			tree := readTree(t, repo, "base")
			for i, c := range commits {
				if series[i].Header.Commit != c {
					t.Errorf("commit %s, want %s", series[i].Header.Commit, c)
				}
				res, err := Apply(tree, series[i:i+1])
				if err != nil {
					t.Fatalf("%s: %v", c, err)
				}
				tree = res.Tree
				if want := strings.TrimSpace(git(t, repo, "rev-parse", c+"^{tree}")); tree.ID() != want {
					t.Fatalf("%s: tree %s, want %s\n%s", c, tree.ID(), want, git(t, repo, "show", "--stat", c))
				}
				checkHeader(t, repo, c, series[i].Header)
			}
			base := readTree(t, repo, "base")
			res, err := Apply(base, series)
			if err != nil {
				t.Fatal(err)
			}
			if res.Tree.ID() != tree.ID() {
				t.Errorf("the series in one go gives %s, one by one %s", res.Tree.ID(), tree.ID())
			}
			again, err := Apply(base, series)
			if err != nil || again.Tree.ID() != res.Tree.ID() {
				t.Errorf("a second run gives %v, %v", again, err)
			}
			amTree(t, repo, mbox, res.Tree.ID())
		})
	}
}

// amTree runs git am on the base commit and compares its tree.
func amTree(t *testing.T, repo, mbox, want string) {
	t.Helper()
	git(t, repo, "checkout", "-q", "-B", "am", "base")
	cmd := exec.CommandContext(t.Context(), "git", "am", "-q", "--keep-cr", "--whitespace=nowarn")
	cmd.Dir, cmd.Env, cmd.Stdin = repo, gitEnv(t, repo), strings.NewReader(mbox)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git am: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(git(t, repo, "rev-parse", "HEAD^{tree}")); got != want {
		t.Errorf("git am gives %s, Apply %s", got, want)
	}
}

// checkHeader compares what was read with the commit that the mail came from.
func checkHeader(t *testing.T, repo, commit string, h Header) {
	t.Helper()
	f := strings.SplitN(git(t, repo, "log", "-1", "--format=%an%x00%ae%x00%aD%x00%s%x00%b", commit), "\x00", 5)
	want := Header{
		Commit: commit, Author: f[0], Email: f[1], Date: f[2],
		// Format-patch writes one space for a run of them, and am drops "Re:".
		Subject:  strings.TrimPrefix(strings.Join(strings.Fields(f[3]), " "), "Re: "),
		Body:     strings.TrimRight(f[4], "\n"),
		Trailers: []Trailer{{"Upstream-Status", "Pending"}, {"Bug", "https://example.org/1"}},
	}
	if fmt.Sprintf("%#v", h) != fmt.Sprintf("%#v", want) {
		t.Errorf("header\n%#v\nwant\n%#v", h, want)
	}
}
