package spec

import (
	"path"
	"slices"
	"strings"
)

// Contents is what was built, or is going to be, as far as that tells which parts of upstream's
// tree are in it.
type Contents struct {
	// names of programs, and of libraries once they are built; none: not known, so any part may be
	// in
	Files   []string
	DropIn  string            // the one library that there is, a backend's; empty: programs with all that they need
	Options map[string]string // CMake's
}

// Contents is what a target builds, by its declaration.
func (rec Recipe) Contents() Contents {
	c := Contents{Files: rec.Programs, Options: map[string]string{}}
	set := func(o Options) {
		for name, value := range o {
			if value == true {
				c.Options[name] = "ON"
			}
		}
	}
	set(rec.CMake)
	for _, o := range slices.Concat(rec.Shared, rec.CMakeFor) {
		set(o.Set)
	}
	return c
}

// Without says why no code of a component of upstream's tree is in c, after "not in these
// programs"; "" where there may be some.
func (c Contents) Without(component string) string {
	in := func(dir string) bool { return component == dir || strings.HasPrefix(component, dir+"/") }
	has := func(program string) bool {
		return slices.ContainsFunc(c.Files, func(f string) bool {
			return strings.TrimSuffix(path.Base(f), ".exe") == program
		})
	}
	switch {
	case in("gguf-py"):
		return "which have nothing of Python"
	case c.DropIn != "" && !in("ggml/src/"+c.backend()):
		return "but in the package that " + c.DropIn + " goes into"
	case c.DropIn != "" || len(c.Files) == 0:
		return ""
	case strings.HasSuffix(component, "ggml-rpc") && !c.rpc():
		return "which are built without GGML_RPC"
	case (in("server") || in("tools/mtmd")) && !has("llama-server") && !has("llama-cli"): // both are linked with both
		return "none of which is llama-server or llama-cli"
	}
	return ""
}

// backend is the folder that the drop-in is made of.
func (c Contents) backend() string {
	name := strings.TrimPrefix(strings.TrimSuffix(c.DropIn, path.Ext(c.DropIn)), "lib")
	if name == "ggml-hip" {
		return "ggml-cuda" // its code is CUDA's
	}
	return name
}

// rpc reports whether ggml's RPC is built, or lies there.
func (c Contents) rpc() bool {
	return c.Options["GGML_RPC"] == "ON" || slices.ContainsFunc(c.Files, func(f string) bool {
		return strings.Contains(path.Base(f), "rpc")
	})
}

// lack reports whether none of several components is in c; false of none.
func (c Contents) lack(components []string) bool {
	return len(components) > 0 && !slices.ContainsFunc(components, func(part string) bool { return c.Without(part) == "" })
}
