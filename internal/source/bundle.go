package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/tag"
)

const (
	maxBundleHeader = 1 << 20 // bytes: all tags and branches of upstream take 200 KiB
	maxBundleLine   = 4 << 10 // bytes: a path that git takes is shorter
)

// bundleRef is a ref that a git bundle holds.
type bundleRef struct {
	id   plumbing.Hash
	name string
}

var bundleLine = regexp.MustCompile(`^(-?)([0-9a-f]{40})(?: (.*))?$`)

// readBundleHeader reads the header of a git bundle (gitformat-bundle, versions
// 2 and 3), after which r stands at the pack. A bundle that needs commits it does
// not hold is refused.
func readBundleHeader(r *bufio.Reader) ([]bundleRef, error) {
	left := maxBundleHeader
	line := func() (string, error) {
		b, err := r.ReadSlice('\n')
		left -= len(b)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(b) > maxBundleLine || left < 0:
			return "", errors.New("bundle header is too long")
		case err != nil:
			return "", fmt.Errorf("bundle header: %w", cutOff(err))
		}
		return string(b[:len(b)-1]), nil
	}
	first, err := line()
	if err != nil {
		return nil, err
	}
	if first != "# v2 git bundle" && first != "# v3 git bundle" {
		return nil, errors.New("it is not a git bundle of version 2 or 3")
	}
	var refs []bundleRef
	for {
		l, err := line()
		if err != nil {
			return nil, err
		}
		if l == "" {
			break
		}
		if l == "@object-format=sha1" && strings.Contains(first, "v3") {
			continue
		}
		m := bundleLine.FindStringSubmatch(l)
		switch {
		case m == nil:
			return nil, fmt.Errorf("bundle header: line %q is not known", l)
		case m[1] == "-":
			return nil, fmt.Errorf("the bundle is not complete: it needs commit %s", m[2])
		case m[3] == "":
			return nil, fmt.Errorf("bundle header: %s has no name", m[2])
		}
		refs = append(refs, bundleRef{id: plumbing.NewHash(m[2]), name: m[3]})
	}
	if len(refs) == 0 {
		return nil, errors.New("the bundle holds no ref")
	}
	return refs, nil
}

// pickRef chooses the ref that is the tag: the one of that name, else the only
// one there is, which may say that it is another tag. HEAD may stand beside it.
func pickRef(refs []bundleRef, t tag.Tag) (bundleRef, error) {
	ids := map[plumbing.Hash]bool{}
	for _, r := range refs {
		if r.name == "refs/tags/"+t.String() {
			return r, nil
		}
		ids[r.id] = true
	}
	if len(ids) > 1 {
		return bundleRef{}, fmt.Errorf("the bundle holds %d refs, and refs/tags/%s is not one of them", len(refs), t)
	}
	for _, r := range refs {
		if r.tag() != (tag.Tag{}) {
			return r, nil
		}
	}
	return refs[0], nil
}

// tag is the release that the ref says it is, zero where it says none.
func (r bundleRef) tag() tag.Tag {
	if name, ok := strings.CutPrefix(r.name, "refs/tags/"); ok {
		if t, ok := release(name); ok {
			return t
		}
	}
	return tag.Tag{}
}

// addBundle reads a whole bundle into s and returns what its commit says. The
// commit itself is not upstream's where a release was squashed into one, so it
// is not reported; its tree and its time are.
func (s *scratch) addBundle(ctx context.Context, in io.Reader, t tag.Tag) (found, error) {
	r := bufio.NewReaderSize(in, 64<<10)
	refs, err := readBundleHeader(r)
	if err != nil {
		return found{}, err
	}
	ref, err := pickRef(refs, t)
	if err != nil {
		return found{}, err
	}
	if err := s.addPack(ctx, r); err != nil {
		return found{}, err
	}
	st := s.store()
	rd, err := st.acquire()
	if err != nil {
		return found{}, err
	}
	defer func() { _ = rd.close() }() // only read from
	c, err := rd.peel(ref.id.String())
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", ref.name, err)
	}
	pin := pinOf(c)
	pin.Commit = ""
	return found{pin: pin, tells: ref.tag()}, nil
}

// fromBundle takes the tree from a bundle file.
func (f *fetcher) fromBundle(ctx context.Context, path string, t tag.Tag, w want) (*Tree, error) {
	if !w.numbered(t) {
		return nil, errNoBuild(t, "a bundle")
	}
	return f.intoCache(ctx, t, w, func(ctx context.Context, s *scratch) (found, error) {
		file, err := regular.Open(path)
		if err != nil {
			return found{}, err
		}
		defer func() { _ = file.Close() }() // only read from
		got, err := s.addBundle(ctx, file, t)
		if err != nil {
			return found{}, fmt.Errorf("%s: %w", path, err)
		}
		return got, nil
	})
}
