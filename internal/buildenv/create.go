package buildenv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/disk"
)

// Options are what Create needs beside the declaration.
type Options struct {
	Cache string // llpatch's cache folder: roots lie in its folder env
	// folder of a Debian mirror; empty: the one that this machine's apt uses. Of archives the
	// folder with their list, of wheels one with them; empty: what the buildenv says, and pip's
	// index
	Mirror  string
	Keyring string // keys that Update trusts; empty: Debian's own
	// Update takes lists whose time is over, as those of a snapshot are; their signatures are
	// checked all the same
	Past     bool
	Log      *slog.Logger
	Progress func(what string, done, total int64) // may be nil; it is called by one goroutine at a time
	Stall    time.Duration                        // how long a mirror may send nothing; zero: a minute

	// In is the root that a library alone is built in, whose digest the declaration has; nil: on this machine.
	In *Entered

	fresh bool // the lock is the mirror's word, and is not kept yet
}

func (o *Options) defaults() {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	o.Stall = cmp.Or(o.Stall, time.Minute)
}

// Made is what Create returns.
type Made struct {
	Info
	Existed    bool    `json:"existed"`    // nothing had to be done
	Downloaded int64   `json:"downloaded"` // bytes
	Seconds    float64 `json:"seconds"`
}

// Update asks the mirror what the declaration's packages are now, and returns
// them as a lock. Nothing is installed, or downloaded but lists; wheels have none that
// pip shows, and are downloaded. The error is an *Unavailable or a *Missing where it
// can be one.
func Update(ctx context.Context, d Decl, o Options) (*Lock, error) {
	o.defaults()
	switch d.Kind() {
	case NVIDIA:
		return updateRedist(ctx, d, o)
	case Python:
		return updateWheels(ctx, d, o)
	case Rust:
		return nil, fmt.Errorf("buildenv %s is a library alone, and has no lock: its env.toml has the hash; create it "+
			"without --update-lock", d.Name)
	}
	for _, p := range []string{"apt-get", "apt-cache"} {
		if _, err := need(p, "which finds what a package depends on",
			"Debian and Ubuntu have it; elsewhere install apt, or use the lock that is there"); err != nil {
			return nil, err
		}
	}
	o.Keyring = cmp.Or(o.Keyring, debianKeyring)
	if _, err := os.Stat(o.Keyring); err != nil {
		return nil, &Missing{
			"the keys that sign Debian's packages (" + o.Keyring + ")",
			"Debian and Ubuntu have them in the package debian-archive-keyring",
		}
	}
	mirror, err := o.mirror(ctx)
	if err != nil {
		return nil, err
	}
	lock := &Lock{Kind: Debian, Suite: d.source(), Arch: d.Arch}
	if lock.Packages, err = resolve(ctx, d, d.alone(), mirror, o); err != nil {
		return nil, err
	}
	for _, suite := range slices.Sorted(maps.Keys(d.From)) {
		from := Decl{
			Name: d.Name, Suite: suite, Arch: d.Arch, Components: d.From[suite].Components, Unpack: d.From[suite].Unpack,
		}
		more, err := resolve(ctx, from, nil, mirror, o)
		if err != nil {
			return nil, err
		}
		lock.Packages = append(lock.Packages, more...)
	}
	sortPackages(lock.Packages)
	lock.Packages = slices.CompactFunc(lock.Packages, func(a, b Package) bool { return a == b })
	if _, err := ParseLock([]byte(lock.String())); err != nil {
		return nil, fmt.Errorf("what apt says of the packages of %s makes no lock: %w", d.Name, err)
	}
	d.Lock = lock
	return lock, d.CheckLock()
}

// resolve asks an apt of its own for the packages of one suite.
func resolve(ctx context.Context, d Decl, alone []string, mirror string, o Options) ([]Package, error) {
	dir, err := os.MkdirTemp("", "llpatch-apt-")
	if err != nil {
		return nil, err
	}
	o.Progress("package lists of "+d.Suite, 0, 0)
	apt, err := newPrivate(ctx, d, dir, mirror, o)
	var all []Package
	if err == nil {
		all, err = apt.resolve(ctx, d, alone)
	}
	return all, errors.Join(err, os.RemoveAll(dir))
}

func (o Options) mirror(ctx context.Context) (string, error) {
	if o.Mirror != "" {
		return o.Mirror, nil
	}
	return aptMirror(ctx)
}

