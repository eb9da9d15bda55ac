package buildenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/run"
)

// Library is a library that a root gets from its sources, to be linked into what is built
// there; or that is a buildenv of its own, for a toolchain that has no root. The sources come
// from a crate, which the user's own cargo fetches.
type Library struct {
	// buildenv whose library this is, built by the same steps in this root; all else is empty then, and what
	// spec.Load returns has that library in the place of this one
	Of string `toml:"of" json:"of,omitempty"`
	// with the version of the sources, as the library itself says it: OpenSSL 3.5.5
	Name    string `toml:"name" json:"name"`
	Header  string `toml:"header" json:"header,omitempty"` // what a recipe's optional feature looks for: openssl/ssl.h
	Crate   string `toml:"crate" json:"crate"`             // such as openssl-src
	Version string `toml:"version" json:"version"`         // of the crate, such as 300.5.5+3.5.5
	SHA256  string `toml:"sha256" json:"sha256"`           // of the .crate file
	Dir     string `toml:"dir" json:"dir"`                 // the folder of the crate with the sources
	License string `toml:"license" json:"license"`         // its terms, a file in Dir
	// commands that build it and install it below LibraryOut, one after the other; no shell reads
	// them
	Steps [][]string `toml:"steps" json:"steps"`
}

// Folders of a library while it is built, inside.
const (
	LibrarySource = "/llpatch/src"   // Library.Dir
	LibraryOut    = "/llpatch/build" // what is installed here goes into the root
)

// libraryRoom bounds what a crate's sources take, and is room enough to build them, MiB.
const libraryRoom = 600

// file is the name of the crate's file, as cargo keeps it.
func (l Library) file() string { return l.Crate + "-" + l.Version + ".crate" }

// Terms is where the library's terms lie in a root.
func (l Library) Terms() string { return path.Join("usr/share/doc", l.Crate, "copyright") }

// library builds the declaration's library in the new root, where it has one, and returns
// the bytes that it added.
func (c *creation) library(ctx context.Context) (n int64, err error) {
	l := c.decl.Library
	if l == nil {
		return 0, nil
	}
	crate, err := c.crate(ctx, *l)
	if err != nil {
		return 0, err
	}
	work := filepath.Join(c.work, "library") // of a run that was killed there may be one
	out := filepath.Join(work, "out")
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(out, 0o755)); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := c.sources(ctx, *l, crate, work); err != nil {
		return 0, err
	}
	source := filepath.Join(work, l.Crate+"-"+l.Version, filepath.FromSlash(l.Dir))
	e := c.o.In
	if c.decl.Kind() == Debian {
		if e, err = newEntered(ctx, Info{Name: c.decl.Name, Root: filepath.Join(c.half, rootDir)}); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
	}
	for i, argv := range l.Steps {
		c.o.Progress("build "+l.Name+" for "+c.decl.Name, int64(i), int64(len(l.Steps)))
		step := run.Cmd{
			Argv: argv, Dir: LibrarySource, Log: filepath.Join(c.half, logFile), Timeout: 4 * time.Hour,
			// The time goes into what a library says of itself.
			Env: []string{
				"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/tmp", "SOURCE_DATE_EPOCH=1",
				fmt.Sprintf("MAKEFLAGS=-j%d", runtime.GOMAXPROCS(0)),
			},
		}
		if e == nil {
			step.Dir, step.Argv = source, slices.Clone(argv)
			for j := range argv {
				step.Argv[j] = strings.NewReplacer(LibrarySource, source, LibraryOut, out).Replace(argv[j])
			}
		} else {
			step, err = e.Wrap(step, Folder{source, LibrarySource}, Folder{out, LibraryOut})
		}
		if err == nil {
			err = run.Run(ctx, step)
		}
		if err != nil {
			return 0, fmt.Errorf("buildenv %s: build %s: %w", c.decl.Name, l.Name, err)
		}
	}
	terms := filepath.Join(out, l.Terms())
	if err := os.MkdirAll(filepath.Dir(terms), 0o755); err != nil {
		return 0, err
	}
	if err := os.Rename(filepath.Join(source, filepath.FromSlash(l.License)), terms); err != nil {
		return 0, fmt.Errorf("buildenv %s: the terms of %s: %w", c.decl.Name, l.Name, err)
	}
	root := filepath.Join(c.half, rootDir)
	if err := os.CopyFS(root, os.DirFS(out)); err != nil { // it writes over nothing
		return 0, fmt.Errorf("buildenv %s: %s: %w", c.decl.Name, l.Name, err)
	}
	return n, fs.WalkDir(os.DirFS(out), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			n += st.Size()
		}
		return err
	})
}

