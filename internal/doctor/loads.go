package doctor

import (
	"path"
	"regexp"
	"slices"

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

// isNeeded reports whether another file needs this one by name.
func (h *held) isNeeded(f *binary.File) bool {
	return slices.ContainsFunc(h.files, func(g *binary.File) bool {
		return slices.Contains(g.Needed, path.Base(f.Name)) || f.SOName != "" && slices.Contains(g.Needed, f.SOName)
	})
}

// plugin reports whether a file is a backend that a program does without, and device whether that is one
// for a card.
func (h *held) plugin(f *binary.File) (is, device bool) {
	b, is := binary.BackendOf(f.Name, f)
	return is && !h.isNeeded(f), is && b.Device()
}

// spare reports whether only backends need a library that is missing, and another of them, for
// a card where one of those is, has all of its own: the program then uses that one.
func (h *held) spare(libs *binary.Libraries, lib string) bool {
	card, whole, cards := false, 0, 0
	for _, f := range h.own() {
		is, device := h.plugin(f)
		if slices.Contains(f.Needed, lib) {
			if !is {
				return false
			}
			card = card || device
			continue
		}
		b, _ := binary.BackendOf(f.Name, f)
		if is && b.Why == "" && b.Kind != "rpc" && !slices.ContainsFunc(f.Needed, func(lib string) bool {
			return h.called(lib) == nil && h.find(libs, lib) == ""
		}) {
			whole++
			if device {
				cards++
			}
		}
	}
	return cards > 0 || !card && whole > 0
}

// backends looks for ggml's backends where no file needs one by name: a libggml built with
// GGML_BACKEND_DL needs libggml-base alone and loads the others when it runs
// (ggml_backend_load_all in ggml-backend-reg.cpp). Without any, no model can be loaded.
func (r *Report) backends(h *held) {
	isBackend := func(name string) bool {
		m := ggmlLibRE.FindStringSubmatch(path.Base(name))
		return m != nil && m[1] != "base"
	}
	any := false
	for _, f := range h.own() {
		if b, is := binary.BackendOf(f.Name, f); !is {
			continue
		} else if b.Why == "" || h.isNeeded(f) {
			any = true
		} else {
			r.without("backend", "", "%s is a backend that is not loaded: %s.", f.Name, b.Why)
		}
	}
	if any {
		return
	}
	for _, f := range h.files {
		loads := ggmlRE.MatchString(path.Base(f.Name)) && slices.ContainsFunc(f.Needed, ggmlLibRE.MatchString)
		if loads && !slices.ContainsFunc(f.Needed, isBackend) {
			r.lacks("bundle", "take the whole bundle", "%s loads its backends from the program's folder, and there is none: "+
				"libggml-cpu*.so is missing.", path.Base(f.Name))
			return
		}
	}
}
