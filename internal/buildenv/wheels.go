package buildenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/run"
)

// pip is the user's own, with its settings: which index it asks is none of llpatch's.
type pip struct {
	argv   []string
	mirror string // folder or page with the wheels, asked in the place of the index; empty: the index
}

func findPip(o Options) (*pip, error) {
	path := os.Getenv("PATH")
	for _, argv := range [][]string{{"pip3"}, {"pip"}, {"python3", "-m", "pip"}} {
		program, err := run.LookPath(argv[0], path)
		if err == nil {
			return &pip{argv: append([]string{program}, argv[1:]...), mirror: o.Mirror}, nil
		}
	}
	return nil, &Missing{"pip, which fetches Python's wheels", "Debian and Ubuntu have it in the package python3-pip"}
}

// download fetches one wheel into dir and returns its file. With a sum pip itself
// refuses another one.
func (p *pip) download(ctx context.Context, d Decl, requirement, sum, dir string) (string, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	line := requirement
	argv := slices.Concat(p.argv, []string{
		"download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps",
		"--only-binary", ":all:", "--platform", d.Wheels.Platform, "--dest", dir,
	})
	if sum != "" {
		line += " --hash=sha256:" + sum
		argv = append(argv, "--require-hashes")
	}
	if p.mirror != "" {
		argv = append(argv, "--no-index", "--find-links", p.mirror)
	}
	list := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(list, []byte(line+"\n"), 0o644); err != nil {
		return "", err
	}
	if _, err := run.Output(ctx, run.Cmd{Argv: append(argv, "--requirement", list), Env: os.Environ()}); err != nil {
		return "", err
	}
	found, err := fs.Glob(os.DirFS(dir), "*.whl")
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("pip has left %d wheels of %s", len(found), requirement)
	}
	file := filepath.Join(dir, found[0])
	st, err := os.Lstat(file)
	if err == nil && !st.Mode().IsRegular() { // a link would be kept in the place of a wheel
		err = fmt.Errorf("pip has left %s, which is no file", found[0])
	}
	return file, err
}

// updateWheels makes a lock of what pip finds. It has to fetch them for that.
func updateWheels(ctx context.Context, d Decl, o Options) (*Lock, error) {
	p, err := findPip(o)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "llpatch-pip-")
	if err != nil {
		return nil, err
	}
	lock, err := p.lock(ctx, d, tmp, o)
	return lock, errors.Join(err, os.RemoveAll(tmp))
}

func (p *pip) lock(ctx context.Context, d Decl, tmp string, o Options) (*Lock, error) {
	l := &Lock{Kind: Python, Suite: d.Wheels.Platform, Arch: d.Arch}
	for i, requirement := range d.Wheels.Packages {
		o.Progress("wheels of "+d.Name, int64(i), int64(len(d.Wheels.Packages)))
		name, version, _ := strings.Cut(requirement, "==")
		file, err := p.download(ctx, d, requirement, "", filepath.Join(tmp, "wheel"))
		if err != nil {
			return nil, p.unavailable(ctx, d, Package{Name: name, Version: version}, err)
		}
		sum, err := regular.Sum(ctx, file)
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		l.Packages = append(l.Packages, Package{
			Name: name, Version: version, Arch: d.Wheels.Platform, Size: st.Size(),
			SHA256: sum, File: filepath.Base(file),
		})
	}
	if err := l.sorted(); err != nil {
		return nil, p.unavailable(ctx, d, l.Packages[0], err)
	}
	d.Lock = l
	return l, d.CheckLock()
}

func (p *pip) unavailable(ctx context.Context, d Decl, pkg Package, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &Unavailable{
		Name: d.Name, Kind: Python, Package: pkg.Name, Version: pkg.Version,
		URL: cmp.Or(p.mirror, "pip's index"), Want: pkg.SHA256, Err: err,
	}
}

// wheels fetches every wheel of the lock, unless an earlier run did, and returns the bytes that came.
func (c *creation) wheels(ctx context.Context, packages []Package) (fetched int64, err error) {
	p, err := findPip(c.o)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Join(c.work, packagesDir), 0o755); err != nil {
		return 0, err
	}
	var done int64
	for _, pkg := range packages {
		c.o.Progress("download "+c.decl.Name, done, c.decl.size())
		done += pkg.Size
		if pkg.is(ctx, c.file(pkg)) {
			continue
		}
		tmp := filepath.Join(c.work, "pip")
		file, err := p.download(ctx, c.decl, pkg.Name+"=="+pkg.Version, pkg.SHA256, tmp)
		if err != nil {
			return fetched, p.unavailable(ctx, c.decl, pkg, err)
		}
		got, err := regular.Sum(ctx, file)
		if err != nil {
			return fetched, err
		}
		if got != pkg.SHA256 {
			return fetched, p.unavailable(ctx, c.decl, pkg, fmt.Errorf("pip has brought a wheel with SHA-256 %s", got))
		}
		if err := errors.Join(os.Rename(file, c.file(pkg)), os.RemoveAll(tmp)); err != nil {
			return fetched, err
		}
		fetched += pkg.Size
	}
	return fetched, nil
}
