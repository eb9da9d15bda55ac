package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/run"
)

// Program is one that was built for a tag.
type Program struct {
	Path     string
	Backends []string // libraries that it loads: the host's backend, where it is not in the program
}

// Model is a model that Ask can load.
type Model struct {
	path string
	dir  string // of a copy without weights; empty: the file itself
}

// Open makes a model ready whose header is h. A file that lacks weights gets a copy of its
// full length in a temporary folder, which has holes instead. The caller closes it.
func Open(path string, h *gguf.Header) (*Model, error) {
	if h.Missing == 0 {
		return &Model{path: path}, nil
	}
	dir, err := os.MkdirTemp("", "llpatch-dryrun-")
	if err != nil {
		return nil, err
	}
	copied, err := gguf.Sparse(path, dir)
	if err != nil {
		_ = os.RemoveAll(dir) // the error is the one that counts
		return nil, err
	}
	return &Model{path: copied, dir: dir}, nil
}

// Close removes what Open made.
func (m *Model) Close() error {
	if m.dir == "" {
		return nil
	}
	return os.RemoveAll(m.dir)
}

// defaultCard is a card that holds any model: where tensors go does not hang on its size.
const defaultCard = 1 << 40

// Ask lays a model out with o and a context of ctx tokens (0: what the model was trained for).
func (p Program) Ask(ctx context.Context, m *Model, o memory.NeedOptions, tokens int) (memory.Layout, error) {
	return p.ask(ctx, m, o, tokens, "card="+strconv.Itoa(defaultCard))
}

func (p Program) ask(
	ctx context.Context, m *Model, o memory.NeedOptions, tokens int, more ...string,
) (memory.Layout, error) {
	flash := "auto"
	switch {
	case o.NoFlash:
		flash = "off"
	case o.Flash:
		flash = "on"
	}
	argv := []string{
		p.Path, m.path, "ctx=" + strconv.Itoa(tokens), "batch=" + strconv.Itoa(max(2048, o.UBatch)),
		"ubatch=" + strconv.Itoa(o.UBatch), "parallel=" + strconv.Itoa(max(1, o.Parallel)),
		"ngl=" + strconv.Itoa(o.GPULayers),
		"kt=" + strings.ToLower(o.KeyType.String()), "vt=" + strings.ToLower(o.ValueType.String()), "flash=" + flash,
	}
	if len(p.Backends) > 0 {
		argv = append(argv, "backend="+strings.Join(p.Backends, ","))
	}
	var out, said bytes.Buffer
	err := run.Run(ctx, run.Cmd{
		Argv: append(argv, more...), Env: []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, Stdout: &out, Stderr: &said,
		Timeout: 10 * time.Minute,
	})
	if ctx.Err() != nil {
		return memory.Layout{}, context.Cause(ctx)
	}
	if err != nil {
		return memory.Layout{}, &Refused{Model: filepath.Base(m.path), Said: lastLine(said.String(), err), Err: err}
	}
	return parse(out.Bytes())
}

// lastLine is the line of a log that says why: the last with "error" in it, else the last.
func lastLine(log string, err error) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "error") || strings.Contains(lines[i], "ASSERT") {
			return lines[i]
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

// parse reads what the program writes.
func parse(b []byte) (memory.Layout, error) {
	var v struct {
		Cells   int `json:"n_ctx"`
		Devices []struct {
			Name string `json:"name"`
			memory.Place
		} `json:"devices"`
		Scratch struct{ K, V, Cells int64 } `json:"scratch"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return memory.Layout{}, fmt.Errorf("what the dry run says: %w", err)
	}
	l := memory.Layout{
		Cells: v.Cells, ScratchK: v.Scratch.K, ScratchV: v.Scratch.V, ScratchCells: v.Scratch.Cells,
	}
	if min(int64(v.Cells), v.Scratch.K, v.Scratch.V, v.Scratch.Cells) < 0 {
		return memory.Layout{}, fmt.Errorf("what the dry run says: less than nothing in %+v", v)
	}
	for _, d := range v.Devices {
		if d.Weights < 0 || d.Context < 0 || d.Compute < 0 {
			return memory.Layout{}, fmt.Errorf("what the dry run says: %s has less than nothing", d.Name)
		}
		if d.Name == "host" {
			l.Host = d.Place
		} else {
			l.Card = d.Place
		}
	}
	return l, nil
}