// builds reports, as a *Missing, which program of the steps is not where they run.
func (c *creation) builds(l Library) error {
	root, where := "", "this machine"
	if c.o.In != nil {
		root, where = c.o.In.Root, "buildenv "+c.o.In.Name
	}
	for _, argv := range l.Steps {
		if _, err := os.Stat(filepath.Join(root, argv[0])); err != nil {
			return &Missing{
				fmt.Sprintf("%s in %s, which builds %s", argv[0], where, l.Name),
				"install the package that brings it",
			}
		}
	}
	return nil
}

// sources unpacks the crate below work.
func (c *creation) sources(ctx context.Context, l Library, crate, work string) error {
	to, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // only a handle of the folder
	a := &archives{decl: Decl{Name: c.decl.Name, RoomMiB: libraryRoom}, root: to, left: libraryRoom << 20}
	return a.unpack(ctx, Package{Name: l.Crate, Version: l.Version, File: l.file()}, crate)
}

// crate fetches the library's crate, unless an earlier run did, and returns its file. Where
// --mirror names a folder that has it, it is taken from there.
func (c *creation) crate(ctx context.Context, l Library) (string, error) {
	file := filepath.Join(c.work, l.SHA256+".crate")
	if sum, err := regular.Sum(ctx, file); err == nil && sum == l.SHA256 {
		return file, nil
	}
	folder, local := "", false // a URL, unless it is of a folder here
	if u, err := url.Parse(c.o.Mirror); err == nil && u.Scheme == "file" {
		folder, local = filepath.FromSlash(u.Path), true
	}
	from := filepath.Join(folder, l.file())
	unavailable := &Unavailable{
		Name: c.decl.Name, Kind: Rust, Package: l.Crate, Version: l.Version, URL: from,
		Want: l.SHA256,
	}
	if _, err := os.Lstat(from); !local || err != nil {
		unavailable.URL = "cargo's registry"
		if from, err = c.cargo(ctx, l); err != nil {
			if errors.As(err, new(*Missing)) || ctx.Err() != nil {
				return "", err
			}
			unavailable.Err = err
			return "", unavailable
		}
	}
	var err error
	if unavailable.Got, err = regular.Sum(ctx, from); err != nil {
		return "", err
	}
	if unavailable.Got != l.SHA256 {
		return "", unavailable
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, data, 0o644)
}

// cargo asks the user's own cargo for a crate, with its settings, and returns where it lies in
// cargo's cache. Which registry that is, is none of llpatch's.
func (c *creation) cargo(ctx context.Context, l Library) (string, error) {
	program, err := run.LookPath("cargo", os.Getenv("PATH"))
	if err != nil {
		return "", &Missing{
			"cargo, which fetches the sources of " + l.Name,
			"Debian and Ubuntu have it in the package cargo; or --mirror names a folder that has " + l.file(),
		}
	}
	dir := filepath.Join(c.work, "cargo")
	plain, _, _ := strings.Cut(l.Version, "+") // what follows says nothing of the order
	manifest := fmt.Sprintf("[package]\nname = \"sources\"\nversion = \"0.0.0\"\n[dependencies]\n%s = "+
		"\"=%s\"\n[workspace]\n", l.Crate, plain)
	err = errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "src"), 0o755))
	for name, text := range map[string]string{"Cargo.toml": manifest, "src/lib.rs": ""} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		return "", err
	}
	out, err := run.Output(ctx, run.Cmd{
		Argv: []string{program, "metadata", "--format-version", "1", "--quiet"}, Dir: dir,
		Env: os.Environ(), Timeout: 10 * time.Minute,
	})
	if err != nil {
		return "", err
	}
	var all struct {
		Packages []struct {
			Name, Version string
			Manifest      string `json:"manifest_path"`
		}
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return "", fmt.Errorf("cargo metadata: %w", err)
	}
	for _, p := range all.Packages {
		if p.Name != l.Crate {
			continue
		}
		if p.Version != l.Version {
			return "", fmt.Errorf("cargo has %s %s", p.Name, p.Version)
		}
		// REGISTRY/src/INDEX/CRATE-VERSION/Cargo.toml was unpacked from REGISTRY/cache/INDEX/CRATE-VERSION.crate.
		index := filepath.Dir(filepath.Dir(p.Manifest))
		return filepath.Join(filepath.Dir(filepath.Dir(index)), "cache", filepath.Base(index), l.file()),
			errors.Join(os.RemoveAll(dir))
	}
	return "", fmt.Errorf("cargo names no %s among what it has fetched", l.Crate)
}
