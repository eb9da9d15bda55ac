package compat

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// contentsMax bounds the contents that are kept, in bytes. Neighbouring tags
// share most files, so those of a few tags are enough; what was dropped is read
// or made again.
const contentsMax = 32 << 20

// contents gives file contents by blob id: from the repository, or as a patch
// made them. Several goroutines may use it at once; each has a way of its own
// into the repository.
type contents struct {
	*sharedContents
	objects *source.Objects
}

type sharedContents struct {
	mu    sync.Mutex
	size  int
	order *list.List // of *content, the one used last in front
	byID  map[plumbing.Hash]*list.Element
	base  map[plumbing.Hash]bool // blobs of the tags themselves
	from  map[plumbing.Hash]recipe
}

type content struct {
	id   plumbing.Hash
	data []byte
}

// recipe is how a blob that no repository has is made again.
type recipe struct {
	u       *unit
	entries []entry
	base    *base // nil: it is no merge
	merging *merging
}

func newSharedContents() *sharedContents {
	return &sharedContents{
		order: list.New(), byID: map[plumbing.Hash]*list.Element{},
		base: map[plumbing.Hash]bool{}, from: map[plumbing.Hash]recipe{},
	}
}

// get returns a blob's content, which must not be changed.
func (c *contents) get(id plumbing.Hash) ([]byte, error) {
	c.mu.Lock()
	if at := c.byID[id]; at != nil {
		c.order.MoveToFront(at)
		data := at.Value.(*content).data
		c.mu.Unlock()
		return data, nil
	}
	r, made := c.from[id]
	c.mu.Unlock()
	if made {
		return c.again(id, r)
	}
	kind, data, err := c.objects.Read(id.String())
	if err != nil {
		return nil, err
	}
	if kind != "blob" {
		return nil, fmt.Errorf("object %s is a %s, not a file's content", id, kind)
	}
	c.put(id, data)
	return data, nil
}

// again makes a blob as its recipe says.
func (c *contents) again(id plumbing.Hash, r recipe) ([]byte, error) {
	files, err := r.files(c)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f != nil && blobID(f.Data) == id {
			c.put(id, f.Data)
			return f.Data, nil
		}
	}
	return nil, fmt.Errorf("%s of %s does not make blob %s again: remove the cache folder", r.u.variant.File, r.u.paths,
		id)
}

// files returns what the recipe's unit makes of its files.
func (r recipe) files(c *contents) (map[string]*source.File, error) {
	if r.base == nil {
		j, err := r.u.apply(r.entries, c)
		if err != nil {
			return nil, err
		}
		return j.Files, nil
	}
	// Git has agreed when it was made first, so no program runs that would have to be stopped.
	_, after, _, err := r.u.merge(context.Background(), r.entries, r.base, c,
		patch.MergeOptions{Resolutions: r.merging.o.Resolutions})
	if err != nil {
		return nil, err
	}
	out := map[string]*source.File{}
	for k, e := range r.entries {
		if is, ok := after.Stat(r.u.paths[k]); !ok || is.Blob == e.ID.String() {
			continue
		}
		f, err := after.Read(r.u.paths[k])
		if err != nil {
			return nil, err
		}
		out[r.u.paths[k]] = &f
	}
	return out, nil
}

// made keeps what a unit made, and how.
func (c *contents) made(id plumbing.Hash, data []byte, r recipe) {
	c.remember(id, r)
	c.put(id, data)
}

// remember notes how a blob is made, unless the tags have it. What it is made
// from must be known already, and the first recipe stays: so none leads in a circle.
func (c *sharedContents) remember(id plumbing.Hash, r recipe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.from[id]; !ok && !c.base[id] {
		c.from[id] = r
	}
}

// add notes the blobs of the tags.
func (c *sharedContents) add(rows []row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rows {
		for i := range r {
			if r[i].there() {
				c.base[r[i].ID] = true
			}
		}
	}
}

func (c *sharedContents) put(id plumbing.Hash, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[id] != nil || len(data) > contentsMax/4 {
		return
	}
	c.byID[id] = c.order.PushFront(&content{id, data})
	for c.size += len(data); c.size > contentsMax; {
		last := c.order.Back()
		old := c.order.Remove(last).(*content)
		delete(c.byID, old.id)
		c.size -= len(old.data)
	}
}
