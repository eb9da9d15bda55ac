package release

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkScript is what a bundle calls the script that looks at the user's machine.
const checkScript = "check.sh"

var (
	setRE     = regexp.MustCompile(`(?m)^(gfx|libs|glibc)=.*$`)
	rocmLibRE = regexp.MustCompile(`^lib(amdhip64|hip|roc)`)
)

// checkScript returns the recipe's script with what this bundle is in its settings:
// the targets of its device code, the libraries of ROCm and the glibc that it needs.
func (c *Chain) checkScript(i BuildInfo) ([]byte, error) {
	name := path.Join("recipes", c.Recipe.Bundle.Check)
	text, err := fs.ReadFile(c.Repo.FS, name)
	if err != nil {
		return nil, fmt.Errorf("bundle.check: %w", err)
	}
	libs := slices.DeleteFunc(slices.Clone(i.Needs), func(lib string) bool { return !rocmLibRE.MatchString(lib) })
	values := map[string]string{"libs": strings.Join(libs, " "), "glibc": i.Glibc}
	if h := c.Recipe.Verify.HIP; h != nil {
		values["gfx"] = strings.Join(h.Archs, " ")
	}
	return setRE.ReplaceAllFunc(text, func(line []byte) []byte {
		key, _, _ := strings.Cut(string(line), "=")
		return []byte(key + `="` + values[key] + `"`)
	}), nil
}
