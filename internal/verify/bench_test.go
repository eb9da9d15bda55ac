package verify

import (
	"os"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// BenchmarkSet verifies a signed release whose libraries have in them what the files of the folder LLPATCH_BENCH_DIR
// have: docs/performance.md says which.
func BenchmarkSet(b *testing.B) {
	dir := os.Getenv("LLPATCH_BENCH_DIR")
	if dir == "" {
		b.Skip("LLPATCH_BENCH_DIR names no folder")
	}
	var inside []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		inside = append(inside, dir+"/"+e.Name())
	}
	for _, format := range []string{spec.TarGz, spec.Zip} {
		k, public := newKey(b)
		archive := release(b, b.TempDir(), "b8833", format, &k, inside...)
		st, err := os.Stat(archive)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(format, func(b *testing.B) {
			for b.Loop() {
				if err := one(b.Context(), b, archive, Options{Key: public, Version: "test", Expect: "b8833"}).Err(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(st.Size())/1e6, "MB")
		})
	}
}
