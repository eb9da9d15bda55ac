package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNotFound is wrapped by the error of a program that is not on the PATH.
var ErrNotFound = errors.New("no such program")

// LookPath returns the absolute path of the first program called name in the
// folders of path, which is written like the PATH variable. A name with a slash
// is checked and made absolute instead. The error wraps ErrNotFound.
func LookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') {
		abs, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		if err := executable(abs); err != nil {
			return "", fmt.Errorf("%s: %w: %w", name, ErrNotFound, err)
		}
		return abs, nil
	}
	for _, dir := range filepath.SplitList(path) {
		// An empty or relative entry would make the answer depend on the folder.
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, ext := range programExtensions() {
			file := filepath.Join(dir, name+ext)
			if executable(file) == nil {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w in PATH %q", name, ErrNotFound, path)
}

func programExtensions() []string {
	if runtime.GOOS == "windows" {
		return []string{".exe", ".com", ".bat", ".cmd", ""}
	}
	return []string{""}
}

func executable(file string) error {
	fi, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return errors.New("is a folder")
	case runtime.GOOS != "windows" && fi.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}

// LookEnv returns the value of the last entry of env for key, as exec would see it, and
// whether there is one.
func LookEnv(env []string, key string) (value string, ok bool) {
	for _, e := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(e, key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// LookPathIn is LookPath on the PATH of an environment.
func LookPathIn(env []string, name string) (string, error) {
	path, _ := LookEnv(env, "PATH")
	return LookPath(name, path)
}
