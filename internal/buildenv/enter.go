package buildenv

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// Entered is a root that programs can be run in. It cannot be removed until Close.
type Entered struct {
	Info
	way  way
	tmp  string   // is /tmp inside
	held *os.File // the lock
}

// way is how a root is entered.
type way struct {
	bwrap   string // bubblewrap's program; empty: unshare
	unshare string
	sh      string
	user    bool // in a user namespace: this is not root
	net     bool // with this machine's network
}

// Open takes the root of a declaration for use. It waits, and says so, while the
// root is being made. The error is a *NotMade, an *Unlocked or a *Missing where
// it can be one.
func Open(ctx context.Context, cache string, d Decl, log *slog.Logger) (*Entered, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	if err := d.CheckLock(); err != nil {
		return nil, err
	}
	s := store{dir: filepath.Join(cache, "env")}
	held, err := s.wait(ctx, d, true, log)
	if err != nil {
		return nil, err
	}
	info, err := s.info(d.id())
	if err != nil {
		return nil, errors.Join(&NotMade{d.Name}, held.Close())
	}
	if d.Kind() != Debian { // a folder, in which nothing is run
		return &Entered{Info: info, held: held}, nil
	}
	e, err := newEntered(ctx, info)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	e.held = held
	return e, nil
}

func newEntered(ctx context.Context, info Info) (*Entered, error) {
	w, err := chooseWay(ctx)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "llpatch-env-")
	return &Entered{Info: info, way: w, tmp: tmp}, err
}

// Temp returns the folder that is /tmp inside, until Close.
func (e *Entered) Temp() string { return e.tmp }

// Close gives the root back and removes the temporary files of what ran in it.
func (e *Entered) Close() error {
	var err error
	if e.tmp != "" {
		err = os.RemoveAll(e.tmp)
	}
	if e.held != nil {
		err = errors.Join(err, e.held.Close())
	}
	return err
}

// chooseWay finds out what this machine allows by doing it: mounting in a
// namespace of one's own, with no network.
func chooseWay(ctx context.Context) (way, error) {
	var errs []error
	try := func(name string, argv ...string) bool {
		err := allowed(ctx, argv)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return err == nil
	}
	w := way{user: os.Geteuid() != 0}
	var err error
	if w.sh, err = need("sh", "the shell", "every system has it"); err != nil {
		return w, err
	}
	if p, err := run.LookPath("bwrap", hostPath); err == nil {
		if try("bwrap", p, "--unshare-net", "--dev-bind", "/", "/", "--tmpfs", "/tmp", "--", w.sh, "-c", ":") {
			w.bwrap = p
			return w, nil
		}
	} else {
		errs = append(errs, errors.New("bwrap (Debian package bubblewrap) is not there"))
	}
	if p, err := run.LookPath("unshare", hostPath); err == nil {
		w.unshare = p
		if try("unshare", w.mounts()...) {
			return w, nil
		}
	} else {
		errs = append(errs, errors.New("unshare (Debian package util-linux) is not there"))
	}
	if ctx.Err() != nil {
		return w, context.Cause(ctx)
	}
	return w, &Missing{
		"a way to enter a root file system:\n  " + strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "\n  "),
		"install bubblewrap, allow user namespaces, or run llpatch as root",
	}
}

// allowed runs a command that does what a way does; nil: this machine lets it.
func allowed(ctx context.Context, argv []string) error {
	_, err := run.Output(ctx, run.Cmd{Argv: argv, Env: []string{"PATH=" + hostPath}, Timeout: time.Minute})
	return err
}

// mounts is a command that mounts something in namespaces of its own, and no more.
func (w way) mounts() []string {
	return append(w.namespace(), w.sh, "-c", "mount -t tmpfs llpatch /tmp")
}

// namespace is the beginning of a command that runs in namespaces of its own.
func (w way) namespace() []string {
	argv := []string{w.unshare, "--mount"}
	if !w.net {
		argv = append(argv, "--net")
	}
	if w.user {
		argv = append(argv, "--map-root-user")
	}
	return append(argv, "--")
}

//go:embed enter.sh
var enterScript string

// argv is the command that runs another one inside.
func (w way) argv(base, tmp, dir string, folders []Folder, argv []string) ([]string, error) {
	root := filepath.Join(base, rootDir)
	if w.bwrap == "" {
		out := append(w.namespace(), w.sh, "-c", enterScript, "enter", filepath.Join(base, mountDir), root, tmp, dir,
			w.unshare)
		for _, f := range folders {
			out = append(out, f.Outside, f.Inside)
		}
		return slices.Concat(out, []string{"--"}, argv), nil
	}
	out := []string{w.bwrap, "--unshare-net", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(filepath.Join(root, e.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, "--symlink", to, "/"+e.Name())
		case slices.Contains(ownFolders, e.Name()):
			out = append(out, "--ro-bind", filepath.Join(root, e.Name()), "/"+e.Name())
		}
	}
	out = append(out, "--bind", tmp, "/tmp")
	for _, f := range folders {
		out = append(out, "--bind", f.Outside, f.Inside)
	}
	return slices.Concat(out, []string{"--chdir", dir, "--"}, argv), nil
}

// ownFolders are the root's inside; whatever else is there is the caller's.
var ownFolders = []string{"etc", "opt", "usr"}

// Folder is a folder of this machine that can be written to inside, and its absolute
// path there.
type Folder struct{ Outside, Inside string }

// Same are folders that have inside the path that they have outside.
func Same(dirs ...string) []Folder {
	var all []Folder
	for _, d := range dirs {
		all = append(all, Folder{d, d})
	}
	return all
}

