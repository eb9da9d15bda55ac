package publish

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
)

// Place is where releases are published: a folder, a GitHub or a Gitea.
type Place interface {
	// look finds a release, a draft among them, and names all that are published.
	look(ctx context.Context, name string) (Held, []string, error)
	// begin makes a draft, which nobody else sees.
	begin(ctx context.Context, name string) (Held, error)
	// put sends a file to a draft. What is there by that name, and not whole, goes. seen is told
	// how many bytes of it were read.
	put(ctx context.Context, h Held, f file, seen func(done int64)) error
	// sum is the SHA-256 of what is there, read back where the place does not tell it.
	sum(ctx context.Context, h Held, name string) (string, error)
	// remove takes a file off a draft.
	remove(ctx context.Context, h Held, name string) error
	// show makes a draft public.
	show(ctx context.Context, h Held, page Page) error
	// mark changes the page of a published release, and nothing else of it.
	mark(ctx context.Context, h Held, page Page) error
	// index is the index of the place, nil where there is none yet; setIndex replaces its files at once.
	index(ctx context.Context) ([]byte, error)
	setIndex(ctx context.Context, files map[string][]byte, why string) error
	// url is the address of a published file, page that of a release, empty where it has none.
	url(release, name string) string
	page(release string) string
	// home is where the index is seen.
	home() string
}

// Held is a release as a place has it.
type Held struct {
	Name   string
	There  bool
	Public bool
	Text   string // of its page
	id     int64
	files  map[string]asset
}

// asset is a file of a release.
type asset struct {
	id     int64
	bytes  int64
	sha256 string // empty: the place does not tell it
	whole  bool
	at     string // its address for who may see drafts
}

// Page is what a release's page says.
type Page struct {
	Title, Text string
	Withdrawn   bool // not to be shown as the latest
}

// Refused says why a place does not take a release, or cannot be reached.
type Refused struct {
	Where string
	Err   error
	Next  string // what to do
	cause error  // what the host answered; nil: it was not asked
}

