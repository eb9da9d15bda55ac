//go:build unix

package bundle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPack packs and hashes what lies in the folder LLPATCH_BENCH_DIR, beside what others do with the same files:
// five rounds, each side first in turn. It logs the seconds, the processor's seconds and the bytes of each.
func BenchmarkPack(b *testing.B) {
	dir := os.Getenv("LLPATCH_BENCH_DIR")
	if dir == "" {
		b.Skip("LLPATCH_BENCH_DIR names no folder")
	}
	out := b.TempDir()
	sh := func(command string) func(string) error {
		return func(to string) error {
			text, err := exec.CommandContext(b.Context(), "sh", "-ec", command, "sh", dir, to).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, text)
			}
			return err
		}
	}
	when := time.Unix(1700000000, 0)
	sides := []struct {
		name string
		do   func(to string) error
	}{
		{"llpatch.tar.gz", func(to string) error { _, err := writeTarGz(b.Context(), to, dir, when); return err }},
		{"tar-pigz.tar.gz", sh(`tar -C "$1" -c . | pigz >"$2"; sha256sum "$2"`)},
		{"tar-gzip.tar.gz", sh(`tar -C "$1" -c . | gzip >"$2"; sha256sum "$2"`)},
		{"tar-zstd.tar.zst", sh(`tar -C "$1" -c . | zstd -q -f -T0 -o "$2"; sha256sum "$2"`)},
		{"llpatch.zip", func(to string) error { _, err := writeZip(b.Context(), to, dir, when); return err }},
		{"zip.zip", sh(`rm -f "$2"; cd "$1"; zip -q -r "$2" .; sha256sum "$2"`)},
	}
	if _, err := exec.LookPath("pigz"); err != nil {
		sides = slices.Delete(sides, 1, 2)
	}
	cpu := func() (all time.Duration) {
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var u syscall.Rusage
			if err := syscall.Getrusage(who, &u); err != nil {
				b.Fatal(err)
			}
			all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		return all
	}
	for b.Loop() {
		const rounds = 5
		took, used, size := map[string][]float64{}, map[string][]float64{}, map[string]int64{}
		for n := range rounds {
			order := slices.Clone(sides)
			if n%2 == 1 {
				slices.Reverse(order)
			}
			for _, side := range order {
				to := filepath.Join(out, side.name)
				began, before := time.Now(), cpu()
				if err := side.do(to); err != nil {
					b.Fatal(side.name, err)
				}
				took[side.name] = append(took[side.name], time.Since(began).Seconds())
				used[side.name] = append(used[side.name], (cpu() - before).Seconds())
				st, err := os.Stat(to)
				if err != nil {
					b.Fatal(err)
				}
				size[side.name] = st.Size()
			}
		}
		for _, side := range sides {
			b.Logf("%-16s %.2f s of CPU %.2f, %d bytes", side.name, took[side.name], used[side.name], size[side.name])
		}
	}
}
