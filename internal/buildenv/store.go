package buildenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/lock"
	"github.com/llpatch/llpatch/internal/regular"
)

// Info is what is known of a root that was made. It lies beside the root as
// llpatch-env.json, and marks the folder as llpatch's.
type Info struct {
	Form     int              `json:"form"`
	Name     string           `json:"name"`
	Digest   string           `json:"digest"`
	Suite    string           `json:"suite"`
	Arch     string           `json:"arch"`
	Packages int              `json:"packages"`
	Bytes    int64            `json:"bytes"`              // of its files
	Programs map[string]Found `json:"programs,omitempty"` // by role
	Root     string           `json:"root"`               // where it lies now
	Time     time.Time        `json:"time"`               // when it was made
}

// Found is a program of a root, as it was found there.
type Found struct {
	Path    string `json:"path"`    // in the root
	Version string `json:"version"` // such as 11.8.89
	Banner  string `json:"banner"`  // the line of --version that says so
}

const (
	infoForm    = 1
	infoFile    = "llpatch-env.json"
	rootDir     = "root"
	mountDir    = "mnt" // where the root is put together in a mount namespace; always empty outside
	logFile     = "create.log"
	lockFile    = "packages.lock" // what a root was made of
	packagesDir = "packages"      // in a root that is being made
	workSuffix  = ".work"
	goneSuffix  = ".removing"
)

// store is the folder env of the cache:
//
//	<name>-<digest>/          a root, its marker, its lock and its log
//	<name>-<digest>.work/     one that is being made
//	<name>-<digest>.removing/ one that is being removed
//	locks/<name>-<digest>     held by whoever makes or removes it, shared by whoever uses it
type store struct{ dir string }

func (s store) path(name string) string { return filepath.Join(s.dir, name) }

func (d Decl) id() string { return d.Name + "-" + d.Digest() }

var idRE = regexp.MustCompile(`^(.+)-([0-9a-f]{12})$`)

// SplitID parts the name of a root into its buildenv and the digest of its
// lock; ok is whether it is such a name.
func SplitID(id string) (name, digest string, ok bool) {
	m := idRE.FindStringSubmatch(id)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// info reads the marker of a whole root in the store.
func (s store) info(id string) (Info, error) {
	info, err := readInfo(s.path(id), id)
	if err != nil {
		return info, err
	}
	st, err := os.Lstat(info.Root)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a folder", info.Root)
	}
	return info, err
}

// made returns the root that d and its lock describe, if it is there. Its name says which
// packages it is made of, and not where they come from: that it was made of the very lock
// is asked where that is not known to be right.
func (s store) made(d Decl, very bool) (info Info, ok bool) {
	info, err := s.info(d.id())
	if err != nil || !very {
		return info, err == nil
	}
	lock, err := regular.ReadFile(filepath.Join(s.path(d.id()), lockFile))
	return info, err == nil && string(lock) == d.Lock.String()
}

func readInfo(dir, id string) (Info, error) {
	var info Info
	st, err := os.Lstat(dir)
	if err != nil {
		return info, err
	}
	if !st.IsDir() {
		return info, fmt.Errorf("%s is not a folder", dir)
	}
	data, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("%s: %w", filepath.Join(dir, infoFile), err)
	}
	if info.Form != infoForm || info.Name+"-"+info.Digest != id {
		return info, fmt.Errorf("%s is of %s-%s, form %d", filepath.Join(dir, infoFile), info.Name, info.Digest, info.Form)
	}
	info.Root = filepath.Join(dir, rootDir)
	return info, nil
}

func writeInfo(dir string, info Info) error {
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, infoFile), append(data, '\n'), 0o644)
}

// lock takes a root, alone for making or removing it, or with others for using
// it. It lasts until the file is closed.
func (s store) lock(id string, shared bool) (f *os.File, ok bool, err error) {
	if runtime.GOOS != "linux" {
		return nil, false, errors.New("build roots are root file systems of Linux, and this is another system")
	}
	return lock.Try(s.path(filepath.Join("locks", id)), shared)
}

// wait is lock for a caller that has the time, and says so when it has to wait.
func (s store) wait(ctx context.Context, d Decl, shared bool, log *slog.Logger) (*os.File, error) {
	if f, ok, err := s.lock(d.id(), shared); ok || err != nil {
		return f, err
	}
	log.Warn("another llpatch makes, removes or uses this build root; waiting for it", "buildenv", d.Name, "digest",
		d.Digest())
	return lock.Wait(ctx, s.path(filepath.Join("locks", d.id())), shared, nil)
}

// InUse says that a root is being made or used.
type InUse struct{ ID string }

// Error names the root.
func (e *InUse) Error() string {
	return fmt.Sprintf("build root %s is in use: a build or another llpatch env is at work in it; wait for its end", e.ID)
}

