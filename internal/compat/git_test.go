package compat

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs the real git, without the user's configuration.
func git(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	out, err := tryGit(tb, dir, nil, "", args...)
	if err != nil {
		tb.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func tryGit(tb testing.TB, dir string, env []string, stdin string, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), nil
}

// gitStack applies patch files, in order, to the index of a tag, as status does:
// one that git refuses is left out. take is told git's answer for each and says
// whether the index shall get it.
func gitStack(tb testing.TB, repo, tag string, files []string, take func(i int, fits bool) bool) {
	tb.Helper()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(tb.TempDir(), "index")}
	if _, err := tryGit(tb, repo, env, "", "read-tree", "refs/tags/"+tag); err != nil {
		tb.Fatal(err)
	}
	for i, f := range files {
		_, err := tryGit(tb, repo, env, "", "apply", "--cached", "--check", f)
		if !take(i, err == nil) {
			continue
		}
		if _, err := tryGit(tb, repo, env, "", "apply", "--cached", f); err != nil {
			tb.Fatal(err)
		}
	}
}

// agree compares every cell of a foreign stack with git's answer on the tags
// and returns how many were compared, and how many of them we call ambiguous
// where git takes the nearer place.
func agree(tb testing.TB, h *History, s Stack, dir string, tags []Tag) (compared, ambiguous int) {
	tb.Helper()
	j := newJudge(h, Options{}, s)
	cells, err := j.run(tb.Context(), tags)
	if err != nil {
		tb.Fatal(err)
	}
	var files []string
	for _, f := range s.Fixes {
		abs, err := filepath.Abs(filepath.Join(dir, f.Variants[0].File))
		if err != nil {
			tb.Fatal(err)
		}
		files = append(files, abs)
	}
	for k, tag := range tags {
		partly := false // from there on git's tree is another
		gitStack(tb, h.Path, tag.Name, files, func(i int, fits bool) bool {
			c := &cells[i][k]
			ours := c.verdict.Fits()
			// Git has no word for what has landed in part.
			if c.verdict == Partly && !fits {
				partly = true
			}
			if partly {
				return false
			}
			compared++
			switch {
			case ours == fits:
			case fits && onlyAmbiguous(c.outcome()):
				ambiguous++
			default:
				tb.Errorf("%s on %s: we say %s %v, git says %v", s.Fixes[i].ID, tag.Name, c.verdict, c.outcome().Findings, fits)
			}
			// What comes behind an ambiguous one is judged on what git makes.
			return fits && c.verdict.changes()
		})
	}
	return compared, ambiguous
}

func onlyAmbiguous(out *outcome) bool {
	for _, f := range out.Findings {
		if f.Cause != "ambiguous" {
			return false
		}
	}
	return len(out.Findings) > 0
}
