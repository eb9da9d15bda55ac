package spec_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/llpatch/llpatch"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// A tree is of the upstream whose mark it has; of one without marks where it has
// none. The marks are those that llpatch itself declares.
func TestCheckTree(t *testing.T) {
	own, err := spec.Load(llpatch.Declarations)
	if err != nil {
		t.Fatal(err)
	}
	both := &spec.Repo{Marks: map[string][]string{spec.LlamaCpp: {"src/main"}, spec.IkLlamaCpp: {"iqk"}}}
	for _, c := range []struct {
		repo     *spec.Repo
		upstream string
		tree     []string
		is, want string // want "": it passes
	}{
		{own, spec.LlamaCpp, []string{"ggml/src"}, "", ""},
		{own, spec.IkLlamaCpp, []string{"ggml/src", "ggml/src/iqk"}, "", ""},
		{own, spec.IkLlamaCpp, []string{"iqk_mul_mat.cpp"}, "", ""},
		{own, spec.LlamaCpp, []string{"ggml/src/iqk"}, spec.IkLlamaCpp, "is of ik_llama.cpp, whose mark ggml/src/iqk its " +
			"tree has, and llama.cpp was asked for; llpatch fetch " + ikOld +
			" --upstream ik_llama.cpp fetches it; targets that build ik_llama.cpp: ik-linux-cpu"},
		{own, spec.IkLlamaCpp, []string{"ggml/src"}, "", "is not ik_llama.cpp's: its tree has no ggml/src/iqk and no " +
			"iqk_mul_mat.cpp, which marks one (recipes/sources.toml); if it is llama.cpp's, llpatch fetch " + ikOld +
			" --upstream llama.cpp fetches it; targets that build llama.cpp: linux-cpu"},
		{both, spec.LlamaCpp, []string{"src/main", "iqk"}, "", ""},
		{both, spec.LlamaCpp, []string{"iqk"}, spec.IkLlamaCpp, "is of ik_llama.cpp"},
		{both, spec.IkLlamaCpp, []string{"src/main"}, spec.LlamaCpp, "is of llama.cpp"},
		{&spec.Repo{}, spec.IkLlamaCpp, nil, "", ""},
	} {
		err := c.repo.CheckTree(c.upstream, tag.MustParse(ikOld), func(p string) bool { return slices.Contains(c.tree, p) })
		if c.want == "" {
			if err != nil {
				t.Errorf("%s with %v: %v", c.upstream, c.tree, err)
			}
			continue
		}
		wrong := new(spec.WrongUpstream)
		if !errors.As(err, &wrong) || wrong.Is != c.is || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, want %q", c.upstream, c.tree, err, c.want)
		}
	}
}

func TestLockLine(t *testing.T) {
	data, err := fs.ReadFile(llpatch.Declarations, spec.LockFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{spec.LlamaCpp, spec.IkLlamaCpp} {
		for _, name := range []string{"b8390", ikOld} {
			line := spec.LockLine(data, upstream, name)
			if (line > 0) != ((upstream == spec.LlamaCpp) == (name == "b8390")) {
				t.Errorf("%s %s: line %d", upstream, name, line)
			}
			if line > 0 && !strings.HasPrefix(strings.Split(string(data), "\n")[line-1], `    "`+name+`": {`) {
				t.Errorf("%s %s: line %d is another's", upstream, name, line)
			}
		}
	}
	for text, want := range map[string]int{
		// formatted in another way
		`{"a": {"x": {"commit": "x"}},` + "\n" + `"b": {"y": {"tree": "z"},` + "\n" + `"x": {}}}`: 3,
		`{"b": {"y": {"x": {}}}, "x": 1}`: 0,
		`{"b": {"y"`:                      0,
		``:                                0,
	} {
		if line := spec.LockLine([]byte(text), "b", "x"); line != want {
			t.Errorf("%s: line %d, want %d", text, line, want)
		}
	}
}
