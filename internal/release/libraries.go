package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/env"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// openLibraries takes the root with the libraries that a full bundle carries: the one
// that the recipe names, or that the buildenv of a build names, whose own root has only
// what is linked with.
func (c *Chain) openLibraries(ctx context.Context) error {
	from := c.Recipe.Bundle.Libraries
	if c.Recipe.Bundle.Runtime != spec.Full || c.libs != nil || c.drop != "" || c.Env == nil && from == "" {
		return nil
	}
	decl := c.EnvRuntime
	if from != "" {
		d, err := c.Repo.Env(from)
		if err == nil {
			d, _, err = d.WithOwnLock(c.Cache)
		}
		if err != nil {
			return err
		}
		decl = &d
	}
	if decl == nil {
		return &BadOption{"--bundle full", fmt.Errorf("buildenv %s has no libraries to carry: no runtime is in its %s", c.Env.Name, spec.EnvFile)}
	}
	var err error
	c.libs, err = env.Open(ctx, c.Cache, *decl, c.Log)
	return err
}

// librariesDigest names that root, where there is one.
func (c *Chain) librariesDigest() string {
	if c.libs == nil {
		return ""
	}
	return c.libs.Digest
}

// libraryDirs are the folders that a full bundle's libraries are taken from: those
// that the build in dir linked with, the same ones of the other root, or every one of the
// root that the recipe names.
func (c *Chain) libraryDirs(dir string) ([]string, error) {
	if c.libs != nil && c.Recipe.Bundle.Libraries != "" {
		return foldersBelow(c.libs.Root)
	}
	dirs, err := build.LibraryDirs(dir)
	if c.libs != nil {
		for i := range dirs {
			dirs[i] = filepath.Join(c.libs.Root, dirs[i])
		}
	}
	return dirs, err
}

// foldersBelow lists the folders of a root that hold files, in lexical order.
func foldersBelow(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if dir := filepath.Dir(p); err == nil && !d.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return dirs, err
}

// NoRoom says that the disk has less room than a release takes.
type NoRoom struct {
	Target, Dir      string
	FreeMiB, NeedMiB int64 // NeedMiB beside what is there already
}

// Error gives both figures.
func (e *NoRoom) Error() string {
	return fmt.Sprintf("%s: %d MiB are free for %s, and the release takes %d MiB more", e.Target, e.FreeMiB, e.Dir, e.NeedMiB)
}

// ExitCode is exit.Build.
func (e *NoRoom) ExitCode() int { return exit.Build }

// Hint says what to do.
func (e *NoRoom) Hint() string { return "--out DIR takes another disk" }

// checkRoom compares the room that the recipe asks for with what is free, where what
// an earlier run has written counts as there. Of other archs than the recipe's, and of
// the backend alone, nothing is known.
func (c *Chain) checkRoom() error {
	if c.Archs != "" || c.drop != "" {
		return nil
	}
	dir, err := c.absolute()
	if err != nil {
		return err
	}
	at := dir
	for at != filepath.Dir(at) && !isDir(at) {
		at = filepath.Dir(at)
	}
	free, known := build.FreeDisk(at)
	if need := c.Recipe.DiskMiB; !known || free>>20 >= need {
		return nil
	}
	var there int64
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			there += info.Size()
		}
		return nil
	})
	if need := c.Recipe.DiskMiB - there>>20; err == nil && free>>20 < need {
		return &NoRoom{Target: c.Recipe.Name, Dir: dir, FreeMiB: free >> 20, NeedMiB: need}
	}
	return err
}
