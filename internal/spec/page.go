package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/tag"
)

// PageLockFile pins the web pages that were built.
const PageLockFile = "recipes/pages.lock"

// PagePlace says where the trees of a range of builds have the web page of llama-server.
type PagePlace struct {
	Range   tag.Range `toml:"range" json:"range"`
	Sources string    `toml:"sources" json:"sources"` // the folder that npm builds it in
	Dist    string    `toml:"dist" json:"dist"`       // the folder that npm builds it to, and that CMake takes it from
}

// NPMPackage is a package of npm's, pinned.
type NPMPackage struct {
	Name    string `toml:"package" json:"package"`
	Version string `toml:"version" json:"version"`
	// "sha512-" and the hash of the tarball in base64, as npm writes it
	Integrity string `toml:"integrity" json:"integrity"`
}

// PageTools are what the pages are built with.
type PageTools struct {
	Node NPMPackage `toml:"node" json:"node"` // has bin/node, for Linux on x86-64
	NPM  NPMPackage `toml:"npm" json:"npm"`   // has bin/npm-cli.js
}

// PagePin is what recipes/pages.lock holds of a tag's page.
type PagePin struct {
	Sources string `json:"sources"` // git tree id of the folder that it is built in, with the fixes
	SHA256  string `json:"sha256"`  // of the list of its files, as page.Page has it
}

// PageLock is recipes/pages.lock: upstream -> tag -> pin.
type PageLock map[string]map[string]PagePin

// Set adds or replaces the pin of a tag.
func (k PageLock) Set(upstream, tag string, p PagePin) {
	if k[upstream] == nil {
		k[upstream] = map[string]PagePin{}
	}
	k[upstream][tag] = p
}

// PageOf is where the tree of a build has its page, and whether it has to be built at all: an
// older one lies in the tree.
func (r *Repo) PageOf(upstream string, build int) (PagePlace, bool) {
	at := slices.IndexFunc(r.Pages[upstream], func(p PagePlace) bool { return p.Range.Contains(build) })
	if at < 0 {
		return PagePlace{}, false
	}
	return r.Pages[upstream][at], true
}

// ParsePageLock reads the text of a pages.lock; name is what errors call the file.
func ParsePageLock(name string, data []byte) (PageLock, error) {
	lock := PageLock{}
	if err := decodeJSON(name, data, &lock); err != nil {
		return nil, err
	}
	var errs []error
	for _, upstream := range sortedKeys(lock) {
		for _, key := range sortedKeys(lock[upstream]) {
			p := lock[upstream][key]
			if _, err := tag.Parse(key); err != nil || !commitRE.MatchString(p.Sources) || !sha256RE.MatchString(p.SHA256) {
				errs = append(errs, errorAt(name, data, find(data, `"`+key+`"`),
					"%s %s: it takes a tag, and of it sources, a git tree id of 40 hex digits, and sha256, of 64", upstream, key))
			}
		}
	}
	return lock, errors.Join(errs...)
}

// pageLock reads the lock, which need not be there.
func (l *loader) pageLock() PageLock {
	if _, err := fs.Stat(l.fsys, PageLockFile); errors.Is(err, fs.ErrNotExist) {
		return PageLock{}
	}
	data, ok := l.read(PageLockFile)
	if !ok {
		return nil
	}
	lock, err := ParsePageLock(PageLockFile, data)
	if err != nil {
		l.fail(err)
	}
	return lock
}

// pages checks the [[upstream.page]] tables and what they are built with.
func (f *file) pages(upstreams []Upstream, tools PageTools) map[string][]PagePlace {
	all := map[string][]PagePlace{}
	for i, u := range upstreams {
		for j, p := range u.Pages {
			key := fmt.Sprintf("upstream[%d].page[%d]", i, j)
			f.refuse(p.Range.IsZero(), key, "page has no range")
			f.refuse(!fs.ValidPath(p.Sources) || p.Sources == ".", key+".sources",
				"sources is %q; it must be a folder of the tree", p.Sources)
			f.refuse(!fs.ValidPath(p.Dist) || p.Dist == ".", key+".dist", "dist is %q; it must be a folder of the tree", p.Dist)
			for name, pkg := range map[string]NPMPackage{"page.node": tools.Node, "page.npm": tools.NPM} {
				f.refuse(pkg.Name == "" || pkg.Version == "" || !strings.HasPrefix(pkg.Integrity, "sha512-"), name,
					"%s must have package, version and integrity, a sha512 as npm has it: pages are built with it", name)
			}
		}
		if len(u.Pages) > 0 {
			all[u.Name] = u.Pages
		}
	}
	return all
}
