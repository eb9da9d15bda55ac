package patch

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

var (
	mirror     = flag.String("mirror", "", "a git repository with llama.cpp's history, for TestMergeHistory")
	mirrorRuns = flag.Int("mirror-cells", 300, "how many merges of each kind TestMergeHistory tries")
)

// TestMergeHistory merges versions of real files: an edit of our own, or
// upstream's change between two later tags, over what upstream did since. It
// needs -mirror, because the history is too large for this repository.
func TestMergeHistory(t *testing.T) {
	if *mirror == "" {
		t.Skip("needs -mirror PATH, a git repository with llama.cpp's history")
	}
	gitIn := func(args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", *mirror}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	var tags []string
	for _, name := range strings.Fields(string(gitIn("for-each-ref", "--format=%(refname:strip=2)", "refs/tags/b*"))) {
		if n, err := strconv.Atoi(name[1:]); err == nil && n > 3000 {
			tags = append(tags, name)
		}
	}
	number := func(s string) int { n, _ := strconv.Atoi(s[1:]); return n }
	slices.SortFunc(tags, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	files := []string{
		"ggml/src/ggml-cuda/ggml-cuda.cu", "ggml/src/ggml-cuda/common.cuh", "ggml/src/ggml.c", "ggml/src/ggml-backend.cpp",
		"src/llama-context.cpp", "src/llama-model.cpp", "src/llama.cpp", "common/arg.cpp", "common/common.cpp",
		"CMakeLists.txt",
		"ggml/src/ggml-vulkan/ggml-vulkan.cpp", "tools/server/server.cpp", "ggml/CMakeLists.txt", "convert_hf_to_gguf.py",
		"include/llama.h",
	}
	read := map[string][]byte{}
	file := func(tag, path string) []byte {
		key := tag + ":" + path
		if _, ok := read[key]; !ok {
			out, err := exec.CommandContext(t.Context(), "git", "-C", *mirror, "cat-file", "blob", "refs/tags/"+key).Output()
			if err != nil {
				out = nil
			}
			read[key] = out
		}
		return read[key]
	}
	dir := t.TempDir()
	for _, kind := range []string{"our edit", "upstream's change"} {
		t.Run(kind, func(t *testing.T) {
			a := agreement{count: map[string]int{}}
			r := rand.New(rand.NewPCG(11, 11))
			for n := 0; n < *mirrorRuns; {
				path := files[r.IntN(len(files))]
				i := r.IntN(len(tags) - 1)
				j := min(len(tags)-1, i+1+r.IntN(200))
				base, theirs := file(tags[i], path), file(tags[j], path)
				if base == nil || theirs == nil || bytes.Equal(base, theirs) {
					continue
				}
				var ours []byte
				if kind == "our edit" {
					ours = editReal(r, base)
				} else {
					// As a backport: later work, without what came in between.
					k := min(len(tags)-1, j+1+r.IntN(100))
					later := file(tags[k], path)
					if later == nil || bytes.Equal(later, theirs) {
						continue
					}
					base, theirs, ours = theirs, base, later
				}
				n++
				a.judge(t, fmt.Sprintf("%s %s..%s", path, tags[i], tags[j]), dir, base, ours, theirs)
			}
			t.Log(*mirrorRuns, "merges:", a.count)
		})
	}
}

// TestThreeWayHistory takes upstream's own commits back to older tags, and tries
// that every merge can be written as a patch which gives the same tree.
func TestThreeWayHistory(t *testing.T) {
	if *mirror == "" {
		t.Skip("needs -mirror PATH, a git repository with llama.cpp's history")
	}
	gitIn := func(args ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), "git", append([]string{"-C", *mirror, "-c", "core.abbrev=40"},
			args...)...).Output()
	}
	out, err := gitIn("rev-list", "--first-parent", "--max-count=5000", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	commits := strings.Fields(string(out))
	r := rand.New(rand.NewPCG(12, 12))
	count := map[string]int{}
	o := MergeOptions{Git: FindGit(os.Getenv("PATH"))}
	files := func(rev string, paths []string) *source.Tree {
		out := map[string]source.File{}
		for _, p := range paths {
			entry, err := gitIn("ls-tree", rev, "--", ":(literal)"+p)
			if err != nil || len(entry) == 0 {
				continue
			}
			f := strings.Fields(string(entry))
			mode, err := strconv.ParseUint(f[0], 8, 32)
			if err != nil {
				t.Fatal(err)
			}
			data, err := gitIn("cat-file", "blob", f[2])
			if err != nil {
				return nil
			}
			out[p] = source.File{Mode: source.Mode(mode), Data: data}
		}
		return tree(t, out)
	}
	for n := 0; n < *mirrorRuns; {
		i := r.IntN(len(commits) - 400)
		mail, err := gitIn("format-patch", "-1", "--stdout", "--full-index", commits[i])
		if err != nil {
			continue
		}
		ps, err := Parse("fix", "x.patch", mail)
		if err != nil || len(ps) != 1 {
			continue
		}
		base, target := files(commits[i+1], ps[0].Paths()), files(commits[i+2+r.IntN(300)], ps[0].Paths())
		if base == nil || target == nil {
			continue
		}
		n++
		m, err := ThreeWay(t.Context(), &ps[0], base, target, o)
		switch {
		case m == nil:
			t.Errorf("%s: %v", commits[i], err)
			continue
		case err != nil:
			kinds := conflictKinds(t, err)
			count["conflict: "+string(kinds[0])]++
			if slices.Contains(kinds, AmongEqual) {
				t.Logf("%s: %s", commits[i], describeMerge(m, err))
			}
			if slices.Contains(kinds, GitDisagrees) {
				t.Errorf("%s: %v", commits[i], err)
			}
			continue
		case len(m.Files) == 0:
			count["placed"]++
			continue
		}
		if m.Result.Tree.ID() == target.ID() {
			count["landed"]++ // a commit that comes back after a revert
			continue
		}
		count["merged"]++
		if _, err := m.Variant(mail); err != nil {
			t.Errorf("%s: %v", commits[i], err)
		}
	}
	t.Log(count)
}

// editReal changes up to three places of a file, as a small fix would.
func editReal(r *rand.Rand, base []byte) []byte {
	lines := strings.SplitAfter(string(base), "\n")
	for range 1 + r.IntN(3) {
		at := r.IntN(len(lines))
		gone := min(r.IntN(4), len(lines)-at)
		var added []string
		for range r.IntN(5) {
			switch from := lines[r.IntN(len(lines))]; r.IntN(3) {
			case 0:
				added = append(added, from)
			default:
				added = append(added, "    llpatch("+strconv.Itoa(r.IntN(1000))+");\n")
			}
		}
		lines = slices.Concat(lines[:at], added, lines[at+gone:])
	}
	return []byte(strings.Join(lines, ""))
}
