// Package page builds the web page of llama-server from its sources: the same bytes on every
// machine, so that a hash stands for it.
package page

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Input is all that decides the bytes of a page.
type Input struct {
	Tree  *source.Tree // the patched tree that has the sources
	Place spec.PagePlace
	Build int // the build number, which the page shows
	Tools spec.PageTools
}

// Page is a web page that was built, or one that was made elsewhere and has the right hash.
type Page struct {
	Sources string          `json:"sources"` // git tree id of the folder with its sources
	SHA256  string          `json:"sha256"`  // of the list of its files: Sum
	Files   int             `json:"files"`
	Tools   *spec.PageTools `json:"tools,omitempty"` // what built it; nil: it was made elsewhere
	Tree    *source.Tree    `json:"-"`
}

// Unavailable says that a page cannot be built here, or not now: there is no network, or no
// Node for this machine.
type Unavailable struct{ Err error }

// Error is the cause.
func (e *Unavailable) Error() string { return "the web page cannot be built: " + e.Err.Error() }

// ExitCode is exit.Source.
func (e *Unavailable) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *Unavailable) Hint() string {
	return "with a network, llpatch fetch TAG --ui builds it; --ui PATH takes one that was built elsewhere"
}

// Unwrap returns Err.
func (e *Unavailable) Unwrap() error { return e.Err }

// Failed says that npm's build of a page failed.
type Failed struct{ Err error }

// Error is the cause, which names the log.
func (e *Failed) Error() string { return "build the web page: " + e.Err.Error() }

// ExitCode is exit.Build.
func (e *Failed) ExitCode() int { return exit.Build }

// Unwrap returns Err.
func (e *Failed) Unwrap() error { return e.Err }

// sources is the folder that the page is built in.
func (in Input) sources() (*source.Tree, error) {
	sub, err := in.Tree.Sub(in.Place.Sources)
	if err != nil {
		return nil, fmt.Errorf("the sources of the web page: %w", err)
	}
	return sub, nil
}

// Sources is the git tree id of the folder that the page is built in.
func (in Input) Sources() (string, error) {
	sub, err := in.sources()
	if err != nil {
		return "", err
	}
	return sub.ID(), nil
}

// Env is what npm's build is told beside the files: the number that the page shows, and a
// version, which differs where the sources do. The page looks for a newer one by it.
func Env(build int, sources string) []string {
	return []string{
		fmt.Sprintf("LLAMA_BUILD_NUMBER=b%d", build),
		fmt.Sprintf("LLAMA_UI_VERSION=b%d-%s", build, sources[:9]),
	}
}

// Sum is the SHA-256 of a page: that of the text which sha256sum prints of its files, sorted
// by their names in the C locale, below the page's folder.
func Sum(t *source.Tree) (string, error) {
	h := sha256.New()
	for _, e := range t.Files() {
		f, err := t.Read(e.Path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%x  %s\n", sha256.Sum256(f.Data), e.Path)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Read takes a page out of a folder.
func Read(ctx context.Context, dir, sources string) (Page, error) {
	t, err := source.Folder(ctx, dir)
	if err != nil {
		return Page{}, err
	}
	if _, there := t.Stat("index.html"); !there {
		return Page{}, fmt.Errorf("%s is no web page: it has no index.html", dir)
	}
	sum, err := Sum(t)
	return Page{Sources: sources, SHA256: sum, Files: len(t.Files()), Tree: t}, err
}

// Cache is where pages lie that were built or taken: by hash, and by what they were built of.
type Cache struct {
	Dir string // llpatch's cache
	Log *slog.Logger
}

func (c Cache) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir, "pages"}, parts...)...)
}

// Find returns the page with a hash, if the cache has it whole.
func (c Cache) Find(ctx context.Context, sources, sum string) (Page, bool) {
	p, err := Read(ctx, c.path(sum), sources)
	return p, err == nil && p.SHA256 == sum
}

// Keep puts a page into the cache. What is there under its hash and is not it goes.
func (c Cache) Keep(ctx context.Context, p Page) error {
	dir := c.path(p.SHA256)
	if _, there := c.Find(ctx, p.Sources, p.SHA256); there {
		return nil
	}
	tmp, err := c.temp()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left of it is in nobody's way
	if _, err := p.Tree.Checkout(ctx, filepath.Join(tmp, "dist"), nil); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "dist"), dir)
}

func (c Cache) temp() (string, error) {
	if err := os.MkdirAll(c.path(), 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(c.path(), "work-")
}

// built is the record of what a page was built of.
type built struct {
	SHA256 string `json:"sha256"`
}

// key names what a page is built of, in the cache.
func (in Input) key(sources string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s\n%v\n%v\n%v\n", sources, in.Place, in.Tools,
		Env(in.Build, sources))))
}

// Built returns the page that was built of the same things before, if the cache has it.
func (c Cache) Built(ctx context.Context, in Input) (Page, bool) {
	sources, err := in.Sources()
	var r built
	if err != nil || !records.Read(c.path(in.key(sources)+".json"), &r) {
		return Page{}, false
	}
	p, there := c.Find(ctx, sources, r.SHA256)
	p.Tools = &in.Tools
	return p, there
}

