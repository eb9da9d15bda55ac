package chain

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/merge"
	"github.com/llpatch/llpatch/internal/tag"
)

// Script returns what a plan's script needs to make the source by itself: the
// first git source that is declared for the upstream, or the one that was
// given, and the patches.
func Script(e Workspace, p Prepared, plan build.Plan) (build.Script, error) {
	s := build.Script{Tree: p.Tree.ID(), Ref: "refs/tags/" + p.Tree.Tag.String()}
	if p.Tree.Tag.Kind() == tag.Commit {
		s.Ref = p.Tree.Tag.String()
	}
	if p.Site.root != nil {
		var err error
		s.Temp = p.Site.root.Temp()
		if s.Enter, err = p.Site.root.Prefix(plan.Steps[0].Dir, plan.Folders()...); err != nil {
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
	files, err := p.applied(e).Whole("git apply refuses the file")
	for i, data := range files {
		s.Patches = append(s.Patches, build.ScriptPatch{Name: merge.FileName(p.Series.In[i]), Data: data})
	}
	return s, err
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
