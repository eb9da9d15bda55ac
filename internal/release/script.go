package release

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// Script returns what a plan's script needs to make the source by itself: the
// first git source that is declared for the upstream, or the one that was
// given, and the patches. p is the plan.
func (c *Chain) Script(p build.Plan) (build.Script, error) {
	s := build.Script{Tree: c.Tree.ID(), Ref: "refs/tags/" + c.Tree.Tag.String()}
	if c.Tree.Tag.Kind() == tag.Commit {
		s.Ref = c.Tree.Tag.String()
	}
	if c.root != nil {
		var err error
		s.Temp = c.root.Temp()
		if s.Enter, err = c.root.Prefix(p.Steps[0].Dir, p.Folders()...); err != nil {
			return s, err
		}
	}
	for _, src := range c.Repo.Sources {
		if src.Kind == "git" && src.Upstream == c.Recipe.Upstream {
			s.URL = src.URL
			break
		}
	}
	if c.Source != "" {
		// A bundle or a tarball cannot be fetched from by a tag's name: the script then asks for a source.
		s.URL = ""
		if st, err := os.Stat(c.Source); err == nil && st.IsDir() {
			if s.URL, err = filepath.Abs(c.Source); err != nil {
				return s, err
			}
		} else if strings.Contains(c.Source, "://") && strings.HasSuffix(c.Source, ".git") {
			s.URL = c.Source
		}
	}
	for _, in := range c.Series.In {
		if held, all := c.Patched.Held(in.Fix); held > 0 {
			return s, &spec.Error{
				File: path.Join("patches", in.Fix, "fix.toml"),
				Msg:  fmt.Sprintf("upstream has %d of the %d changes of %s on %s: git apply refuses the file; write a variant for this tag", held, all, merge.FileName(in), c.Tree.Tag),
			}
		}
		data, err := merge.Bytes(c.Repo.FS, in)
		if err != nil {
			return s, err
		}
		s.Patches = append(s.Patches, build.ScriptPatch{Name: merge.FileName(in), Data: data})
	}
	return s, nil
}
