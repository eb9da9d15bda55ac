package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// historian makes and updates one mirror.
type historian struct {
	*fetcher
	git  string // the program
	path string // the mirror
}

// from makes the mirror from a source, or updates it.
func (h historian) from(ctx context.Context, s spec.Source) (*Mirror, error) {
	address, local, err := h.address(s)
	if err != nil {
		return nil, err
	}
	m := &Mirror{Path: h.path, Source: s.Name, New: !h.hasMirror()}
	h.Log.Info("fetching the history", "upstream", h.upstream, "source", s.Name, "to", h.path)
	if m.New {
		err = h.clone(ctx, address)
	} else {
		err = h.update(ctx, s.Name, address)
	}
	if err != nil {
		if local && ctx.Err() == nil && lacksObjects(err) {
			err = fmt.Errorf("%s lacks objects, as a partial clone does, and cannot be copied; give it to --source of the "+
				"command itself (llpatch status --source %s), or complete it (%s): %w",
				address, run.Quote(address), complete(address), err)
		}
		return nil, err
	}
	tags, err := releaseTags(h.path)
	m.Tags = len(tags)
	return m, err
}

// address returns what git is told, and whether it is of this machine.
func (h historian) address(s spec.Source) (address string, local bool, err error) {
	at := s.URL
	if path, ok := strings.CutPrefix(at, "file://"); ok {
		at = filepath.FromSlash(path)
	}
	if s.Kind == kindSniff {
		kind, err := sniffAddress(at)
		if err != nil {
			return "", false, err
		}
		if kind != "git" {
			return "", false, errors.New("a bundle, package or tarball holds no history: give a git repository")
		}
	}
	if isRemote(at) {
		if h.Offline {
			return "", false, errOffline
		}
		return at, false, nil
	}
	g, err := findGitDir(at)
	if err != nil {
		return "", true, err
	}
	if _, err := os.Stat(filepath.Join(g.shared(), "shallow")); err == nil {
		return "", true, errShallow(at)
	}
	at, err = filepath.Abs(at)
	return at, true, err
}

func errShallow(where string) error {
	return fmt.Errorf("%s is a shallow clone, its history is cut off: run git fetch --unshallow there", where)
}

// clone makes the mirror under another name, and gives it its own when whole.
//
// It has branches and tags only. git clone --mirror takes every ref: of a
// repository on GitHub that is also every pull request ever made, most of which
// never became history. A local repository is read through its pack, as a remote
// one is, and not linked to: what is missing or damaged there shows now, and
// nothing is borrowed.
func (h historian) clone(ctx context.Context, address string) (err error) {
	scratch := h.path + scratchSuffix
	defer func() {
		if err != nil {
			err = errors.Join(err, cacheError(os.RemoveAll(scratch)))
		}
	}()
	_, err = h.run(ctx, "clone", "--bare", "--no-local", "--template=", "--progress", "--", address, scratch)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(scratch, "shallow")); err == nil {
		return errShallow(address)
	}
	tags, err := releaseTags(scratch)
	if err != nil {
		return err
	}
	if h.upstream == spec.LlamaCpp && len(tags) == 0 {
		return fmt.Errorf("%s has no tag of a release, such as b8833: it is not %s's history", address, h.upstream)
	}
	if h.upstream != spec.LlamaCpp {
		if err := h.pinned(address, scratch); err != nil {
			return err
		}
	}
	return cacheError(os.Rename(scratch, h.path))
}

// pinned demands that a history without releases has one of the commits that the
// lock pins of it, so that none is taken for another upstream's.
func (h historian) pinned(address, path string) (err error) {
	g, err := findGitDir(path)
	if err != nil {
		return err
	}
	st := &store{where: path, open: g.storages}
	defer func() { err = errors.Join(err, st.close()) }()
	r, err := st.acquire()
	if err != nil {
		return err
	}
	defer st.release(r)
	for _, pin := range h.Lock[h.upstream] {
		if pin.Commit != "" && r.has(pin.Commit) {
			return nil
		}
	}
	return fmt.Errorf("%s has none of the commits that recipes/tags.lock pins of %s: it is not its history", address,
		h.upstream)
}

// update fetches what is new. Branches go where upstream puts them; tags are only
// added, so that none moves or vanishes.
func (h historian) update(ctx context.Context, name, address string) error {
	if _, err := findGitDir(h.path); err != nil {
		return cacheError(fmt.Errorf("the mirror is damaged; remove it and fetch the history again: %w", err))
	}
	fetch := func(refs ...string) ([]string, error) {
		return h.run(ctx, slices.Concat([]string{"--git-dir=" + h.path, "fetch", "--no-tags", "--progress"}, refs)...)
	}
	// Pruned, because a branch a stands in the way of a branch a/b.
	if _, err := fetch("--prune", "--", address, "+refs/heads/*:refs/heads/*"); err != nil {
		return err
	}
	said, err := fetch("--", address, "refs/tags/*:refs/tags/*")
	if err == nil {
		return nil
	}
	var moved []string
	for _, line := range said {
		if m := rejected.FindStringSubmatch(line); m != nil {
			moved = append(moved, m[1])
		}
	}
	if len(moved) > 0 && ctx.Err() == nil {
		return &TagsMoved{Upstream: h.upstream, Source: name, Mirror: h.path, Tags: moved}
	}
	return err
}

