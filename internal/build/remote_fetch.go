package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// fetch puts what Ninja made in bin, and what CMake left, in the place of the plan's
// folder here, all at once. What is here already and right does not travel.
func (b *builder) fetch(ctx context.Context, c *remoteConn, targets []string, scratch string) error {
	what := "fetch from " + c.remote.Name
	if b.o.Progress != nil {
		b.o.Progress(what, 0, 0)
	}
	out, err := c.call(ctx, what, c.sys.outputs(c.at), nil)
	if err != nil {
		return err
	}
	there, ok := listing(out)
	if !ok {
		return &RemoteError{Remote: c.remote.Name, Why: "its build made a file whose name cannot be read in " + c.at +
			"/build/bin"}
	}
	get := map[string]copied{}
	next := filepath.Join(scratch, "new")
	for _, t := range targets {
		f, made := there[t]
		if path.Dir(t) != "bin" || !made {
			continue
		}
		if c.sys.os == box.os {
			f.exec = true // as MinGW's are
		}
		if err := b.keep(t, f, next); errors.Is(err, fs.ErrNotExist) {
			get[t] = f
		} else if err != nil {
			return err
		}
	}
	if len(get) > 0 {
		names := slices.Sorted(maps.Keys(get))
		sum, err := c.call(ctx, what, c.sys.give(c.at, c.run, names), nil)
		if err != nil {
			return err
		}
		archive := filepath.Join(scratch, giveName(c.run)+archiveEnd)
		if err := c.copy(ctx, what, "get", c.path(filepath.Base(archive)), archive); err != nil {
			return err
		}
		if got, err := SumFile(archive); err != nil || !strings.Contains(string(sum), got) {
			return errors.Join(err, &RemoteError{
				Remote: c.remote.Name,
				Why:    "the programs arrived damaged; run the same command again", Lost: true,
			})
		}
		if err := unpack(ctx, archive, next, get); err != nil {
			return &RemoteError{
				Remote: c.remote.Name, Why: "the programs that it packed cannot be unpacked: " + err.Error(),
				Err: err,
			}
		}
		c.tidy(ctx)
		b.o.Logger.Info("fetched", "from", c.remote.Name, "files", len(names))
	}
	return b.swap(next, scratch)
}

// keep takes a file that is here and right into the next folder, and makes a link there.
// The error wraps fs.ErrNotExist where the file must be fetched.
func (b *builder) keep(name string, f copied, next string) error {
	have, to := filepath.Join(b.plan.Dir, filepath.FromSlash(name)), filepath.Join(next, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if f.link != "" {
		if path.Base(f.link) != f.link {
			return &RemoteError{
				Remote: b.plan.Remote.Name,
				Why:    fmt.Sprintf("its build made %s a link to %q, out of its folder", name, f.link),
			}
		}
		return os.Symlink(f.link, to)
	}
	info, err := os.Lstat(have)
	if err != nil || !info.Mode().IsRegular() || (info.Mode()&0o100 != 0) != f.exec {
		return fs.ErrNotExist
	}
	if sum, err := SumFile(have); err != nil || sum != f.sum {
		return fs.ErrNotExist
	}
	if err := os.Link(have, to); err != nil { // a file system without them
		return fs.ErrNotExist
	}
	return nil
}

// swap puts the next folder in the place of the plan's. A local build that comes after
// it finds that other compilers were at work, and begins anew.
func (b *builder) swap(next, scratch string) error {
	if err := os.MkdirAll(filepath.Join(next, "bin"), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(scratch, "CMakeCache.txt"), filepath.Join(next, "CMakeCache.txt")); err != nil {
		return err
	}
	p := b.plan
	p.Dir = next
	if err := p.writeState(state{Compilers: "those of " + b.plan.Remote.Name}); err != nil {
		return err
	}
	old := b.plan.Dir + ".old"
	if err := os.Rename(b.plan.Dir, old); err != nil {
		return err
	}
	if err := os.Rename(next, b.plan.Dir); err != nil {
		return errors.Join(err, os.Rename(old, b.plan.Dir)) // or the build before this one would be lost too
	}
	return os.RemoveAll(old)
}
