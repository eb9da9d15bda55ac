package smoke

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/regular"
)

// emptyRootCheck: in a folder that holds the bundle and the libraries of the system
// that it says it needs, and nothing else, each file finds its libraries and the
// programs (llama-server) print their version.
func emptyRootCheck(a *args) step {
	programs := a.list("programs", []string{"llama-server"})
	return func(ctx context.Context, s *session) (outcome, error) {
		files, err := elfFiles(ctx, s.side.bin)
		if err != nil {
			return outcome{}, err
		}
		dir, err := os.MkdirTemp(s.o.Work, "root-")
		if err != nil {
			return outcome{}, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		r := &emptyRoot{dir: dir, s: s}
		if err := r.fill(ctx, s.side.bin, files); err != nil {
			return outcome{}, err
		}
		if err := r.enter(ctx, ways); err != nil {
			return outcome{}, err
		}
		for _, f := range binary.Roots(files) {
			if err := r.loads(ctx, f); err != nil {
				return outcome{}, err
			}
		}
		for _, lib := range r.standIns {
			if err := os.Remove(lib); err != nil {
				return outcome{}, err
			}
		}
		for _, name := range programs {
			if err := r.starts(ctx, name); err != nil {
				return outcome{}, err
			}
		}
		if len(r.unseen) > 0 {
			return outcome{}, &absent{fmt.Sprintf("%s: this machine lacks %s, so what needs it was not looked at", r.detail(),
				strings.Join(r.unseen, " and "))}
		}
		return outcome{detail: r.detail()}, nil
	}
}

// absent is why a check was not run, where that is nobody's fault and stops nothing.
type absent struct{ why string }

func (e *absent) Error() string { return e.why }

// elfFiles inspects the programs and libraries of a folder.
func elfFiles(ctx context.Context, dir string) ([]*binary.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*binary.File
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		f, err := binary.InspectContext(ctx, filepath.Join(dir, e.Name()))
		if errors.Is(err, binary.ErrNotELF) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, &absent{"the build holds no ELF file: only those can be run in an empty root"}
	}
	return files, nil
}

// emptyRoot is a folder that becomes / for what runs in it.
type emptyRoot struct {
	dir     string
	s       *session
	loader  string   // its path inside
	program string   // one that the loader starts
	system  []string // names of the system's libraries that were copied in
	unseen  []string // libraries that this machine lacks
	// standIns are what the loader is shown in place of the driver's libraries, which no
	// bundle holds; they are gone before a program starts.
	standIns []string
	way      way
}

// inside is where the bundle lies in the root.
const inside = "/bundle"

// fill puts the bundle into the root, and of the system the loader and the libraries
// that the bundle's files need, with what those need in turn.
func (r *emptyRoot) fill(ctx context.Context, bin string, files []*binary.File) error {
	for _, d := range []string{inside, "proc", "dev", "tmp"} {
		if err := os.MkdirAll(filepath.Join(r.dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := linkTree(ctx, bin, filepath.Join(r.dir, inside)); err != nil {
		return fmt.Errorf("lay out the empty root: %w", err)
	}
	i := slices.IndexFunc(files, func(f *binary.File) bool { return f.Interp != "" })
	if i < 0 {
		return &absent{"the build holds no program that a loader starts"}
	}
	r.loader, r.program = files[i].Interp, files[i].Name
	root, libs, err := r.s.libraries(ctx)
	if err != nil {
		return err
	}
	if st, err := os.Stat(filepath.Join(root, r.loader)); err != nil || !st.Mode().IsRegular() {
		return &absent{fmt.Sprintf("this machine has no %s, which the programs ask for", r.loader)}
	}
	if err := r.take(ctx, filepath.Join(root, r.loader), r.loader); err != nil {
		return err
	}
	// Where this loader looks without being told is where its C library lies.
	libc := libs.Find("libc.so.6", files[i].Machine)
	if libc == "" {
		return &absent{"this machine's C library was not found, or is for another kind of processor"}
	}
	dir := filepath.Join("/", strings.TrimPrefix(filepath.Dir(libc), root)) // inside
	queue := binary.Outside(files)
	for i := 0; i < len(queue); i++ {
		name := queue[i]
		from := libs.Find(name, files[0].Machine)
		switch {
		case binary.FromDriver(name):
			lib := filepath.Join(dir, name)
			if err := r.take(ctx, libc, lib); err != nil {
				return err
			}
			r.standIns = append(r.standIns, filepath.Join(r.dir, lib))
			continue
		case from == "":
			r.unseen = append(r.unseen, name)
			continue
		}
		if err := r.take(ctx, from, filepath.Join(dir, name)); err != nil {
			return err
		}
		r.system = append(r.system, name)
		f, err := binary.InspectContext(ctx, from)
		if err != nil {
			return err
		}
		for _, lib := range f.Needed {
			if !slices.Contains(queue, lib) {
				queue = append(queue, lib)
			}
		}
	}
	slices.Sort(r.system)
	return nil
}

// libraries are what the programs find without being told, and the folder of the root
// that they lie in; "" is this machine's.
func (s *session) libraries(ctx context.Context) (string, *binary.Libraries, error) {
	if s.o.Inside != nil {
		return s.o.Inside.Root, binary.LibrariesUnder(s.o.Inside.Root), nil
	}
	libs, err := binary.SystemLibraries(ctx, s.env())
	return "", libs, err
}

// take copies a file of this machine into the root, to the path that it has there.
func (r *emptyRoot) take(ctx context.Context, from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return fmt.Errorf("lay out the empty root: %w", err)
	}
	to = filepath.Join(r.dir, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := regular.Copy(ctx, real, to, 0o755); err != nil {
		return fmt.Errorf("lay out the empty root: %w", err)
	}
	return nil
}

// linkTree lays the entries of a folder into another: hard links where the file
// system has them, as a full bundle has more than a GiB.
func linkTree(ctx context.Context, from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(rel string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, name := filepath.Join(from, rel), filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(name, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, name)
		case !d.Type().IsRegular():
			return nil
		}
		if os.Link(p, name) == nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return regular.Copy(ctx, p, name, info.Mode().Perm())
	})
}