var (
	rejected = regexp.MustCompile(`^ ! \[rejected\]\s.* -> (\S+)\s`)
	counted  = regexp.MustCompile(`^(?:remote: )?([A-Z][a-z]+ [a-z]+): +\d+% \((\d+)/(\d+)\)`)
	missing  = regexp.MustCompile(`possible repository corruption|missing blob|unable to read [0-9a-f]{40}|bad object|not found in the object store`)
)

// lacksObjects reports whether git's complaint is that the other side lacks
// objects.
func lacksObjects(err error) bool { return missing.MatchString(err.Error()) }

// settings are the user's own, for proxies and passwords, with what must hold
// here. Nothing is packed anew behind a reader's back, and what is fetched stays
// in its pack, which is quicker to read than loose objects.
func (h historian) settings() []string {
	return []string{
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "fetch.unpackLimit=1",
		"-c", "fetch.prune=false", "-c", "fetch.pruneTags=false",
		"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=" + strconv.Itoa(int(h.stall.Seconds())),
	}
}

// ofAnotherRepository are variables by which git, when it runs a hook, names the
// repository at hand.
var ofAnotherRepository = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_QUARANTINE_PATH",
}

func historyEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return slices.Contains(ofAnotherRepository, key)
	})
	// A URL of a declaration must not name a program to run (ext::).
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
		"GIT_DEFAULT_REF_FORMAT=files")
}

// run runs git and returns the lines that it said, without those of its progress,
// which go to the callback. An error ends with the lines that complain.
func (h historian) run(ctx context.Context, args ...string) ([]string, error) {
	said := &gitTalk{progress: h.Progress}
	err := run.Run(ctx, run.Cmd{
		Argv: slices.Concat([]string{h.git}, h.settings(), args), Env: historyEnv(), Stderr: said,
	})
	said.end()
	var e *run.Error
	if ctx.Err() != nil {
		return said.lines, ctx.Err()
	}
	if !errors.As(err, &e) || e.Err != nil {
		return said.lines, err
	}
	complaint := said.complaint(e.Exit)
	if strings.Contains(complaint, "No space left on device") { // git is told to speak English
		return said.lines, cacheError(fmt.Errorf("%s: git %s: %w", h.path, h.verb(args), syscall.ENOSPC))
	}
	return said.lines, fmt.Errorf("git %s: %s", h.verb(args), complaint)
}

func (h historian) verb(args []string) string {
	return args[slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })]
}

// gitTalk reads what git writes for a terminal: lines, and progress that a
// carriage return overwrites.
type gitTalk struct {
	progress func(what string, done, total int64)
	part     []byte
	lines    []string
}

// Write takes the next bytes; it never fails.
func (g *gitTalk) Write(p []byte) (int, error) {
	g.part = append(g.part, p...)
	for {
		i := bytes.IndexAny(g.part, "\r\n")
		if i < 0 {
			return len(p), nil
		}
		g.line(string(g.part[:i]))
		g.part = g.part[i+1:]
	}
}

func (g *gitTalk) end() {
	g.line(string(g.part))
	g.part = nil
}

func (g *gitTalk) line(s string) {
	m := counted.FindStringSubmatch(s)
	if m == nil {
		if s = strings.TrimRight(s, " "); s != "" {
			g.lines = append(g.lines, s)
		}
		return
	}
	done, derr := strconv.ParseInt(m[2], 10, 64)
	total, terr := strconv.ParseInt(m[3], 10, 64)
	if g.progress != nil && derr == nil && terr == nil {
		g.progress("history: "+strings.ToLower(m[1]), done, total)
	}
}

// complaint is what git said was wrong, at most five lines of it.
func (g *gitTalk) complaint(exit int) string {
	const most = 5
	var out []string
	for _, l := range g.lines {
		if strings.Contains(l, "fatal: ") || strings.Contains(l, "error: ") || strings.HasPrefix(l, " ! ") {
			out = append(out, strings.TrimSpace(l))
		}
	}
	if len(out) == 0 {
		out = g.lines
	}
	if len(out) == 0 {
		return fmt.Sprintf("exit code %d", exit)
	}
	return strings.Join(out[max(0, len(out)-most):], "\n")
}
