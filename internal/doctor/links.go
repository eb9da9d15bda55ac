package doctor

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
)

// cause says why a file cannot be read, without naming it again.
func cause(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// isDir reports whether the bundle has such a folder, as parents has noted them.
func (h *held) isDir(name string) bool { return name == "." || h.dirs[name] }

// parents notes the folders in which something lies: an archive need not name them.
func (h *held) parents(names []string) {
	for _, name := range names {
		for dir := path.Dir(name); dir != "." && !h.dirs[dir]; dir = path.Dir(dir) {
			h.dirs[dir] = true
		}
	}
}

// all are the names of files and links, sorted.
func (h *held) all() []string {
	var all []string
	for name := range h.names {
		all = append(all, name)
	}
	for name := range h.links {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// throughDirs gives each file below a linked folder its name through the link. Links
// through links take more than one round; one into itself is left alone.
func (h *held) throughDirs() {
	for range 4 {
		added := false
		all := h.all()
		h.parents(all)
		for _, link := range all {
			to, is := h.links[link]
			if !is || to == "." || h.names[to] || strings.HasPrefix(link+"/", to+"/") || !h.isDir(to) {
				continue
			}
			h.dirs[link] = true
			first, _ := slices.BinarySearch(all, to+"/")
			for _, name := range all[first:] {
				rest, below := strings.CutPrefix(name, to+"/")
				if !below {
					break
				}
				alias := path.Join(link, rest)
				if h.names[alias] || h.links[alias] != "" || len(h.links) > bundle.MaxEntries {
					continue
				}
				h.links[alias] = name
				added = true
			}
		}
		if !added {
			return
		}
	}
}

// resolve gives each link the file that it leads to. A link to a program is none of its
// own: $ORIGIN is the folder of the file itself (ld.so(8) reads /proc/self/exe).
func (h *held) resolve() {
	h.throughDirs()
	byName := map[string]*binary.File{}
	for _, f := range h.files {
		byName[f.Name] = f
	}
	for name, to := range h.links {
		for range 10 {
			next, is := h.links[to]
			if !is {
				break
			}
			to = next
		}
		if f := byName[to]; f != nil {
			if !f.Program() {
				g := *f
				g.Name = name
				h.files = append(h.files, &g)
			}
			continue
		}
		if !h.names[to] && !h.isDir(to) {
			h.fault("%s is a link to %s, which is not in the bundle", name, to)
		}
	}
	slices.Sort(h.faults)
	for _, f := range h.files {
		h.folders(f.RunPath, "")
	}
	slices.SortFunc(h.files, func(a, b *binary.File) int { return strings.Compare(a.Name, b.Name) })
}

// own are the files that are no links.
func (h *held) own() []*binary.File {
	return slices.DeleteFunc(slices.Clone(h.files), func(f *binary.File) bool {
		_, link := h.links[f.Name]
		return link
	})
}

// single reads a program or library, and what it needs of where its search path leads
// and of its own folder, unless the system has it. Names are relative to its folder.
func (h *held) single(ctx context.Context, name string, libs *binary.Libraries) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	if err := h.take(ctx, filepath.Base(name), name); err != nil {
		return err
	}
	if len(h.files) == 0 { // an object file
		return nil
	}
	backends, err := h.loaded(ctx, dir)
	if err != nil {
		return err
	}
	for i := 0; i < len(h.files) || len(backends) > 0; i++ {
		if i == len(h.files) { // all that it needs is there; now what it loads
			b := backends[0]
			backends, i = backends[1:], i-1
			at, err := filepath.Rel(dir, b)
			if err != nil {
				return err
			}
			if at = filepath.ToSlash(at); !h.names[at] {
				if err := h.take(ctx, at, b); err != nil {
					return err
				}
			}
			continue
		}
		f := h.files[i]
		for _, lib := range f.Needed {
			at := beside(dir, f, lib)
			if at == "" && libs.Find(lib, h.files[0].Machine) == "" && isThere(filepath.Join(dir, lib)) {
				at = lib
			}
			if at == "" || h.names[at] {
				continue
			}
			if err := h.take(ctx, at, filepath.Join(dir, filepath.FromSlash(at))); err != nil {
				return err
			}
		}
	}
	return nil
}

// loaded are the backends that ggml loads into the program or library that was taken in.
func (h *held) loaded(ctx context.Context, dir string) (files []string, err error) {
	if _, is := binary.BackendOf(h.files[0].Name, h.files[0]); is {
		return nil, nil
	}
	list, err := binary.Backends(ctx, binary.BackendFolders(dir)...)
	for _, b := range list {
		if b.Why == "" {
			files = append(files, b.File)
		}
	}
	return files, err
}

// beside is where a library lies that a file's own search path leads to from $ORIGIN,
// relative to dir, as the file's name is.
func beside(dir string, f *binary.File, lib string) string {
	for _, p := range f.RunPath {
		if below, ok := binary.CutOrigin(p); ok {
			if at := path.Join(path.Dir(f.Name), below, lib); isThere(filepath.Join(dir, filepath.FromSlash(at))) {
				return at
			}
		}
	}
	return ""
}

// take takes a file of this machine in.
func (h *held) take(ctx context.Context, name, file string) error {
	mode, err := modeOf(file)
	if err != nil {
		return err
	}
	h.names[name], h.modes[name] = true, mode
	return h.inspect(ctx, name, file)
}
