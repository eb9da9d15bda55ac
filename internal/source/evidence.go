package source

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// checkPin reports what makes a pin one that recipes/tags.lock could not be
// read with again, nil where nothing does.
func checkPin(t tag.Tag, p spec.Pin) error {
	// RFC 3339, and so JSON, has four digits for the year.
	if year := p.Time.UTC().Year(); year > 9999 {
		return fmt.Errorf("it cannot be pinned: its time is in the year %d", year)
	}
	if err := p.Check(t.String()); err != nil {
		return fmt.Errorf("it cannot be pinned: %w", err)
	}
	return nil
}

// unproven says that nothing tells which tag a tree is, and how to vouch for it.
func unproven(upstream string, t tag.Tag, p spec.Pin) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return fmt.Errorf("nothing in it proves that it is %s, and the tag is not pinned in recipes/tags.lock; if you know "+
		"that it is, write under %q there:\n    %q: %s",
		t, upstream, t.String(), line)
}

// otherTag says that a source is some other tag than the one asked for.
func otherTag(is, asked tag.Tag) error { return fmt.Errorf("it is %s, not %s", is, asked) }

// release parses the name of a release, b8390 or v0.5.0; a commit's id is none.
func release(name string) (tag.Tag, bool) {
	t, err := tag.Parse(name)
	return t, err == nil && t.Kind() != tag.Commit
}

// tagOfFolder is the tag that the top folder of an archive names, as GitHub's
// do: llama.cpp-b8390.
func tagOfFolder(top string) tag.Tag {
	if i := strings.LastIndexByte(top, '-'); i >= 0 {
		if t, ok := release(top[i+1:]); ok {
			return t
		}
	}
	return tag.Tag{}
}

// npmInfo is the name of the file beside the bundle of an npm package that says
// which release is in there.
const npmInfo = "llama.cpp.info.json"

// tagOfInfo reads that file; one that says nothing gives no tag.
func tagOfInfo(r io.Reader) tag.Tag {
	var info struct{ Tag string }
	if json.NewDecoder(io.LimitReader(r, 64<<10)).Decode(&info) == nil {
		if t, ok := release(info.Tag); ok {
			return t
		}
	}
	return tag.Tag{}
}

// infoOf is the path of the info file of a bundle.
func infoOf(bundle string) string { return path.Join(path.Dir(bundle), npmInfo) }
