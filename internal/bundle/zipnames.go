package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf16"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
)

// maxZipName is how long a name in a zip may be, in UTF-16 units. Windows 7 takes paths
// of 259 (MAX_PATH in Microsoft's "Naming Files, Paths, and Namespaces"), and Explorer
// unpacks into a folder called as the zip, in a folder of the user's.
const maxZipName = 150

// checkZipNames looks at the names below the folder dir as Windows would: two that
// differ in case alone are one file there, a DLL that is there twice is loaded from
// whichever folder comes first, and some names it does not take. The error joins a
// *binary.Rejected for each.
func checkZipNames(dir string) error {
	var errs []error
	reject := func(name, format string, args ...any) {
		errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf(format, args...)})
	}
	paths, dlls := map[string]string{}, map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		lower := strings.ToLower(name)
		base := path.Base(lower)
		if first, there := paths[lower]; there {
			reject(first, "is one file with %s to Windows, which does not tell upper from lower case", name)
		} else if first, there := dlls[base]; there && path.Ext(base) == ".dll" {
			reject(first, "is in the bundle more than once: %s too, and the loader takes the one beside the program", name)
		}
		paths[lower], dlls[base] = name, name
		switch n := len(utf16.Encode([]rune(name))); {
		case !build.WindowsTakes(d.Name()):
			reject(name, "has a name that Windows gives no file")
		case n > maxZipName:
			reject(name, "has a name of %d letters; with more than %d Windows 7 may not be able to unpack it", n, maxZipName)
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