// Create makes the root that the declaration and its lock describe, unless it is
// there. Two at once wait for each other; what is there of one that was
// interrupted serves the next; a root is there whole or not at all. The error is
// an *Unlocked, a *Missing, an *Unavailable, a *BadArchive or an *Unfit where it can be one.
func Create(ctx context.Context, d Decl, o Options) (Made, error) {
	o.defaults()
	start := time.Now()
	if err := d.CheckLock(); err != nil {
		return Made{}, err
	}
	s := store{dir: filepath.Join(o.Cache, "env")}
	if info, ok := s.made(d, o.fresh); ok { // whoever uses it need not be waited for
		return Made{Info: info, Existed: true}, nil
	}
	held, err := s.wait(ctx, d, false, o.Log)
	if err != nil {
		return Made{}, err
	}
	m, err := create(ctx, s, d, o)
	err = errors.Join(err, held.Close())
	m.Seconds = time.Since(start).Seconds()
	return m, err
}

func create(ctx context.Context, s store, d Decl, o Options) (m Made, err error) {
	id := d.id()
	if info, ok := s.made(d, o.fresh); ok {
		return Made{Info: info, Existed: true}, nil
	}
	c := creation{store: s, decl: d, o: o, work: s.path(id + workSuffix)}
	c.half = filepath.Join(c.work, "new")
	if _, err := s.info(id); err != nil {
		if err := s.clear(id); err != nil {
			return m, err
		}
	}
	if err := c.prepare(ctx); err != nil {
		return m, err
	}
	if err := s.mark(d, c.work); err != nil {
		return m, err
	}
	if err := os.RemoveAll(c.half); err != nil { // of a run that was killed
		return m, err
	}
	if err = s.adopt(d, filepath.Join(c.work, packagesDir)); err == nil {
		m, err = c.make(ctx)
	}
	switch {
	case err == nil:
		return m, removeMarked(c.work)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = fmt.Errorf("buildenv %s: the disk of %s is full, and what was begun there is removed again: some %d KiB "+
			"are needed: %w", d.Name, s.dir, c.room()>>10, err)
		return m, errors.Join(err, removeMarked(c.work))
	}
	return m, errors.Join(err, os.RemoveAll(c.half)) // the packages stay for the next run
}

// creation is one root on its way.
type creation struct {
	store store
	decl  Decl
	o     Options
	work  string // packages, and the root until it is whole
	half  string // in work: what becomes final
	dpkg  string
}

// prepare checks what can be known to fail before anything is fetched.
func (c *creation) prepare(ctx context.Context) (err error) {
	if c.decl.Kind() == Debian {
		if c.dpkg, err = need("dpkg-deb", "which opens Debian's packages",
			"Debian and Ubuntu have it; elsewhere it is in the package dpkg"); err != nil {
			return err
		}
		if _, err = chooseWay(ctx); err != nil {
			return err
		}
	}
	if l := c.decl.Library; l != nil && c.decl.Kind() == Rust {
		if err := c.builds(*l); err != nil {
			return err
		}
	}
	free, known := disk.Free(filepath.Dir(c.work))
	if need := c.room(); known && free < need {
		return fmt.Errorf("buildenv %s: %s has %d KiB free, and some %d KiB are needed while it is made: %w", c.decl.Name,
			filepath.Dir(c.work), free>>10, need>>10, syscall.ENOSPC)
	}
	return nil
}

// room is about what the creation takes at its peak, bytes: the packages, and
// what they hold. What is left out of them is not known before they are there,
// so of packages unpacked alone only the size of the files counts.
func (c *creation) room() int64 {
	n := 2 * c.decl.size()
	if c.decl.Library != nil {
		n += libraryRoom << 20
	}
	return n
}

func (c *creation) make(ctx context.Context) (Made, error) {
	d := c.decl
	var m Made
	packages := d.order()
	var err error
	if m.Downloaded, err = c.fetch(ctx, packages); err != nil {
		return m, err
	}
	c.o.Progress("download "+d.Name, d.size(), d.size())
	log, err := c.log()
	if err != nil {
		return m, err
	}
	bytes, err := c.unpack(ctx, packages, log)
	if err != nil {
		return m, errors.Join(err, log.Close())
	}
	m.Info = Info{
		Form: infoForm, Name: d.Name, Digest: d.Digest(), Suite: d.source(), Arch: d.Arch, Bytes: bytes,
		Packages: len(packages),
		Root:     filepath.Join(c.store.path(d.id()), rootDir), Time: time.Now().UTC().Truncate(time.Second),
	}
	if d.Kind() == Debian {
		m.Programs, err = c.programs(ctx, log)
	}
	if err == nil {
		var more int64
		more, err = c.library(ctx)
		m.Bytes += more
	}
	if err := errors.Join(err, log.Close(), context.Cause(ctx)); err != nil {
		return m, err
	}
	if err := errors.Join(os.WriteFile(filepath.Join(c.half, lockFile), []byte(d.Lock.String()), 0o644),
		writeInfo(c.half, m.Info)); err != nil {
		return m, err
	}
	if err := c.store.clear(d.id()); err != nil { // one of another lock with the same packages
		return m, err
	}
	return m, os.Rename(c.half, c.store.path(d.id()))
}

