package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/source"
)

// benchSeries makes a tree the size of upstream's and a series the size of the
// largest known fork's: 36 patches, three hunks each, all off their line.
func benchSeries(b *testing.B) (*source.Tree, [][]byte) {
	b.Helper()
	lines := func(file, n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("    call(%d, %d); // %s\n", file, i, strings.Repeat("x", i%40))
			if i%3 == 0 {
				out[i] = "}\n"
			}
		}
		return out
	}
	files := map[string]source.File{}
	for i := range 2600 {
		files[fmt.Sprintf("dir%d/file%d.cpp", i%60, i)] = file(fmt.Sprintf("file %d\n", i))
	}
	var patches [][]byte
	for i := range 36 {
		path := fmt.Sprintf("ggml/src/big%d.cu", i%6)
		old := lines(i%6, 5000)
		// The tree has forty lines more at the top than what the patch was made from.
		files[path] = file(strings.Repeat("// new upstream\n", 40) + strings.Join(old, ""))
		var b strings.Builder
		fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n", path)
		for h := range 3 {
			at := 100 + (i/6)*700 + h*200
			fmt.Fprintf(&b, "@@ -%d,6 +%d,7 @@\n", at+1, at+1+h)
			for k, l := range old[at : at+6] {
				if k == 3 {
					fmt.Fprintf(&b, "+    patched(%d, %d);\n", i, h)
				}
				b.WriteString(" " + l)
			}
		}
		patches = append(patches, []byte(b.String()))
	}
	return tree(b, files), patches
}

func BenchmarkApply36(b *testing.B) {
	base, patches := benchSeries(b)
	var series []Patch
	for i, p := range patches {
		ps, err := Parse("fix", fmt.Sprintf("p%d", i), p)
		if err != nil {
			b.Fatal(err)
		}
		series = append(series, ps...)
	}
	b.ReportAllocs()
	for b.Loop() {
		res, err := Apply(base, series)
		if err != nil {
			b.Fatal(err)
		}
		if len(res.Placements) != 108 {
			b.Fatalf("%d placements", len(res.Placements))
		}
	}
}

func BenchmarkParse36(b *testing.B) {
	_, patches := benchSeries(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range patches {
			if _, err := Parse("fix", "p", p); err != nil {
				b.Fatal(err)
			}
		}
	}
}
