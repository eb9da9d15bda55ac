package leak

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noProgram says why argv's program cannot be run.
func noProgram(o Options) string {
	name := o.Argv[0]
	st, err := os.Stat(filepath.Join(o.Dir, name))
	if filepath.IsAbs(name) {
		st, err = os.Stat(name)
	}
	what := ""
	switch {
	case err != nil:
	case st.IsDir():
		what = "a folder"
	case !st.Mode().IsRegular():
		what = "no regular file"
	case st.Mode()&0o111 == 0:
		what = "a file that may not be executed (chmod +x, if it is a program)"
	default:
		what = "a program of this folder: write ./" + name
	}
	switch named := strings.ContainsRune(name, '/'); {
	case named && what == "":
		return name + ": there is no such file"
	case named:
		return name + " is " + what
	case what != "":
		return name + " is not on the PATH; here it is " + what
	}
	return name + ": there is no such program on the PATH"
}

// place says where argv runs: under wine, or simply here.
func place(argv []string) string {
	for i, a := range argv[:max(0, len(argv)-1)] {
		if name := filepath.Base(a); (name == "wine" || name == "wine64") &&
			strings.EqualFold(filepath.Ext(argv[i+1]), ".exe") {
			return "wine"
		}
	}
	return "host"
}

// looksLikeServer reports whether argv is a llama server: by name, also behind
// env, nice and the like.
func looksLikeServer(argv []string) bool {
	for _, a := range argv {
		if strings.HasPrefix(a, "-") {
			break
		}
		name := strings.TrimSuffix(filepath.Base(a), ".exe")
		if name == "llama-server" || name == "llama_server" {
			return true
		}
	}
	return slices.ContainsFunc(argv, func(a string) bool { return a == "--port" || strings.HasPrefix(a, "--port=") })
}
