package evidence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/report"
	"github.com/llpatch/llpatch/internal/run"
)

// machine reads what the machine is; what it does not tell stays empty.
func machine(env []string, h *hider) Machine {
	out := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Boot: boot()}
	var kib int64
	out.Kernel, out.CPU, kib = run.Machine()
	out.Memory = kib >> 10
	telling := map[string]string{}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		if tellingRE.MatchString(k) {
			telling[k] = v
		}
	}
	out.Env = h.env(telling)
	return out
}

const factLimit = time.Minute // a first start loads gigabytes of libraries

// card asks nvidia-smi for the cards. A machine that does not tell something gets
// a note.
func (r *recorder) card(ctx context.Context) {
	res := r.res
	switch {
	case r.o.State != "":
		res.Card = "simulated device"
		return
	case r.o.Source != "nvidia-smi":
		res.Card = "none"
		if r.o.Source != "" {
			res.Card = "not asked (" + r.o.Source + ")"
		}
		return
	}
	ask := func(args ...string) (string, error) { return r.nvidiaSMI(ctx, args...) }
	names, err := ask("--query-gpu=name", "--format=csv,noheader")
	if err != nil {
		r.note("nvidia-smi does not name the card: " + firstLine(err.Error()))
		names = "unknown"
	}
	res.Card = cardNames(names)
	if drivers, err := ask("--query-gpu=driver_version", "--format=csv,noheader"); err == nil {
		res.Driver = short(firstLine(drivers))
	} else {
		r.note("nvidia-smi does not tell the driver's version: " + firstLine(err.Error()))
	}
	page, err := ask()
	if _, rest, ok := strings.Cut(page, "CUDA Version:"); ok {
		if f := strings.Fields(rest); len(f) > 0 {
			res.CUDA = short(f[0])
		}
	}
	switch {
	case res.CUDA != "":
	case err != nil:
		r.note("nvidia-smi does not tell the CUDA version: " + firstLine(err.Error()))
	default:
		r.note("nvidia-smi does not tell the CUDA version")
	}
}

func (r *recorder) nvidiaSMI(ctx context.Context, args ...string) (string, error) {
	out, err := run.Output(ctx, run.Cmd{Argv: append([]string{"nvidia-smi"}, args...), Env: r.o.Env, Timeout: factLimit})
	if errors.Is(err, run.ErrNotFound) {
		err = errors.New("it is not on the PATH") // which is nobody's business
	}
	return strings.TrimSpace(string(out)), err
}

// maxCards is how many cards a record names: more of one machine are hardly made,
// and a tool that prints garbage prints more lines.
const maxCards = 16

// cardNames joins the lines of nvidia-smi, one a card.
func cardNames(out string) string {
	var names []string
	for line := range strings.Lines(out) {
		if len(names) == maxCards {
			names = append(names, "…")
			break
		}
		if n := short(line); n != "" {
			names = append(names, n)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "unknown")
}

// short is what a tool says in a word or a few: what cannot be printed is left out,
// and what is too long for a name or a version is cut.
func short(s string) string {
	const most = 80
	s = squeeze(s)
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + " …"
	}
	return s
}

// squeeze puts a text on one line, a blank for all that cannot be printed.
func squeeze(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(report.Printable(s), "\n", " ")), " ")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// built hashes what is in a build's folder.
func (r *recorder) built(ctx context.Context, b Build) (Built, error) {
	out := Built{Dir: "{" + b.Name + "}", Env: r.hide.env(b.Env), Note: r.hide.text(b.Note), SHA256: map[string]string{}}
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		return out, fmt.Errorf("build %s: %w", b.Name, err)
	}
	for _, e := range entries {
		name := filepath.Join(b.Dir, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			if to, err := os.Readlink(name); err == nil {
				out.SHA256[e.Name()] = "-> " + r.hide.text(to)
			}
			continue
		}
		if !e.Type().IsRegular() {
			continue
		}
		sum, err := hashBinary(ctx, name)
		if err != nil {
			return out, fmt.Errorf("build %s: %w", b.Name, err)
		}
		if sum != "" {
			out.SHA256[e.Name()] = sum
		}
	}
	for _, dir := range []string{b.Dir, filepath.Dir(b.Dir)} {
		if data, err := os.ReadFile(filepath.Join(dir, "BUILD_INFO.json")); err == nil && json.Valid(data) {
			if info := r.hide.text(string(data)); json.Valid([]byte(info)) {
				out.Info = json.RawMessage(info)
			}
			break
		}
	}
	out.Version = r.version(ctx, b)
	out.Patches, err = r.patches(ctx, b, out.Info)
	return out, err
}

// hashBinary returns the SHA-256 of a program or library, and "" for other files.
func hashBinary(ctx context.Context, name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	head = head[:n]
	if err != nil && n < 2 {
		return "", nil
	}
	isBinary := bytes.HasPrefix(head, []byte("\x7fELF")) || bytes.HasPrefix(head, []byte("MZ")) ||
		bytes.HasPrefix(head, []byte("\xcf\xfa\xed\xfe"))
	if !isBinary && st.Mode()&0o111 == 0 {
		return "", nil
	}
	return regular.Sum(ctx, name)
}

// version asks the first program that is there and tells one.
func (r *recorder) version(ctx context.Context, b Build) string {
	for _, name := range []string{llamaServer, "llama-cli"} {
		path := filepath.Join(b.Dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		var out bytes.Buffer
		env := maps.Clone(b.Env)
		for k, v := range env {
			env[k] = strings.ReplaceAll(v, "{build}", b.Dir)
		}
		err := run.Run(ctx, run.Cmd{
			Argv: []string{path, "--version"}, Env: r.environ(env), Dir: b.Dir, Stdout: &out,
			Timeout: factLimit,
		})
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "version:") {
				return r.hide.text(strings.TrimSpace(line))
			}
		}
		r.note(fmt.Sprintf("%s of build %s tells no version (%s)", name, b.Name, r.hide.text(firstLine(fmt.Sprint(err)))))
		return ""
	}
	return ""
}

// environ is the caller's environment with changes, each variable once: a program
// may take the first of two, or the last.
func (r *recorder) environ(changes ...map[string]string) []string {
	var env []string
	for _, e := range r.o.Env {
		k, _, _ := strings.Cut(e, "=")
		if !slices.ContainsFunc(changes, func(m map[string]string) bool { _, ok := m[k]; return ok }) {
			env = append(env, e)
		}
	}
	merged := merge(changes...)
	for _, k := range slices.Sorted(maps.Keys(merged)) {
		env = append(env, k+"="+merged[k])
	}
	return env
}

// merge lets the later maps win.
func merge(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// hashInputs records the files that a command line names, such as models.
func (r *recorder) hashInputs(ctx context.Context, words []string) {
	for _, w := range words {
		if _, v, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "-") {
			w = v
		}
		for _, name := range strings.Split(w, ":") { // as LD_PRELOAD has them
			if !filepath.IsAbs(name) && !strings.HasSuffix(name, ".gguf") || r.hashed[name] {
				continue
			}
			st, err := os.Stat(name)
			if err != nil || !st.Mode().IsRegular() {
				continue
			}
			r.hashed[name] = true
			sum, err := regular.Sum(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				r.note("an input has no hash: " + r.hide.text(err.Error()))
				continue
			}
			key := r.hide.text(name)
			for i := 2; r.res.Inputs[key] != ""; i++ { // of another folder
				key = fmt.Sprintf("%s#%d", r.hide.text(name), i)
			}
			r.res.Inputs[key] = sum
		}
	}
}