// ExitCode is exit.Build.
func (e *InUse) ExitCode() int { return exit.Build }

// NotMade says that there is no root of that name.
type NotMade struct{ Name string }

// Error names the buildenv and the command that makes it.
func (e *NotMade) Error() string {
	return fmt.Sprintf("buildenv %s has no root in the cache; llpatch env create %s makes it", e.Name, e.Name)
}

// ExitCode is exit.Build.
func (e *NotMade) ExitCode() int { return exit.Build }

// Remove deletes the roots of a buildenv, or the one that a name with a digest
// means, with what an interrupted creation left, and returns their names. It
// deletes only folders that carry llpatch's marker, and none in which something
// is mounted; what must stay is in the error, and the others go all the same. The error
// holds an *InUse or a *NotMade where it can.
func Remove(cache, name string) ([]string, error) {
	s, entries, err := folder(cache)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimSuffix(e.Name(), workSuffix), goneSuffix)
		if n, _, ok := SplitID(id); ok && (n == name || id == name) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, &NotMade{name}
	}
	var removed []string
	var errs []error
	for _, id := range ids {
		if err := s.remove(id); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, id)
	}
	return removed, errors.Join(errs...)
}

func (s store) remove(id string) (err error) {
	held, ok, err := s.lock(id, false)
	if err != nil {
		return err
	}
	if !ok {
		return &InUse{id}
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	var errs []error
	for _, suffix := range []string{"", workSuffix, goneSuffix} {
		dir := s.path(id + suffix)
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, s.discard(id, dir))
	}
	return errors.Join(errs...)
}

// discard deletes a folder of a root whose lock is held.
func (s store) discard(id, dir string) error {
	if dir != s.path(id) && begun(dir) {
		return os.RemoveAll(dir)
	}
	if _, err := readInfo(dir, id); err != nil {
		return fmt.Errorf("%s was not made by llpatch, so it is left alone: %w", dir, err)
	}
	if at, err := mountedBelow(dir); err != nil {
		return err
	} else if at != "" {
		return fmt.Errorf("%s is mounted in %s: unmount it first, or its files would be deleted as well", at, dir)
	}
	gone := s.path(id + goneSuffix)
	if dir != gone {
		if _, err := os.Lstat(gone); err == nil { // of a removal that was killed
			if err := s.discard(id, gone); err != nil {
				return err
			}
		}
		// From here on nobody takes it for a whole root.
		if err := os.Rename(dir, gone); err != nil {
			return err
		}
	}
	return removeMarked(gone)
}

// begun reports whether dir is a folder with nothing in it but what is left of
// writing its marker, as on a full disk: nobody's work is lost with it.
func begun(dir string) bool {
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), atomicfile.Prefix(infoFile))
	})
}

// mark makes the folder of a root on its way, with its marker as the first thing
// in it, so that whatever is left there can be told to be llpatch's.
func (s store) mark(d Decl, dir string) error {
	_, err := readInfo(dir, d.id())
	if err == nil {
		return nil // of a run that was interrupted
	}
	if _, serr := os.Lstat(dir); serr == nil {
		if !begun(dir) {
			return fmt.Errorf("%s was not made by llpatch, so it is left alone: %w; move it elsewhere", dir, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := writeInfo(dir, Info{Form: infoForm, Name: d.Name, Digest: d.Digest()}); err != nil {
		return errors.Join(fmt.Errorf("buildenv %s: %w", d.Name, err), os.RemoveAll(dir))
	}
	return nil
}

// clear removes what is left of a root that is no longer whole.
func (s store) clear(id string) error {
	dir := s.path(id)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.discard(id, dir)
}

// adopt moves what an interrupted creation of the same buildenv with another
// lock has fetched to dir, and removes the rest of that.
func (s store) adopt(d Decl, dir string) error {
	others, err := fs.Glob(os.DirFS(s.dir), d.Name+"-*"+workSuffix)
	if err != nil {
		return err
	}
	for _, other := range others {
		id := strings.TrimSuffix(other, workSuffix)
		if name, _, ok := SplitID(id); !ok || name != d.Name || id == d.id() {
			continue
		}
		held, free, err := s.lock(id, false)
		if err != nil || !free {
			return err // somebody still makes that one
		}
		err = errors.Join(moveFiles(filepath.Join(s.path(other), packagesDir), dir), s.discard(id, s.path(other)))
		if err := errors.Join(err, held.Close()); err != nil {
			return err
		}
	}
	return nil
}

func moveFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil //nolint:nilerr // it fetched nothing
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeMarked deletes a folder, its marker last: what a killed run leaves can
// still be told to be llpatch's.
func removeMarked(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == infoFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
