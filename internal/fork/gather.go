package fork

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/therootcompany/xz"

	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// gather reads the patches at a path.
func gather(ctx context.Context, r *Repo, at string) ([]*foreign, error) {
	fi, err := os.Stat(at)
	switch {
	case err == nil && fi.IsDir():
		if deb := filepath.Join(at, "debian", "patches"); isFile(filepath.Join(deb, "series")) {
			at = deb
		}
		return folder(at)
	case err == nil && strings.HasSuffix(at, ".dsc"):
		return debian(at)
	case err == nil:
		data, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		return mails(at, data)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case r == nil:
		return nil, refuse("a branch needs --repo DIR", "%s: there is no such file or folder", at)
	}
	return r.commits(ctx, at)
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// folder reads a quilt series, or every patch by name.
func folder(dir string) ([]*foreign, error) {
	s, err := compat.Folder(dir)
	if err != nil {
		if bad := new(patch.ParseError); !errors.As(err, &bad) {
			err = refuse("a quilt series, a folder of patches, an mbox, a Debian source or a branch", "%v", err)
		}
		return nil, err
	}
	var all []*foreign
	for _, f := range s.Fixes {
		data, err := os.ReadFile(filepath.Join(dir, f.Variants[0].File))
		if err != nil {
			return nil, err
		}
		got, err := mails(filepath.Join(dir, f.Variants[0].File), data)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// mails takes a file apart. One that holds several patches names them by their subjects.
func mails(from string, data []byte) ([]*foreign, error) {
	base := filepath.Base(from)
	parts := patch.Split(data)
	var all []*foreign
	for _, part := range parts {
		ps, err := patch.Parse("", from, part)
		if err != nil {
			return nil, err
		}
		f := &foreign{from: from, data: part, ps: ps, id: strings.TrimSuffix(strings.TrimSuffix(base, ".patch"), ".diff")}
		if len(parts) > 1 && ps[0].Header.Subject != "" {
			f.id = ps[0].Header.Subject
		}
		all = append(all, f)
	}
	return all, nil
}

var debianTar = regexp.MustCompile(`(?m)^ [0-9a-f]{64} +[0-9]+ +(\S+\.debian\.tar\.(?:xz|gz))$`)

// debian reads the patches of a Debian source package, which lies beside its .dsc.
func debian(dsc string) ([]*foreign, error) {
	text, err := os.ReadFile(dsc)
	if err != nil {
		return nil, err
	}
	m := debianTar.FindSubmatch(text)
	if m == nil {
		return nil, refuse("one of format 3.0 (quilt) has them",
			"%s names no .debian.tar.xz or .gz, in which patches would be", dsc)
	}
	file := filepath.Join(filepath.Dir(dsc), path.Base(string(m[1])))
	packed, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var in io.Reader
	if strings.HasSuffix(file, ".gz") {
		in, err = gzip.NewReader(bytes.NewReader(packed))
	} else {
		in, err = xz.NewReader(bytes.NewReader(packed), xz.DefaultDictMax)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	dir, remove, err := tempDir("llpatch-debian-")
	if err != nil {
		return nil, err
	}
	defer remove()
	for t := tar.NewReader(io.LimitReader(in, patch.MaxSize)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name, ok := strings.CutPrefix(path.Clean(h.Name), "debian/patches/")
		if !ok || h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			continue
		}
		data, err := io.ReadAll(t)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	all, err := folder(dir)
	if err != nil {
		return nil, &inside{err, dir, file + ":debian/patches"}
	}
	for _, f := range all {
		f.from = file + ":debian/patches" + strings.TrimPrefix(f.from, dir)
	}
	return all, nil
}

// inside is an error of what was unpacked, by the names that it has where it came from.
type inside struct {
	error
	dir, at string
}

// Error names no folder that is gone.
func (e *inside) Error() string { return strings.ReplaceAll(e.error.Error(), e.dir, e.at) }

// Unwrap returns the error.
func (e *inside) Unwrap() error { return e.error }

// commits are those of a branch that no release has.
func (r *Repo) commits(ctx context.Context, branch string) ([]*foreign, error) {
	tip, err := r.commit(ctx, branch)
	if err != nil || tip == "" {
		return nil, errors.Join(err, refuse("", "%s: there is no such file, and %s has no such branch", branch, r.Dir))
	}
	list, err := r.log(ctx, tip, "--not", "--exclude=refs/tags/*-llp*", "--glob=refs/tags/b[0-9]*",
		"--exclude=refs/tags/*-llp*", "--glob=refs/tags/v[0-9]*")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, refuse("", "%s has no commit that no release has", branch)
	}
	var all []*foreign
	for _, c := range list {
		if len(c.Parents) > 1 {
			return nil, refuse("git rebase makes the branch flat", "%s is a merge: a series has one change a commit", c.short())
		}
		if len(c.Parents) == 0 {
			return nil, refuse(r.command("fetch", "--tags"), "%s has no release below it: its first commit is %s", branch,
				c.short())
		}
		diff, err := r.diff(ctx, c.Parents[0], c.ID)
		if err != nil {
			return nil, err
		}
		if len(diff) == 0 {
			r.Log.Warn("left out: it changes nothing", "commit", c.short())
			continue
		}
		head := patch.CommitHead(source.Change{
			Author: c.Author.Name, Email: c.Author.Email, When: c.Author.When,
			Message: plain(c.Message),
		})
		data := slices.Concat(head, diff)
		ps, err := patch.Parse("", c.ID[:12]+".patch", data)
		if err != nil {
			return nil, err
		}
		all = append(all, &foreign{from: "commit " + c.ID, id: c.Subject(), data: data, ps: ps})
	}
	return all, nil
}