// Wrap returns the command that runs c in the root. Inside are the root, read
// only; the folders; a /tmp that lasts until Close; and no network. c's programs and
// PATH are the root's, and its Dir is inside one of the folders; empty is /.
func (e *Entered) Wrap(c run.Cmd, folders ...Folder) (run.Cmd, error) {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return c, fmt.Errorf("buildenv %s: a program inside needs its whole path, and this is %q", e.Name, c.Argv)
	}
	for _, f := range folders {
		if err := checkFolder(e.Name, f); err != nil {
			return c, err
		}
	}
	dir := cmp.Or(c.Dir, "/")
	argv, err := e.way.argv(filepath.Dir(e.Root), e.tmp, dir, folders, c.Argv)
	if err != nil {
		return c, err
	}
	c.Argv, c.Dir = argv, outside(c.Dir, folders)
	if e.held != nil {
		c.Hold = append(slices.Clone(c.Hold), e.held)
	}
	return c, nil
}

// Prefix returns what a command line is put behind to run in the root, in dir
// and with the folders, as Wrap has it, while nothing is removed there.
func (e *Entered) Prefix(dir string, folders ...Folder) ([]string, error) {
	return e.way.argv(filepath.Dir(e.Root), e.tmp, dir, folders, nil)
}

// Runner returns what a command line is put behind to run in the root, in dir and with
// the folders, as Wrap has it, but with this machine's network, and as the very process
// that is started: a signal reaches the program itself, and its exit code is its own.
// bubblewrap stays in between, so this is unshare's. The error is a *Missing where this
// machine does not allow it.
func (e *Entered) Runner(ctx context.Context, dir string, folders ...Folder) ([]string, error) {
	for _, f := range folders {
		if err := checkFolder(e.Name, f); err != nil {
			return nil, err
		}
	}
	w := way{user: os.Geteuid() != 0, net: true}
	var err error
	if w.sh, err = need("sh", "the shell", "every system has it"); err != nil {
		return nil, err
	}
	if w.unshare, err = need("unshare", "unshare", "install Debian's package util-linux"); err != nil {
		return nil, err
	}
	if err := allowed(ctx, w.mounts()); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &Missing{
			"a way to run programs in a root file system: " + err.Error(),
			"allow user namespaces, or run llpatch as root",
		}
	}
	return w.argv(filepath.Dir(e.Root), e.tmp, dir, folders, nil)
}

// outside is where a path that is inside one of the folders lies outside; empty where
// it is in none.
func outside(dir string, folders []Folder) string {
	for _, f := range folders {
		if rest, ok := strings.CutPrefix(dir+"/", f.Inside+"/"); ok {
			return filepath.Join(f.Outside, rest)
		}
	}
	return ""
}

func checkFolder(name string, folder Folder) error {
	f := folder.Inside
	for _, p := range []string{folder.Outside, folder.Inside} {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return fmt.Errorf("buildenv %s: %q is not the plain absolute path of a folder", name, p)
		}
	}
	top, _, _ := strings.Cut(f[1:], "/")
	if slices.Contains(append([]string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "dev"}, ownFolders...),
		top) {
		return fmt.Errorf("buildenv %s: %s cannot be had inside, where /%s is the root's own; use a folder elsewhere", name,
			f, top)
	}
	st, err := os.Stat(folder.Outside)
	if err == nil && !st.IsDir() {
		err = errors.New("it is not a folder")
	}
	if err != nil {
		return fmt.Errorf("buildenv %s: folder %s: %w", name, folder.Outside, err)
	}
	return nil
}

var (
	// A package's own version stands in parentheses before the program's.
	bracketRE = regexp.MustCompile(`\([^)]*\)`)
	versionRE = regexp.MustCompile(`\b([0-9]+(?:\.[0-9]+){1,3})`)
	// Debian's MinGW GCC: "x86_64-w64-mingw32-g++-posix (GCC) 12-posix".
	mingwRE = regexp.MustCompile(`\b([0-9]+(?:\.[0-9]+)*)-(?:posix|win32)\b`)
	// ToolkitRE finds the version that nvcc names in the middle of what it prints.
	ToolkitRE = regexp.MustCompile(`(?m)^Cuda compilation tools, release [0-9.]+, V([0-9]+(?:\.[0-9]+){1,3})`)
)

// VersionOf returns the line of what --version prints that names the version, the first but for
// nvcc, and the version in it; "" where it names none.
func VersionOf(out string) (banner, v string) {
	if m := ToolkitRE.FindStringSubmatch(out); m != nil {
		return m[0], m[1]
	}
	banner, _, _ = strings.Cut(strings.TrimSpace(out), "\n")
	banner = strings.TrimSpace(banner)
	for _, re := range []*regexp.Regexp{versionRE, mingwRE} {
		if m := re.FindStringSubmatch(bracketRE.ReplaceAllString(banner, "")); m != nil {
			return banner, m[1]
		}
	}
	return banner, ""
}

// version runs a program of the root and compares its version.
func (e *Entered) version(ctx context.Context, p Program) (Found, error) {
	c, err := e.Wrap(run.Cmd{
		Argv: []string{p.Path, "--version"}, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"},
		Timeout: time.Minute,
	})
	if err != nil {
		return Found{}, err
	}
	out, err := run.Output(ctx, c)
	if err != nil {
		return Found{}, err
	}
	banner, v := VersionOf(string(out))
	switch {
	case v == "":
		return Found{}, fmt.Errorf("%s --version names no version: %q", p.Path, banner)
	case !strings.HasPrefix(v+".", p.Version+"."):
		return Found{}, fmt.Errorf("%s is version %s, and env.toml promises %s", p.Path, v, p.Version)
	}
	return Found{Path: p.Path, Version: v, Banner: banner}, nil
}
