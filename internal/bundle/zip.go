package bundle

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/klauspost/compress/flate"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/regular"
)

// writeZip packs what the folder dir holds as a zip, without dir itself at its top:
// entries sorted, the given time, and no mode, so that the same files give the same
// bytes. The compressor is pinned by go.mod for the same reason. It returns the
// SHA-256 of the archive. Names that Windows could not unpack are a *binary.Rejected.
func writeZip(ctx context.Context, file, dir string, when time.Time) (string, error) {
	if err := checkZipNames(dir); err != nil {
		return "", fmt.Errorf("pack %s: %w", file, err)
	}
	return writeArchive(ctx, file, dir, func(to io.Writer) (writer, error) {
		zw := zip.NewWriter(to)
		zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		})
		add := func(p, name string, d fs.DirEntry) error {
			if d.IsDir() {
				return nil
			}
			return addZipEntry(ctx, zw, p, name, d, when)
		}
		return writer{add: add, end: zw.Close}, nil
	})
}

func addZipEntry(ctx context.Context, zw *zip.Writer, file, name string, d fs.DirEntry, when time.Time) error {
	if !d.Type().IsRegular() {
		return &binary.Rejected{File: file, Fault: "is no plain file, and Windows could not unpack it"}
	}
	w, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: when.UTC()})
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, regular.Until(ctx, f))
	return errors.Join(err, f.Close())
}

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
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
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
