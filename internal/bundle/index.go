package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// SumsSuffix is behind an archive's name in that of its SHA256SUMS where it is published: beside
// archives of other targets, each with its own.
const SumsSuffix = "." + SumsFile

// IndexSchema is the version of the index's form. A key may be added to it; where one goes or
// changes its meaning the number rises.
const IndexSchema = 1

// Index lists what was published in one place, the newest first.
type Index struct {
	Schema   int       `json:"schema"`
	Date     time.Time `json:"date"` // when it was written
	Releases []Release `json:"releases"`
}

// Release is what was published under one name.
type Release struct {
	Name      string     `json:"name"` // such as b8833-llp1
	Date      time.Time  `json:"date"`
	Page      string     `json:"page,omitempty"` // its address, where it has a page
	Archives  []Archive  `json:"archives"`
	Withdrawn *Withdrawn `json:"withdrawn,omitempty"`
}

// Withdrawn says that nobody should take a release any more. Its files stay.
type Withdrawn struct {
	Date time.Time `json:"date"`
	Why  string    `json:"why"`
}

// Archive is one that was published.
type Archive struct {
	Name     string            `json:"name"`
	SHA256   string            `json:"sha256"`
	Bytes    int64             `json:"bytes"`
	URLs     []string          `json:"urls"` // its address, or one for each part
	Upstream string            `json:"upstream"`
	Tag      string            `json:"tag"`
	Build    int               `json:"build"`
	Revision int               `json:"revision"`
	Target   string            `json:"target"`
	Runtime  string            `json:"runtime,omitempty"`
	DropIn   string            `json:"drop_in,omitempty"`
	Open     int               `json:"defects_open"` // known ones, when it was packed
	Cured    int               `json:"defects_cured"`
	Facts    map[string]string `json:"facts"` // Info.Facts
}

// firstYear is that of llama.cpp's first commit.
const firstYear = 2023

// ReadIndex reads an index. The error says what is wrong with it, and not where it is.
func ReadIndex(data []byte) (x Index, err error) {
	if err := json.Unmarshal(data, &x); err != nil || x.Schema == 0 {
		return x, errors.New("it is no index of llpatch's")
	}
	if x.Schema > IndexSchema {
		return x, fmt.Errorf("it has the form %d, and this llpatch knows %d: take a newer llpatch", x.Schema, IndexSchema)
	}
	if x.Date.Year() < firstYear {
		return x, errors.New("it does not say when it was written")
	}
	for _, r := range x.Releases {
		for _, a := range r.Archives {
			for key, value := range a.Facts {
				if !factRE.MatchString(key) || strings.ContainsFunc(value, unicode.IsControl) {
					return x, fmt.Errorf("its archive %q has a fact that no bundle has, %q", a.Name, key)
				}
			}
			if strings.ContainsFunc(a.Name+strings.Join(a.URLs, ""), unicode.IsControl) {
				return x, fmt.Errorf("it names an archive with a control character, %q", a.Name)
			}
		}
	}
	return x, nil
}

// factRE is what facts are called: variables of the scripts that are made of an index.
var factRE = regexp.MustCompile(`^[a-z_]+$`)

// Find is where an archive stands, by its SHA-256 or else its name; false where it does not. Of
// two releases with it, that counts which was withdrawn.
func (x Index) Find(name, sum string) (release Release, found Archive, there bool) {
	best := 0
	for _, r := range x.Releases {
		for _, a := range r.Archives {
			rank := 0
			switch {
			case a.SHA256 == sum && r.Withdrawn != nil:
				rank = 3
			case a.SHA256 == sum:
				rank = 2
			case a.Name == name:
				rank = 1
			}
			if rank > best {
				best, release, found, there = rank, r, a, true
			}
		}
	}
	return release, found, there
}

// Like is where an archive of that tag, revision, target and use stands, whatever its bytes are; false where none
// does. Of two releases with one, that counts which was withdrawn.
func (x Index) Like(of Archive) (release Release, found Archive, there bool) {
	for _, r := range x.Releases {
		for _, a := range r.Archives {
			if same(a, of) && a.Tag == of.Tag && a.Revision == of.Revision && (!there || r.Withdrawn != nil) {
				release, found, there = r, a, true
			}
		}
	}
	return release, found, there
}

// same reports whether two archives are for the same use.
func same(a, b Archive) bool {
	return a.Upstream == b.Upstream && a.Target == b.Target && a.Runtime == b.Runtime && a.DropIn == b.DropIn
}

// Newer is an archive for the same target and use as another, of a later build or revision that
// was not withdrawn; false where there is none.
func (x Index) Newer(than Archive) (Archive, bool) {
	for _, r := range x.Releases {
		for _, a := range r.Archives {
			if same(a, than) && r.Withdrawn == nil && cmp.Or(cmp.Compare(a.Build, than.Build),
				cmp.Compare(a.Revision, than.Revision)) > 0 {
				return a, true
			}
		}
	}
	return Archive{}, false
}

// Entry is what the index says of an archive, without its addresses.
func (i Info) Entry(p Packed, name string) Archive {
	return Archive{
		Name: name, SHA256: p.SHA256, Bytes: p.Bytes, Upstream: i.Upstream, Tag: i.Tag, Build: i.Build, Revision: i.Revision,
		Target:  i.Target,
		Runtime: i.Runtime, DropIn: i.DropIn, Open: len(i.Security.Open), Cured: len(i.Security.Cured), Facts: i.Facts(),
	}
}

// ReleaseName is the name to publish an archive under: all that stands between llama- and -bin-
// in its name, so that a downloader that makes names of a release's finds it.
func ReleaseName(archive string) string {
	for _, kind := range []string{"-bin-", "-backend-"} {
		if name, _, ok := strings.Cut(archive, kind); ok {
			return strings.TrimPrefix(name, "llama-")
		}
	}
	return archive
}

// Newest are the archives that a user may choose from: of each target, as thin or full, that of
// the newest release that was not withdrawn. Those for a card come first; drop-ins are not
// among them.
func (x Index) Newest() []Archive {
	var all []Archive
	for _, r := range x.Releases {
		for _, a := range r.Archives {
			if r.Withdrawn == nil && a.DropIn == "" {
				all = append(all, a)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Archive) int {
		// Upstreams count their builds apart, and the user who asks for no other wants llama.cpp.
		return cmp.Or(-cmp.Compare(a.Upstream, b.Upstream), -cmp.Compare(a.Build, b.Build),
			-cmp.Compare(a.Revision, b.Revision))
	})
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(a Archive) bool {
		// What stands behind the tag and the revision: targets by the same name may differ there.
		_, kind, _ := strings.Cut(a.Name, "-bin-")
		key := a.Upstream + " " + a.Target + " " + kind
		defer func() { seen[key] = true }()
		return seen[key]
	})
	slices.SortStableFunc(all, func(a, b Archive) int {
		card := func(a Archive) int { return map[bool]int{true: 1}[a.Facts["card"] == "" && a.Facts["gpu"] == ""] }
		return cmp.Or(-cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(card(a), card(b)))
	})
	return all
}
