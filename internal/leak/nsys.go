package leak

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// Call is how often a function of CUDA was called.
type Call struct {
	Name string `json:"name"`
	N    int64  `json:"n"`
}

// statsPatience is how long nsys may turn a capture into its summary: it writes all
// of it to a database first.
const statsPatience = 10 * time.Minute

// Names of the summaries of nsys stats: before 2023.1 they had no underscores.
var (
	apiSum  = []string{"cuda_api_sum", "cudaapisum"}
	sizeSum = []string{"cuda_gpu_mem_size_sum", "gpumemsizesum"}
)

// readNsys finds the capture, and reads the summary that nsys makes of it. Where there
// is a capture and no summary, a note says why: the capture is what was asked for.
func readNsys(ctx context.Context, o Options, dir string, log []byte) (Finding, error) {
	var files []string
	for _, ext := range []string{"nsys-rep", "qdrep"} { // before 2021.4 it was a qdrep
		if st, err := os.Stat(filepath.Join(dir, "nsys."+ext)); err == nil && st.Size() > 0 {
			files = append(files, filepath.Join(dir, "nsys."+ext))
		}
	}
	if len(files) == 0 {
		return Finding{}, noCapture(dir, log)
	}
	f := Finding{Files: files, Notes: []string{"open the capture in Nsight Systems: CUDA HW, Memory usage; it judges " +
		"nothing by itself"}}
	if err := f.summary(ctx, o, dir); err != nil {
		if ctx.Err() != nil {
			return Finding{}, ctx.Err()
		}
		f.Notes = append(f.Notes, "there is a capture, but no summary of it: "+err.Error())
	}
	return f, nil
}

// noCapture says why nsys left no capture, as far as it told.
func noCapture(dir string, log []byte) error {
	why := "it wrote no report"
	if fileThere(filepath.Join(dir, "nsys.nsys-rep")) || fileThere(filepath.Join(dir, "nsys.qdrep")) {
		why = "the report that it wrote is empty"
	}
	for line := range strings.Lines(string(log)) {
		if _, said, ok := strings.Cut(line, "Importer error status: "); ok {
			why += ": " + strings.TrimSpace(said)
		}
	}
	if raw := filepath.Join(dir, "nsys.qdstrm"); fileThere(raw) {
		why += "; what it recorded is in " + raw +
			", which another Nsight Systems of the same version, with all of its parts (package nsight-systems), can import"
	}
	return errors.New(why)
}

func fileThere(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// summary lets nsys count the calls, and what was copied.
func (f *Finding) summary(ctx context.Context, o Options, dir string) error {
	stats := func(args ...string) ([]byte, error) {
		return run.Output(ctx, run.Cmd{
			Argv: append([]string{"nsys", "stats"}, args...), Env: o.Env, Timeout: statsPatience,
			Grace: time.Second,
		})
	}
	list, err := stats("--help-reports") // 2022.4 lists them and ends with 1
	api, size := firstListed(list, apiSum), firstListed(list, sizeSum)
	if api == "" {
		return errors.Join(fmt.Errorf("this nsys has no report %s", strings.Join(apiSum, " or ")), err)
	}
	reports := slices.DeleteFunc([]string{api, size}, func(r string) bool { return r == "" })
	base := filepath.Join(dir, "nsys")
	if _, err := stats("--report", strings.Join(reports, ","), "--format", "csv", "--output", base,
		f.Files[0]); err != nil {
		return err
	}
	for _, r := range reports {
		b, err := os.ReadFile(base + "_" + r + ".csv")
		if err != nil {
			return fmt.Errorf("it wrote no %s: %w", r, err)
		}
		count := "Num Calls"
		if r == size {
			count = "Count"
		}
		rows, err := parseNsys(b, count)
		if err != nil {
			return fmt.Errorf("its %s: %w", r, err)
		}
		if r == api {
			f.Calls = rows
		} else {
			f.Moved = rows
		}
	}
	return nil
}

// firstListed returns the first of the names that nsys stats --help-reports lists, each
// at the beginning of a line.
func firstListed(list []byte, names []string) string {
	for _, n := range names {
		for line := range strings.Lines(string(list)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line)+" ", " ")
			if name, _, _ = strings.Cut(name, "["); name == n {
				return n
			}
		}
	}
	return ""
}

// parseNsys reads a summary of nsys stats as CSV: a row a function (its column Name) or
// a kind of copy (Operation), with how often it happened. It is empty where the capture
// has nothing of the kind.
func parseNsys(b []byte, count string) ([]Call, error) {
	r := csv.NewReader(bytes.NewReader(b))
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("it is no table: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	name := max(slices.Index(rows[0], "Name"), slices.Index(rows[0], "Operation"))
	n := slices.Index(rows[0], count)
	if name < 0 || n < 0 {
		return nil, fmt.Errorf("it has no columns %s and Name, but %q", count, rows[0])
	}
	var out []Call
	for _, row := range rows[1:] {
		times, err := strconv.ParseInt(row[n], 10, 62)
		if err != nil || times < 0 || row[name] == "" {
			return nil, fmt.Errorf("a row that cannot be read: %q", row)
		}
		out = append(out, Call{row[name], times})
	}
	return out, nil
}

// balances are the calls that take something, and those that give it back, by the
// beginning of their names: what follows is a version, or a variant.
var balances = []struct {
	what        string
	take, spare []string
}{
	{
		"device memory",
		[]string{"cudaMalloc", "cuMemAlloc", "cuMemCreate"},
		[]string{"cudaFree", "cuMemFree", "cuMemRelease"},
	},
	{
		"pinned host memory",
		[]string{"cudaMallocHost", "cudaHostAlloc", "cuMemAllocHost", "cuMemHostAlloc"},
		[]string{"cudaFreeHost", "cuMemFreeHost"},
	},
	{
		"graphs",
		[]string{"cudaGraphInstantiate", "cuGraphInstantiate"},
		[]string{"cudaGraphExecDestroy", "cuGraphExecDestroy"},
	},
}

// nsysEvidence tells what the calls add up to.
func (f *Finding) nsysEvidence() []string {
	out := []string{"nsys: a capture was made: " + f.Files[0]}
	took, gave := make([]int64, len(balances)), make([]int64, len(balances))
	for _, c := range f.Calls {
		// The longest name that fits decides: cudaMallocHost is no cudaMalloc.
		best, sum := "", (*int64)(nil)
		for i, b := range balances {
			for _, side := range []struct {
				names []string
				sum   *int64
			}{{b.take, &took[i]}, {b.spare, &gave[i]}} {
				for _, p := range side.names {
					if strings.HasPrefix(c.Name, p) && len(p) > len(best) {
						best, sum = p, side.sum
					}
				}
			}
		}
		// cudaMallocArray takes device memory, cudaFreeArray gives it; a mem pool's or
		// a virtual address' own calls match nothing.
		if sum != nil {
			*sum = add(*sum, c.N)
		}
	}
	for i, b := range balances {
		if took[i] > 0 || gave[i] > 0 {
			out = append(out, fmt.Sprintf("nsys: calls that take %s: %d, that give it back: %d", b.what, took[i], gave[i]))
		}
	}
	for _, m := range f.Moved {
		out = append(out, fmt.Sprintf("nsys: %s %d times", m.Name, m.N))
	}
	if len(f.Calls) == 0 && len(f.Notes) < 2 {
		out = append(out, "nsys: no call of CUDA is in the capture")
	}
	return out
}
