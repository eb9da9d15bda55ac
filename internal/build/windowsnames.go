package build

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Names that Windows gives no file: those of devices, with any suffix, and those with
// letters that it uses otherwise (Microsoft's "Naming Files, Paths, and Namespaces").
var (
	deviceRE = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?$`)
	oddRE    = regexp.MustCompile(`[<>:"\\|?*\x00-\x1f]|[. ]$`)
)

// WindowsTakes reports whether a file or a folder can be called so on Windows.
func WindowsTakes(name string) bool { return !deviceRE.MatchString(name) && !oddRE.MatchString(name) }

// checkBoxNames refuses a source that cannot lie on a Windows machine as it is: a name that
// no file can have there, or two, of files or folders, that are one there. Below either of
// two such folders would be what belongs below the other.
func checkBoxNames(files []SourceFile) error {
	written := map[string]string{} // path in lower case -> as it is written first
	for _, f := range files {
		for name := f.Path; name != "."; name = path.Dir(name) {
			if !WindowsTakes(path.Base(name)) {
				return fmt.Errorf("%q has a name that Windows gives no file", name)
			}
			lower := strings.ToLower(name)
			first, there := written[lower]
			if there && first != name {
				return fmt.Errorf("%q and %q are one to Windows, which does not tell upper from lower case", first, name)
			}
			written[lower] = name
		}
	}
	return nil
}