// log opens the record of the creation, which stays beside the root.
func (c *creation) log() (*os.File, error) {
	if err := os.MkdirAll(filepath.Join(c.half, rootDir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(c.half, mountDir), 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(c.half, logFile))
}

// file is where a package lies once it is whole and right. The same package from another
// place is another file: that it was had from one proves nothing of the other.
func (c *creation) file(p Package) string {
	from := sha256.Sum256([]byte(p.File))
	return filepath.Join(c.work, packagesDir, p.SHA256+"-"+hex.EncodeToString(from[:4])+path.Ext(p.File))
}

// fetch brings the packages, and returns the bytes that came.
func (c *creation) fetch(ctx context.Context, packages []Package) (int64, error) {
	d := c.decl
	if d.Kind() == Python {
		return c.wheels(ctx, packages)
	}
	mirror, acquire := d.from(c.o), map[string]string(nil)
	if d.Kind() == Debian {
		var err error
		if mirror, err = c.o.mirror(ctx); err != nil {
			return 0, err
		}
		if acquire, err = aptAcquire(ctx); err != nil {
			return 0, err
		}
	}
	c.o.Log.Info("making a build root", "buildenv", d.Name, "digest", d.Digest(), "packages", len(packages), "MB",
		d.size()/1e6, "mirror", mirror)
	down := &downloader{
		env: d.Name, kind: d.Kind(), fresh: c.o.fresh, mirror: mirror, file: c.file, client: newClient(acquire),
		stall:    c.o.Stall,
		progress: func(done int64) { c.o.Progress("download "+d.Name, done, d.size()) },
	}
	return down.all(ctx, packages)
}

// unpack fills the root and returns the bytes of its files.
func (c *creation) unpack(ctx context.Context, packages []Package, log *os.File) (int64, error) {
	root, err := os.OpenRoot(filepath.Join(c.half, rootDir))
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // only a handle of the folder
	u := unpacker{decl: c.decl, root: root, dpkg: c.dpkg, gathering: gathering{gather: c.decl.Gather}}
	if c.decl.Kind() != Debian {
		a := &archives{decl: c.decl, root: root, left: c.decl.RoomMiB << 20}
		n, err := c.each(ctx, packages, log, a.unpack, &a.bytes)
		if err != nil {
			return 0, err
		}
		return n, errors.Join(a.version(), u.links(), a.check())
	}
	if err := u.layout(); err != nil {
		return 0, err
	}
	n, err := c.each(ctx, packages, log, u.unpack, &u.bytes)
	if err == nil {
		err = u.fits()
	}
	if err != nil {
		return 0, err
	}
	return n, u.links()
}

// each unpacks the packages in order, and notes in the log what bytes says of each.
func (c *creation) each(ctx context.Context, packages []Package, log io.Writer,
	unpack func(context.Context, Package, string) error, bytes *int64,
) (int64, error) {
	for i, p := range packages {
		c.o.Progress("unpack "+c.decl.Name, int64(i), int64(len(packages)))
		before := *bytes
		if err := unpack(ctx, p, c.file(p)); err != nil {
			return 0, err
		}
		if _, err := fmt.Fprintf(log, "%s %s %s: %d bytes of files\n", p.key(), p.Version, p.SHA256,
			*bytes-before); err != nil {
			return 0, err
		}
	}
	c.o.Progress("unpack "+c.decl.Name, int64(len(packages)), int64(len(packages)))
	return *bytes, nil
}

// programs runs what the declaration promises, in the new root.
func (c *creation) programs(ctx context.Context, log *os.File) (_ map[string]Found, err error) {
	e, err := newEntered(ctx, Info{Name: c.decl.Name, Root: filepath.Join(c.half, rootDir)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	found := map[string]Found{}
	for _, role := range slices.Sorted(maps.Keys(c.decl.Programs)) {
		p := c.decl.Programs[role]
		f, err := e.version(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("buildenv %s: %s: %w", c.decl.Name, role, err)
		}
		if _, err := fmt.Fprintf(log, "%s %s: %s\n", role, f.Path, f.Banner); err != nil {
			return nil, err
		}
		found[role] = f
	}
	return found, nil
}
