package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// gitDir is where a repository keeps its data. A linked work tree has a folder
// of its own and shares objects and refs with the main one.
type gitDir struct {
	dir    string
	common string // "" where dir holds everything
}

// findGitDir finds the data of the repository at path: a work tree, a linked
// work tree, or a bare repository. go-git's PlainOpen is not used, because it
// refuses every partial clone for its extension, which reading does not need.
func findGitDir(path string) (gitDir, error) {
	g := gitDir{dir: filepath.Join(path, ".git")}
	fi, err := os.Lstat(g.dir)
	switch {
	case err == nil && fi.Mode().IsRegular():
		b, err := os.ReadFile(g.dir)
		if err != nil {
			return gitDir{}, err
		}
		to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
		if !ok {
			return gitDir{}, fmt.Errorf("%s: not a gitdir file", g.dir)
		}
		g.dir = resolve(path, to)
	case errors.Is(err, os.ErrNotExist):
		g.dir = path
	case err != nil:
		return gitDir{}, err
	}
	if b, err := os.ReadFile(filepath.Join(g.dir, "commondir")); err == nil {
		g.common = resolve(g.dir, strings.TrimSpace(string(b)))
	}
	for _, need := range []string{filepath.Join(g.dir, "HEAD"), g.objects()} {
		if _, err := os.Stat(need); err != nil {
			// Not wrapped: the folder itself is there.
			return gitDir{}, fmt.Errorf("%s is not a git repository: %v", path, err) //nolint:errorlint // as said
		}
	}
	return g, g.check()
}

// resolve returns path, taken from base where it is relative.
func resolve(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// shared is the folder that holds objects, refs and config.
func (g gitDir) shared() string {
	if g.common != "" {
		return g.common
	}
	return g.dir
}

func (g gitDir) objects() string { return filepath.Join(g.shared(), "objects") }

func (g gitDir) fs() billy.Filesystem {
	if g.common == "" {
		return osfs.New(g.dir)
	}
	return dotgit.NewRepositoryFilesystem(osfs.New(g.dir), osfs.New(g.common))
}

// check refuses the two formats that go-git cannot read.
func (g gitDir) check() error {
	path := filepath.Join(g.shared(), "config")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c := config.NewConfig()
	if err := c.Unmarshal(b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ext := c.Raw.Section("extensions")
	if f := ext.Option("objectformat"); f != "" && f != "sha1" {
		return fmt.Errorf("%s: the repository's ids are %s, not sha1", path, f)
	}
	if f := ext.Option("refstorage"); f != "" && f != "files" {
		return fmt.Errorf("%s: the repository keeps its refs as %s, which cannot be read; git refs migrate "+
			"--ref-format=files changes that", path, f)
	}
	return nil
}

// storages opens the repository's object database, and before it those that it
// borrows from. Before, because go-git searches alternates itself for what it
// misses, and parses their index again for each object.
func (g gitDir) storages() ([]*filesystem.Storage, error) {
	lent, err := alternates(g.objects(), 0)
	if err != nil {
		return nil, err
	}
	var out []*filesystem.Storage
	for _, dir := range lent {
		out = append(out, newStorage(gitDir{dir: dir}))
	}
	return append(out, newStorage(g)), nil
}

// maxAlternates is git's own limit on how deep alternates may nest.
const maxAlternates = 5

// alternates returns the folders above the object databases that the one given
// borrows from, the deepest first.
func alternates(objects string, depth int) ([]string, error) {
	path := filepath.Join(objects, "info", "alternates")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if depth == maxAlternates {
		return nil, fmt.Errorf("%s: alternates are nested more than %d deep", path, maxAlternates)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		dir := resolve(objects, line)
		if filepath.Base(dir) != "objects" {
			return nil, fmt.Errorf("%s: %s is not a folder named objects; give that repository itself as the source", path, line)
		}
		deeper, err := alternates(dir, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(append(out, deeper...), filepath.Dir(dir))
	}
	return out, nil
}
