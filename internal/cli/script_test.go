package cli_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/llpatch/llpatch/internal/cli"
	"github.com/llpatch/llpatch/internal/golden"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/sshd"
)

func TestMain(m *testing.M) {
	run.Supervise()
	testscript.Main(m, map[string]func(){
		"llpatch": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		},
	})
}

// TestScript runs testdata/script/*.txtar: every command and every exit code,
// on a small upstream that is built for real.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       golden.Update(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			fatbins, err := filepath.Abs("../binary/testdata/fatbin")
			if err != nil {
				return err
			}
			e.Setenv("FATBINS", fatbins)
			e.Setenv("PE", filepath.Join(filepath.Dir(fatbins), "pe"))
			e.Setenv("BUNDLES", filepath.Join(filepath.Dir(fatbins), "hip"))
			a, err := txtar.ParseFile("testdata/base.txtar")
			if err != nil {
				return err
			}
			if err := txtar.Write(a, e.WorkDir); err != nil {
				return err
			}
			e.Setenv("LLPATCH_CACHE", filepath.Join(e.WorkDir, "cache"))
			// For scripts that take everything else off the PATH.
			self, err := exec.LookPath("llpatch")
			if err != nil {
				return err
			}
			e.Setenv("LLPATCH", self)
			for page, script := range map[string]string{"docs/manual/fork.md": "page.sh", "CONTRIBUTING.md": "contributing.sh"} {
				text, err := shellOf(filepath.Join("../..", page))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(e.WorkDir, script), text, 0o644); err != nil {
					return err
				}
			}
			return makeUpstream(filepath.Join(e.WorkDir, "up"))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":    exitCode,
			"sshd":    startSSHD,
			"githttp": startGitHTTP,
			"npm":     startNPM,
		},
	})
}

// shellOf is the first block of shell commands in a page, without what it is indented by.
func shellOf(page string) ([]byte, error) {
	data, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	m := regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$").FindSubmatch(data)
	if m == nil {
		return nil, fmt.Errorf("%s has no block of shell commands", page)
	}
	return regexp.MustCompile("(?m)^"+string(m[1])).ReplaceAll(m[2], nil), nil
}

// exitCode is the script command "code N PROG ARGS...": the program must end
// with exactly that code; its output is then stdout and stderr.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROG ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%v ended with %s, want %s", args[1:], got, args[0])
	}
}

// startSSHD is the script command "sshd": from then on ssh and sftp reach a server of
// the test's own by the names of package sshd.
func startSSHD(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: sshd")
	}
	dir := ts.MkAbs("sshd")
	ts.Check(os.Mkdir(dir, 0o755))
	server, err := sshd.StartIn(dir, ts.Defer)
	ts.Check(err)
	ts.Setenv("PATH", server.Bin+string(filepath.ListSeparator)+ts.Getenv("PATH"))
}

// startGitHTTP is the script command "githttp DIR": the repositories below the folder are
// served at $GITHTTP, to the user "me" with the password "secret", by git's own program.
func startGitHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: githttp DIR")
	}
	libexec, err := exec.Command("git", "--exec-path").Output()
	ts.Check(err)
	git := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"), Root: "/",
		Env: []string{
			"GIT_PROJECT_ROOT=" + ts.MkAbs(args[0]), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=me",
			"GIT_CONFIG_GLOBAL=" + ts.Getenv("GIT_CONFIG_GLOBAL"),
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, word, _ := r.BasicAuth(); name != "me" || word != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	ts.Defer(s.Close)
	ts.Setenv("GITHTTP", s.URL)
}

// startNPM is the script command "npm DIR FILE": each folder of DIR is a package of a registry
// that npm is set up for from then on, in version 1.0.0, and sha512:NAME in FILE becomes the
// hash of its tarball.
func startNPM(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: npm DIR FILE")
	}
	dir, file := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	text, err := os.ReadFile(file)
	ts.Check(err)
	entries, err := os.ReadDir(dir)
	ts.Check(err)
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	for _, e := range entries {
		tarball, err := exec.Command("tar", "-C", filepath.Join(dir, e.Name()), "--transform", "s,^\\.,package,", "-cz",
			".").Output()
		ts.Check(err)
		sum := sha512.Sum512(tarball)
		text = bytes.ReplaceAll(text, []byte("sha512:"+e.Name()), []byte("sha512-"+base64.StdEncoding.EncodeToString(sum[:])))
		mux.HandleFunc("/"+e.Name()+"/1.0.0", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"dist": {"tarball": "%s/%s.tgz"}}`, s.URL, e.Name())
		})
		mux.HandleFunc("/"+e.Name()+".tgz", func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(tarball))
		})
	}
	ts.Check(os.WriteFile(file, text, 0o644))
	ts.Setenv("npm_config_registry", s.URL)
}

// makeUpstream turns a folder into a repository with the tags b100 and b101.
func makeUpstream(dir string) error {
	git := func(args ...string) error {
		c := exec.Command("git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := c.CombinedOutput()
		if err != nil {
			return &exec.Error{Name: "git " + strings.Join(args, " ") + ": " + string(out), Err: err}
		}
		return nil
	}
	steps := [][]string{
		{"init", "-q", "-b", "master"},
		{"add", "."},
		{"commit", "-q", "-m", "first"},
		{"tag", "b100"},
	}
	for _, s := range steps {
		if err := git(s...); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "NEWS"), []byte("second\n"), 0o644); err != nil {
		return err
	}
	for _, s := range [][]string{{"add", "."}, {"commit", "-q", "-m", "second"}, {"tag", "b101"}} {
		if err := git(s...); err != nil {
			return err
		}
	}
	return nil
}
