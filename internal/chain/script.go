package chain

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
// given, and the patches.
func Script(e Env, p Patched, at Site, plan build.Plan) (build.Script, error) {
	s := build.Script{Tree: p.Tree.ID(), Ref: "refs/tags/" + p.Tree.Tag.String()}
	if p.Tree.Tag.Kind() == tag.Commit {
		s.Ref = p.Tree.Tag.String()
	}
	if at.root != nil {
		var err error
		s.Temp = at.root.Temp()
		if s.Enter, err = at.root.Prefix(plan.Steps[0].Dir, plan.Folders()...); err != nil {
			return s, err
		}
	}
	for _, src := range e.Repo.Sources {
		if src.Kind == "git" && src.Upstream == p.Recipe.Upstream {
			s.URL = src.URL
			break
		}
	}
	if e.Source != "" {
		// A bundle or a tarball cannot be fetched from by a tag's name: the script then asks for a source.
		s.URL = ""
		if st, err := os.Stat(e.Source); err == nil && st.IsDir() {
			if s.URL, err = filepath.Abs(e.Source); err != nil {
				return s, err
			}
		} else if strings.Contains(e.Source, "://") && strings.HasSuffix(e.Source, ".git") {
			s.URL = e.Source
		}
	}
	for _, in := range p.Series.In {
		if held, all := p.Result.Held(in.Fix); held > 0 {
			return s, &spec.Error{
				File: path.Join("patches", in.Fix, "fix.toml"),
				Msg:  fmt.Sprintf("upstream has %d of the %d changes of %s on %s: git apply refuses the file; write a variant for this tag", held, all, merge.FileName(in), p.Tree.Tag),
			}
		}
		data, err := merge.Bytes(e.Repo.FS, in)
		if err != nil {
			return s, err
		}
		s.Patches = append(s.Patches, build.ScriptPatch{Name: merge.FileName(in), Data: data})
	}
	return s, nil
}

// BoxScript returns what a plan's PowerShell script needs: the files of the patched
// source, as they are written.
func BoxScript(p Patched) (build.BoxScript, error) {
	s := build.BoxScript{DiskMiB: p.Recipe.DiskMiB}
	entries, err := p.Result.Tree.Written(p.excluded())
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		s.Files = append(s.Files, build.SourceFile{Path: e.Path, Blob: e.Blob})
	}
	return s, nil
}