// Build builds a page and puts it into the cache; one that was built of the same things is
// taken from there. Node and npm come from the registry that npm on this machine is set up
// for, by their hashes, and npm installs what the sources' own lock names. The error is an
// *Unavailable where there is no way to it, and a *Failed where npm's build fails.
func (c Cache) Build(ctx context.Context, in Input, o source.Options) (Page, error) {
	if p, there := c.Built(ctx, in); there {
		return p, nil
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return Page{}, &Unavailable{fmt.Errorf("%s %s is for Linux on x86-64", in.Tools.Node.Name, in.Tools.Node.Version)}
	}
	sub, err := in.sources()
	if err != nil {
		return Page{}, err
	}
	key := in.key(sub.ID())
	if err := os.MkdirAll(c.path(), 0o755); err != nil {
		return Page{}, err
	}
	l, err := records.Lock(ctx, c.Log, c.path(key+".lock"), "the web page")
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = l.Close() }()
	if p, there := c.Built(ctx, in); there { // another llpatch was quicker
		return p, nil
	}
	registry, err := source.NPM(ctx, o)
	if err != nil {
		return Page{}, unavailable(ctx, err)
	}
	tools, err := c.tools(ctx, in.Tools, registry)
	if err != nil {
		return Page{}, unavailable(ctx, err)
	}
	work, err := c.temp()
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = os.RemoveAll(work) }() // what is left of it is in nobody's way
	start := time.Now()
	c.Log.Info("building the web page", "sources", sub.ID(), "node", in.Tools.Node.Version)
	p, err := c.build(ctx, in, sub, registry, tools, work, c.path(key+".log"))
	if err != nil {
		return Page{}, err
	}
	p.Tools = &in.Tools
	if err := errors.Join(c.Keep(ctx, p), records.Write(c.path(key+".json"), built{p.SHA256})); err != nil {
		return Page{}, err
	}
	c.Log.Info("built the web page", "files", p.Files, "sha256", p.SHA256, "seconds", int(time.Since(start).Seconds()))
	return p, nil
}

// unavailable is a failure to fetch something; one of the disk stays what it is.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &Unavailable{err}
}

// tools is the folder that has node and npm, which stays in the cache.
func (c Cache) tools(ctx context.Context, t spec.PageTools, registry *source.Registry) (string, error) {
	dir := c.path("tools-" + fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%v", t)))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := c.temp()
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left of it is in nobody's way
	if err := os.Mkdir(filepath.Join(tmp, "bin"), 0o755); err != nil {
		return "", err
	}
	for _, p := range []struct {
		name, program string
		pkg           spec.NPMPackage
	}{{"node", "bin/node", t.Node}, {"npm", "bin/npm-cli.js", t.NPM}} {
		to := filepath.Join(tmp, p.name)
		if err := os.Mkdir(to, 0o755); err != nil {
			return "", err
		}
		if err := registry.Unpack(ctx, p.pkg, to); err != nil {
			return "", err
		}
		program := filepath.Join(to, filepath.FromSlash(p.program))
		if err := os.Chmod(program, 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink(filepath.Join("..", p.name, filepath.FromSlash(p.program)),
			filepath.Join(tmp, "bin", p.name)); err != nil {
			return "", err
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another llpatch was quicker
		return "", err
	}
	return dir, nil
}

// build runs npm in a folder of its own, with an environment of its own. What the sources and
// their packages bring is run by npm's build alone: install scripts stay off.
func (c Cache) build(
	ctx context.Context, in Input, sub *source.Tree, registry *source.Registry, tools, work, log string,
) (Page, error) {
	dir := filepath.Join(work, "src", filepath.FromSlash(in.Place.Sources))
	home := filepath.Join(work, "home")
	// Tailwind leaves out what a .gitignore above says, up to the top of a repository: this
	// is one, so that the cache may lie below anybody's.
	for _, needed := range []string{home, filepath.Join(work, "src", ".git")} {
		if err := os.MkdirAll(needed, 0o755); err != nil {
			return Page{}, err
		}
	}
	if _, err := sub.Checkout(ctx, dir, nil); err != nil {
		return Page{}, err
	}
	if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Page{}, err
	}
	env := append(Env(in.Build, sub.ID()), "PATH="+filepath.Join(tools, "bin")+":/usr/bin:/bin", "HOME="+home,
		"LANG=C", "LC_ALL=C", "TZ=UTC", "CI=1", "npm_config_ignore_scripts=true", "npm_config_audit=false",
		"npm_config_fund=false", "npm_config_update_notifier=false", "npm_config_progress=false")
	npm := func(env []string, args ...string) error {
		return run.Run(ctx, run.Cmd{
			Argv: append([]string{filepath.Join(tools, "bin", "npm")}, args...), Env: env, Dir: dir,
			Log: log,
		})
	}
	settings := filepath.Join(home, ".npmrc")
	if err := os.WriteFile(settings, []byte(registry.Settings()), 0o600); err != nil {
		return Page{}, err
	}
	if err := npm(slices.Concat(env, network()), "ci"); err != nil {
		return Page{}, unavailable(ctx, err)
	}
	if err := os.Remove(settings); err != nil { // it may hold credentials, and what comes now is others' code
		return Page{}, err
	}
	if err := npm(env, "run", "build"); err != nil {
		return Page{}, &Failed{err}
	}
	return Read(ctx, filepath.Join(work, "src", filepath.FromSlash(in.Place.Dist)), sub.ID())
}

// network are the variables by which this machine reaches the network.
func network() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR":
			env = append(env, kv)
		}
	}
	return env
}
