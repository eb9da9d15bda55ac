package doctor

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
)

// rights looks for programs that nobody may run.
func (r *Report) rights(h *held) {
	for _, f := range h.files {
		if mode, known := h.modes[f.Name]; known && f.Program() && mode&0o111 == 0 {
			r.lacks("bundle", "chmod +x "+f.Name, "%s is a program and may not be run.", f.Name)
		}
	}
}

var (
	ggmlRE    = regexp.MustCompile(`^libggml\.so(\.|$)`)
	ggmlLibRE = regexp.MustCompile(`^libggml-(.+)\.so(\.|$)`)
)

// backends looks for ggml's backends where no file needs one by name: a libggml built with
// GGML_BACKEND_DL needs libggml-base alone and loads the others when it runs
// (ggml_backend_load_all in ggml-backend-reg.cpp). Without any, no model can be loaded.
func (r *Report) backends(h *held) {
	isBackend := func(name string) bool {
		m := ggmlLibRE.FindStringSubmatch(path.Base(name))
		return m != nil && m[1] != "base"
	}
	if slices.ContainsFunc(h.all(), isBackend) {
		return
	}
	for _, f := range h.files {
		loads := ggmlRE.MatchString(path.Base(f.Name)) && slices.ContainsFunc(f.Needed, ggmlLibRE.MatchString)
		if loads && !slices.ContainsFunc(f.Needed, isBackend) {
			r.lacks("bundle", "take the whole bundle", "%s loads its backends from the program's folder, and there is none: libggml-cpu*.so is missing.", path.Base(f.Name))
			return
		}
	}
}

// symbols looks for symbols without a version, as ggml's are, that a file imports and
// that neither the bundle nor a library of this machine gives it. Those with a version
// are compared by version. Where a library is missing altogether, that is said instead.
func (r *Report) symbols(h *held, libs *binary.Libraries) error {
	given := map[string]bool{}
	for _, f := range h.files {
		for _, s := range f.ExportNames() {
			given[s] = true
		}
	}
	lost := map[string][]string{}
	for _, f := range h.files {
		if _, link := h.links[f.Name]; link {
			continue
		}
		for _, s := range f.ImportNames() {
			if !given[s] {
				lost[f.Name] = append(lost[f.Name], s)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	// Only now is it worth it to read those of this machine, and what they need.
	queue := binary.Outside(h.files)
	for i := 0; i < len(queue); i++ {
		at := libs.Find(queue[i], h.files[0].Machine)
		if at == "" {
			return nil
		}
		exports, needed, err := binary.Symbols(at)
		if err != nil {
			return err
		}
		for _, s := range exports {
			given[s] = true
		}
		for _, lib := range needed {
			if !slices.Contains(queue, lib) {
				queue = append(queue, lib)
			}
		}
	}
	for _, f := range h.files {
		names := slices.DeleteFunc(lost[f.Name], func(s string) bool { return given[s] })
		if len(names) > 0 {
			more := ""
			if len(names) > 3 {
				names, more = names[:3], " and more"
			}
			r.lacks("bundle", "", "%s imports %s%s, which no library that it needs has.", f.Name, strings.Join(names, ", "), more)
		}
	}
	return nil
}
