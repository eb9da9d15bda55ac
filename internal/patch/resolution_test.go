package patch

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llpatch/llpatch/internal/exit"
)

func TestResolutionRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		base, ours, theirs := randomMerge(r)
		_, _, merged := randomMerge(r)
		if seed%10 == 0 {
			merged = theirs
		}
		rs := NewResolution("fix", "dir/a b.c", base, ours, theirs, merged)
		back, err := ParseResolution("resolutions/"+rs.Name(), rs.Encode())
		if err != nil || back != rs {
			t.Fatalf("seed %d: read back %+v, %v, want %+v", seed, back, err, rs)
		}
		got, err := back.apply("x", theirs)
		if err != nil || !bytes.Equal(got, merged) {
			t.Fatalf("seed %d: gives %q, %v, want %q", seed, got, err, merged)
		}
		if string(theirs) != "other\n" {
			if _, err := back.apply("x", []byte("other\n")); err == nil {
				t.Fatalf("seed %d: applied to another blob", seed)
			}
		}
	}
}

// TestResolutionForConflict takes a person's answer where no merge is clean, and
// only for the same three blobs.
func TestResolutionForConflict(t *testing.T) {
	_, c := readWay(t, "testdata/threeway/other-answer.txtar")
	_, mail := newWay(t, c)
	ps, err := Parse("fix", "x.patch", mail)
	if err != nil {
		t.Fatal(err)
	}
	data := func(tr string) []byte { return c.trees[tr]["f.c"].Data }
	answer := bytes.Replace(data("target"), []byte("6 + 2"), []byte("6 + 3"), 1)
	o := MergeOptions{
		Resolutions: loadAll(t, []Resolution{NewResolution("fix", "f.c", data("base"), data("ours"), data("target"),
			answer)}),
		Git: FindGit(os.Getenv("PATH")), // which would refuse, and is not asked
	}
	m, err := ThreeWay(t.Context(), &ps[0], tree(t, c.trees["base"]), tree(t, c.trees["target"]), o)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := m.Result.Tree.Read("f.c"); err != nil || !bytes.Equal(f.Data, answer) || m.Files[0].Resolution == "" {
		t.Errorf("got %q, %v, %+v", f.Data, err, m.Files)
	}
	if _, err := m.Variant(mail); err != nil {
		t.Error(err)
	}
	next := c.trees["target"]
	f := next["f.c"]
	f.Data = append([]byte("// newer\n"), f.Data...)
	next["f.c"] = f
	m, err = ThreeWay(t.Context(), &ps[0], tree(t, c.trees["base"]), tree(t, next), o)
	if m == nil || m.Result != nil || err == nil || conflictKinds(t, err)[0] != BothChanged {
		t.Errorf("taken for other blobs: %+v, %v", m, err)
	}
}

func TestLoadResolutionsRefuses(t *testing.T) {
	r := NewResolution("fix", "f.c", []byte("a\nb\nc\n"), []byte("a\nx\nc\n"), []byte("a\nb\nc\nd\n"),
		[]byte("a\nx\nc\nd\n"))
	good := string(r.Encode())
	for name, tc := range map[string]struct{ file, text, want string }{
		"empty":             {text: "", want: "not a resolution"},
		"newer form":        {text: strings.Replace(good, "resolution 1", "resolution 2", 1), want: "not a resolution"},
		"cut in the header": {text: good[:80], want: ":"},
		"cut in the diff":   {text: good[:len(good)-4], want: ""},
		"no diff":           {text: good[:strings.Index(good, "diff --git")], want: "its diff does not begin"},
		"other name":        {file: strings.Repeat("0", 64), text: good, want: "one of the two was changed"},
		"other blob": {
			text: strings.Replace(good, "Ours: "+r.Ours, "Ours: "+r.Base, 1),
			want: "one of the two was changed",
		},
		"no blob id": {text: strings.Replace(good, "Base: "+r.Base, "Base: xyz", 1), want: "not a blob id"},
		"path in the diff": {
			text: strings.Replace(good, "+++ b/file", "+++ b/../../etc/passwd", 1),
			want: "its diff does not begin",
		},
		"another file": {text: good + "diff --git a/g b/g\nnew file mode 100644\nindex 0000000..1111111\n--- " +
			"/dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n", want: ""},
		"stray file": {file: "notes.txt", text: "hello\n", want: "not a resolution"},
		"CR LF":      {text: strings.ReplaceAll(good, "\n", "\r\n"), want: "not a resolution"},
		"other text": {text: strings.Replace(good, "+x", "+y", 1), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file == "" {
				tc.file = r.Name()
			}
			dir := fstest.MapFS{"resolutions/" + tc.file: {Data: []byte(tc.text)}}
			rs, err := LoadResolutions(dir)
			if err == nil {
				// What a header cannot show comes out when it is used.
				_, err = rs[r.Name()].apply("resolutions/"+tc.file, []byte("a\nb\nc\nd\n"))
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.file) {
				t.Errorf("got %v", err)
			}
			if exit.Code(err) != exit.Declaration || exit.Hint(err) == "" {
				t.Errorf("it ends with %d, hint %q: %v", exit.Code(err), exit.Hint(err), err)
			}
		})
	}
	if rs, err := LoadResolutions(fstest.MapFS{}); err != nil || len(rs) != 0 {
		t.Errorf("no folder: %v, %v", rs, err)
	}
}