// Error names the place and the cause.
func (e *Refused) Error() string { return e.Where + ": " + patch.Printable(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Refused) Unwrap() error { return e.Err }

// ExitCode is exit.Source.
func (e *Refused) ExitCode() int { return exit.Source }

// Hint says what to do.
func (e *Refused) Hint() string { return e.Next }

func refuse(where, next, format string, args ...any) error {
	return &Refused{where, fmt.Errorf(format, args...), next, nil}
}

// Done says what was published or withdrawn.
type Done struct {
	Name    string   `json:"name"`
	Page    string   `json:"page,omitempty"`
	Index   string   `json:"index"`
	Files   []string `json:"files,omitempty"`
	Sent    int      `json:"sent"` // of them, now; the others were there
	Already bool     `json:"already,omitempty"`
}

// Text is a line for people.
func (d Done) Text() string {
	if len(d.Files) == 0 {
		return fmt.Sprintf("%s is withdrawn: %s; index: %s\n", d.Name, d.Page, d.Index)
	}
	if d.Already {
		return fmt.Sprintf("%s was published before, and is right; index: %s\n", d.Name, d.Index)
	}
	return fmt.Sprintf("%s: %d files, %d sent now: %s; index: %s\n", d.Name, len(d.Files), d.Sent, d.Page, d.Index)
}

// Options are what a user asks of Publish and Withdraw.
type Options struct {
	Now      time.Time
	Progress func(what string, done, total int64)
}

// Publish publishes a set at a place, or goes on where an earlier run was cut. The error is a
// *Refused, a *NoIndex once the release is public, or one of this machine's.
func Publish(ctx context.Context, at Place, s *Set, o Options) (Done, error) {
	d := Done{Name: s.Name}
	old, err := readIndex(ctx, at)
	if err != nil {
		return d, err
	}
	if r := old.withdrawn(s); r != nil {
		return d, refuse(at.home(), "publish another revision", "%s was withdrawn: %s", r.Name, r.Withdrawn.Why)
	}
	h, public, err := at.look(ctx, s.Name)
	if err != nil {
		return d, err
	}
	if strings.HasPrefix(h.Text, withdrawnHead) {
		return d, refuse(at.home(), "publish another revision", "%s was withdrawn, as its page says", s.Name)
	}
	if !h.There {
		if h, err = at.begin(ctx, s.Name); err != nil {
			return d, err
		}
	}
	for _, f := range s.files {
		d.Files = append(d.Files, f.name)
	}
	if d.Already = h.Public; !h.Public {
		if d.Sent, err = s.send(ctx, at, h, o); err != nil {
			return d, err
		}
		if h, _, err = at.look(ctx, s.Name); err != nil {
			return d, err
		}
	}
	if err := s.compare(ctx, at, h); err != nil {
		return d, err
	}
	if !h.Public {
		if err := at.show(ctx, h, Page{Title: s.Name, Text: s.text(at)}); err != nil {
			return d, err
		}
		public = append(public, s.Name)
	}
	d.Page, d.Index = at.page(s.Name), at.home()
	entry := bundle.Release{Name: s.Name, Date: o.Now.UTC().Truncate(time.Second), Page: d.Page}
	for _, a := range s.Archives {
		urls := slices.Clone(a.URLs)
		for i, name := range urls {
			urls[i] = at.url(s.Name, name)
		}
		a.URLs = urls
		entry.Archives = append(entry.Archives, a)
	}
	if r := old.find(s.Name); r != nil && d.Already { // what this run does not bring is there still
		for _, a := range r.Archives {
			if !slices.ContainsFunc(entry.Archives, func(b bundle.Archive) bool { return a.Name == b.Name }) {
				entry.Archives = append(entry.Archives, a)
			}
		}
	}
	if err := writeIndex(ctx, at, old.with(entry), public, o.Now, "publish "+s.Name); err != nil {
		return d, &NoIndex{s.Name, false, err}
	}
	return d, nil
}

// send sends what a draft lacks, and takes off it what is not of the set.
func (s *Set) send(ctx context.Context, at Place, h Held, o Options) (sent int, err error) {
	want, total, before := map[string]bool{}, int64(0), int64(0)
	for _, f := range s.files {
		want[f.name], total = true, total+f.bytes
	}
	seen := func(done int64) {
		if o.Progress != nil {
			o.Progress("publish "+s.Name, before+done, total)
		}
	}
	for _, f := range s.files {
		seen(0)
		if a, there := h.files[f.name]; there && a.whole && a.bytes == f.bytes {
			sum, err := at.sum(ctx, h, f.name)
			if err != nil {
				return sent, err
			}
			if sum == f.sha256 {
				before += f.bytes
				continue
			}
		}
		if err := at.put(ctx, h, f, seen); err != nil {
			return sent, err
		}
		sent++
		before += f.bytes
	}
	seen(0)
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		if !want[name] {
			if err := at.remove(ctx, h, name); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}

// compare says where what is there is not the set.
func (s *Set) compare(ctx context.Context, at Place, h Held) error {
	next := "look at the draft there, and run the same command again"
	if h.Public {
		next = "a published release is never changed: give all folders of a release at once, or another name by --tag"
	}
	for _, f := range s.files {
		a, there := h.files[f.name]
		if !there || !a.whole {
			return refuse(at.home(), next, "%s has no %s", s.Name, f.name)
		}
		sum, err := at.sum(ctx, h, f.name)
		if err != nil {
			return err
		}
		if sum != f.sha256 {
			return refuse(at.home(), next, "%s of %s has the SHA-256 %s there, and %s here", f.name, s.Name, sum, f.sha256)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		if !h.Public && !slices.ContainsFunc(s.files, func(f file) bool { return f.name == name }) {
			return refuse(at.home(), next, "%s has %s, which is not of the set", s.Name, name)
		}
	}
	return nil
}

// maxText is how much text a release's page takes. Source: GitHub refuses a body of more than
// 125,000 characters.
const maxText = 120_000

// text is the page of a release.
func (s *Set) text(at Place) string {
	text := s.Notes
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "\n\nThe rest stands in the files that end in NOTES.md.\n\n"
	}
	return text + "Which file is for this machine, and all releases: " + at.home() + "\n"
}

// withdrawnHead begins the page of a withdrawn release.
const withdrawnHead = "**Withdrawn: do not use this release.** "

// Withdraw marks a published release as one that nobody should take, in the index and on its
// page. Its files stay. The error is as Publish's.
func Withdraw(ctx context.Context, at Place, name, why string, o Options) (Done, error) {
	d := Done{Name: name}
	x, err := readIndex(ctx, at)
	if err != nil {
		return d, err
	}
	h, public, err := at.look(ctx, name)
	if err != nil {
		return d, err
	}
	if !h.Public {
		return d, refuse(at.home(), "the index there names what is", "no release %s is published", name)
	}
	r := x.find(name)
	if r == nil {
		return d, refuse(at.home(), "publish its folders again: that adds it to the index, and changes no file",
			"the index does not name %s", name)
	}
	if r.Withdrawn == nil {
		r.Withdrawn = &bundle.Withdrawn{Date: o.Now.UTC().Truncate(time.Second), Why: why}
	} else if r.Withdrawn.Why != why {
		return d, refuse(at.home(), "its reason stays as it was told", "%s was withdrawn on %s: %s", name,
			r.Withdrawn.Date.Format(time.DateOnly), r.Withdrawn.Why)
	}
	if !strings.HasPrefix(h.Text, withdrawnHead) {
		text := withdrawnHead + patch.Printable(why) + "\n\n" + h.Text
		if err := at.mark(ctx, h, Page{Title: name + " (withdrawn)", Text: text, Withdrawn: true}); err != nil {
			return d, err
		}
	}
	d.Page, d.Index = at.page(name), at.home()
	if err := writeIndex(ctx, at, x, public, o.Now, "withdraw "+name); err != nil {
		return d, &NoIndex{name, true, err}
	}
	return d, nil
}

// index is bundle.Index with what is done to it here.
type index struct{ bundle.Index }

func (x *index) find(name string) *bundle.Release {
	for i := range x.Releases {
		if x.Releases[i].Name == name {
			return &x.Releases[i]
		}
	}
	return nil
}

// with is the index with a release, in the place of one by that name, whose date stays.
func (x *index) with(r bundle.Release) *index {
	if old := x.find(r.Name); old != nil {
		r.Date = old.Date
		*old = r
		return x
	}
	x.Releases = append(x.Releases, r)
	slices.SortStableFunc(x.Releases, func(a, b bundle.Release) int { return b.Date.Compare(a.Date) })
	return x
}

// withdrawn is the release of a set's name, or with an archive of its, that was withdrawn; nil: none was.
func (x *index) withdrawn(s *Set) *bundle.Release {
	if r := x.find(s.Name); r != nil && r.Withdrawn != nil {
		return r
	}
	for i, r := range x.Releases {
		if r.Withdrawn != nil && slices.ContainsFunc(r.Archives, func(a bundle.Archive) bool {
			return slices.ContainsFunc(s.Archives, func(b bundle.Archive) bool { return a.SHA256 == b.SHA256 })
		}) {
			return &x.Releases[i]
		}
	}
	return nil
}

func readIndex(ctx context.Context, at Place) (*index, error) {
	data, err := at.index(ctx)
	if err != nil || data == nil {
		return &index{}, err
	}
	x, err := bundle.ReadIndex(data)
	if err != nil {
		return nil, refuse(at.home(), "move that file away, or publish elsewhere", "%s there cannot be used: %w", indexFile,
			err)
	}
	return &index{x}, nil
}

// NoIndex says that what was done to a release is done, for all to see, and that the index does not say so.
type NoIndex struct {
	Name      string
	Withdrawn bool // it was withdrawn, not published
	Err       error
}

// Error names the release and the cause.
func (e *NoIndex) Error() string {
	if e.Withdrawn {
		return fmt.Sprintf("%s is withdrawn, as its page says, and the index was not written, so that it may offer it still: %v",
			e.Name, e.Err)
	}
	return fmt.Sprintf("%s is there as it should be, for all to see, and the index was not written: %v", e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *NoIndex) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *NoIndex) Hint() string {
	return "run the same command again: it changes no file of the release, and somebody may have published there meanwhile"
}

// writeIndex writes the index of what is public, and its pages.
func writeIndex(ctx context.Context, at Place, x *index, public []string, now time.Time, why string) error {
	x.Releases = slices.DeleteFunc(x.Releases, func(r bundle.Release) bool {
		return r.Withdrawn == nil && !slices.Contains(public, r.Name)
	})
	x.Schema, x.Date = bundle.IndexSchema, now.UTC().Truncate(time.Second)
	files, err := pages(x.Index)
	if err != nil {
		return err
	}
	return at.setIndex(ctx, files, why)
}
