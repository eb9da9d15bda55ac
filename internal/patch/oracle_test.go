package patch

import (
	"bytes"
	"errors"
	"fmt"
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

// gitEnv keeps the machine's and the user's settings, and any repository around
// the temporary folder, out of git's answers.
func gitEnv(t testing.TB, dir string) []string {
	t.Helper()
	return append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "HOME="+dir,
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "LC_ALL=C", "TZ=UTC",
		"GIT_AUTHOR_NAME=Ada L", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=2026-01-02T03:04:05+01:00",
		"GIT_COMMITTER_NAME=Ada L", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_COMMITTER_DATE=2026-01-02T03:04:05+01:00")
}

// git runs git in dir and returns its output.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := gitTry(t, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gitTry is git for commands that may fail.
func gitTry(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, gitEnv(t, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}

// applyOne applies a patch to a tree of one file.
func applyOne(t testing.TB, path, before, diff string) (string, []Placement, error) {
	t.Helper()
	ps, err := Parse("fix", "x.patch", []byte(diff))
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, diff)
	}
	base, err := source.New(map[string]source.File{path: {Mode: source.Regular, Data: []byte(before)}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := Apply(base, ps)
	if err != nil {
		return "", nil, err
	}
	f, err := res.Tree.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(f.Data), res.Placements, nil
}

// conflictKinds returns the causes in a joined error.
func conflictKinds(t testing.TB, err error) []Cause {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not a joined error: %v", err)
	}
	var kinds []Cause
	for _, e := range joined.Unwrap() {
		var c *Conflict
		if !errors.As(e, &c) {
			t.Fatalf("not a conflict: %v", e)
		}
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

// oracleCases is how many random cases an oracle test takes; LLPATCH_ORACLE_CASES sets it.
func oracleCases(t *testing.T) int {
	s := os.Getenv("LLPATCH_ORACLE_CASES")
	if s == "" {
		return 2000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestGitOracle compares with git apply over random cases: the same bytes where
// both apply; never applied where git refuses, but for what landed; refused where git applies only
// for the reasons that doc.go names.
func TestGitOracle(t *testing.T) {
	cases := oracleCases(t)
	count := gitOracle(t, cases, randomTrial)
	if count["same"] < cases/4 || count["both refuse"] < cases/20 || count["ambiguous"] == 0 {
		t.Errorf("the cases do not cover what they should: %v", count)
	}
}

// TestGitOracleRepeated is TestGitOracle for files of repeated blocks, where it is
// the order of the hunks that gives each of them one place.
func TestGitOracleRepeated(t *testing.T) {
	cases := oracleCases(t)
	count := gitOracle(t, cases, repeatedTrial)
	if count["same"] < cases/4 || count["by order"] < cases/20 || count["as proposed"] < cases/50 {
		t.Errorf("the cases do not cover what they should: %v", count)
	}
}

// gitOracle compares random cases with git apply and counts what came of them. An
// ambiguous file of which every hunk has a proposal must, if those are taken, come
// out as git makes it.
func gitOracle(t *testing.T, cases int, make func(*rand.Rand, int) trial) map[string]int {
	t.Helper()
	count := map[string]int{}
	r := rand.New(rand.NewPCG(1, 2))
	// One git process judges many files: with --reject each is on its own.
	const batch = 500
	for first := 0; first < cases; first += batch {
		dir := t.TempDir()
		var trials []trial
		var diffs []string
		var all strings.Builder
		for i := range min(batch, cases-first) {
			tr := make(r, []int{3, 3, 1, 5}[r.IntN(4)])
			name := "f" + strconv.Itoa(i)
			diff := unified(name, tr.base, tr.want, tr.context)
			if !strings.Contains(diff, "@@") {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(tr.target, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			trials, diffs = append(trials, tr), append(diffs, name+"\x00"+diff)
			all.WriteString(diff)
		}
		gitApply(t, dir, all.String())
		for i, tr := range trials {
			name, diff, _ := strings.Cut(diffs[i], "\x00")
			_, err := os.Stat(filepath.Join(dir, name+".rej"))
			gitOK := errors.Is(err, os.ErrNotExist)
			gitOut, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			target := strings.Join(tr.target, "")
			report := func(format string, args ...any) {
				t.Errorf("case %d: %s\n--- patch\n%s--- target\n%s--- git %v\n%s", first+i, fmt.Sprintf(format, args...), diff,
					target, gitOK, gitOut)
			}
			out, placed, err := applyOne(t, name, target, diff)
			switch {
			case err == nil && !gitOK && slices.ContainsFunc(placed, isLanded):
				count["landed"]++ // TestLandedOracle is about these
			case err == nil && !gitOK:
				report("applied, but git refuses: %q", out)
			case err == nil && out != string(gitOut):
				if !joined(string(gitOut), tr) {
					report("other bytes than git: %q", out)
				}
				count["git joins lines"]++
			case err == nil:
				count["same"]++
				if byOrder(t, target, diff) {
					count["by order"]++
				}
			case !gitOK:
				count["both refuse"]++
			default:
				why := explained(t, err, tr)
				if why == "" || slices.Equal(tr.base, tr.target) {
					report("git applies, refused: %v", err)
				}
				count[why]++
				if guess, ok := proposed(t, name, target, diff); ok {
					count["as proposed"]++
					if guess != string(gitOut) && !joined(string(gitOut), tr) {
						report("proposed is other than git: %q", guess)
					}
				}
			}
		}
	}
	t.Log(count)
	return count
}

// byOrder reports whether some hunk of a patch that fits stands in several places, off its line.
func byOrder(t *testing.T, target, diff string) bool {
	t.Helper()
	hunks := parsed(t, diff)[0].changes[0].hunks
	txt := newText([]byte(target))
	spots, bad := place(txt, hunks, "", func() string { return "" })
	for i := range spots {
		if len(bad) == 0 && spots[i].at != spots[i].want && hunks[i].trail > 0 && len(txt.find(&hunks[i])) > 1 {
			return true
		}
	}
	return false
}

// proposed applies a patch of one file with what is proposed for its ambiguous hunks.
func proposed(t *testing.T, path, before, diff string) (string, bool) {
	t.Helper()
	s := newState(tree(t, map[string]source.File{path: file(before)}))
	s.guess = true
	txns, err := s.apply(parsed(t, diff), 1, (*txn).commit)
	if err != nil {
		t.Fatal(err)
	}
	if len(txns[0].conflicts) > 0 {
		return "", false
	}
	return string(s.changes[path].Data), true
}

// open reports whether the last of the lines has no newline.
func open(lines []string) bool {
	return len(lines) > 0 && !strings.HasSuffix(lines[len(lines)-1], "\n")
}

// explained returns the permitted reason for refusing what git applies.
func explained(t *testing.T, err error, tr trial) string {
	t.Helper()
	for _, k := range conflictKinds(t, err) {
		switch k {
		case Ambiguous:
			return "ambiguous"
		case OutOfOrder:
			return "out of order"
		case NoPlace:
			// Git lets a last line without newline match one that has it.
			if open(tr.base) {
				return "no newline"
			}
		}
	}
	return ""
}

// joined reports whether git's result has a line that stands in none of the
// files: it takes a last line without newline for the same line further up, and
// glues the next one to it.
func joined(out string, tr trial) bool {
	if !open(tr.base) {
		return false
	}
	known := map[string]bool{}
	for _, l := range slices.Concat(tr.base, tr.want, tr.target) {
		known[strings.TrimRight(l, "\r\n")] = true
	}
	for l := range strings.Lines(out) {
		if !known[strings.TrimRight(l, "\r\n")] {
			return true
		}
	}
	return false
}

// TestGitOracleZero does the same for diffs without context. There git's
// search is a guess; ours may only give the same bytes or refuse, and must
// apply a diff to the file that it was made from.
func TestGitOracleZero(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	var trials []trial
	var diffs []string
	for i := range 500 {
		tr := randomTrial(r, 0)
		if i%2 == 0 {
			tr.target = tr.base
		}
		name := "f" + strconv.Itoa(i)
		diff := unified(name, tr.base, tr.want, 0)
		if !strings.Contains(diff, "@@") {
			continue
		}
		head, rest, _ := strings.Cut(diff, "\n")
		diff = fmt.Sprintf("%s\nindex %s..%s 100644\n%s", head, blobID([]byte(strings.Join(tr.base, "")))[:10],
			blobID([]byte(strings.Join(tr.want, "")))[:10], rest)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(tr.target, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		trials, diffs = append(trials, tr), append(diffs, name+"\x00"+diff)
	}
	var all strings.Builder
	for _, d := range diffs {
		_, diff, _ := strings.Cut(d, "\x00")
		all.WriteString(diff)
	}
	gitApply(t, dir, all.String(), "--unidiff-zero")
	same, refused := 0, 0
	for i, tr := range trials {
		name, diff, _ := strings.Cut(diffs[i], "\x00")
		out, _, err := applyOne(t, name, strings.Join(tr.target, ""), diff)
		if err != nil {
			if strings.Join(tr.target, "") == strings.Join(tr.base, "") {
				t.Errorf("refused on its own base: %v\n%s", err, diff)
			}
			refused++
			continue
		}
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, name+".rej")); err == nil || out != string(want) {
			t.Errorf("other bytes than git, or git refuses: %q, want %q\n%s", out, want, diff)
		}
		same++
	}
	t.Logf("same %d, refused %d", same, refused)
	if same < 200 || refused < 50 {
		t.Errorf("the cases do not cover what they should: same %d, refused %d", same, refused)
	}
}

// gitApply applies a patch of many files, leaving NAME.rej beside each that git
// does not apply.
func gitApply(t *testing.T, dir, diff string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"apply", "--reject", "--whitespace=nowarn", "-"},
		args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, gitEnv(t, dir), strings.NewReader(diff)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("corrupt patch")) || bytes.Contains(out, []byte("fragment without header")) {
		t.Fatalf("git apply cannot read the patch: %s", out)
	}
}
