package bundle

import (
	"path"
	"regexp"

	"github.com/llpatch/llpatch/internal/source"
)

// Vendored is a library of somebody else's that upstream's tree holds.
type Vendored struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // as the file says it; empty: it does not
	File    string `json:"file"`              // in the tree
	Page    string `json:"page"`              // where it comes from
}

// vendored are the files that say which library they are, below vendor/ in upstream's tree and
// below common/ in older ones; version finds its version in them.
var vendored = []struct {
	name, file, page string
	version          *regexp.Regexp
}{
	{
		"cpp-httplib", "httplib.h", "https://github.com/yhirose/cpp-httplib",
		regexp.MustCompile(`CPPHTTPLIB_VERSION "([^"]+)"`),
	},
	{"miniaudio", "miniaudio.h", "https://github.com/mackron/miniaudio", regexp.MustCompile(`miniaudio - v(\S+)`)},
	{"nlohmann-json", "json.hpp", "https://github.com/nlohmann/json", regexp.MustCompile(`version (\d+\.\d+\.\d+)`)},
	{"subprocess.h", "subprocess.h", "https://github.com/sheredom/subprocess.h", nil},
	{"stb_image", "stb_image.h", "https://github.com/nothings/stb", regexp.MustCompile(`stb_image - v(\S+)`)},
	{"minja", "minja.hpp", "https://github.com/google/minja", nil},
	{"base64.hpp", "base64.hpp", "https://github.com/tobiaslocker/base64", nil},
}

// versionBytes bounds where a file says its version, bytes: httplib.h does at its 300th.
const versionBytes = 4 << 10

// VendoredIn lists them, in the order of their paths.
func VendoredIn(t *source.Tree) ([]Vendored, error) {
	var out []Vendored
	for _, e := range t.Files() {
		for _, v := range vendored {
			if path.Base(e.Path) != v.file {
				continue
			}
			found := Vendored{Name: v.name, File: e.Path, Page: v.page}
			if v.version != nil {
				f, err := t.Read(e.Path)
				if err != nil {
					return nil, err
				}
				if m := v.version.FindSubmatch(f.Data[:min(len(f.Data), versionBytes)]); m != nil {
					found.Version = string(m[1])
				}
			}
			out = append(out, found)
		}
	}
	return out, nil
}
