package doctor

import (
	"path"
	"regexp"
	"slices"
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
			r.lacks("bundle", "take the whole bundle", "%s loads its backends from the program's folder, and there is none: "+
				"libggml-cpu*.so is missing.", path.Base(f.Name))
			return
		}
	}
}
