package smoke

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/run"
)

// TestMain lets the test binary stand in for the programs of a build: it is
// linked under their names, and FAKE says how it misbehaves.
func TestMain(m *testing.M) {
	run.Supervise()
	switch name := filepath.Base(os.Args[0]); name {
	case "llama-server", "llama-simple":
		fakeServer(fakeMode())
	case "llama-bench":
		fakeBench(fakeMode())
	case "llama-results", "test-backend-ops", "llama-perplexity":
		fakeTool(name, fakeMode())
	case "smoke-runner":
		smokeRunner()
	case "fat-child":
		hold(atoi(os.Args[1]))
		fmt.Println("ready")
		time.Sleep(time.Minute)
	default:
		code := m.Run()
		if plain.dir != "" {
			_ = os.RemoveAll(plain.dir) // a leftover in the temporary folder
		}
		os.Exit(code)
	}
}

// plain is this test program without the race detector.
var plain struct {
	once sync.Once
	dir  string
	err  error
}

// fakeProgram is what stands in for the programs of a build: this test program,
// or under -race one that is not instrumented.
func fakeProgram() (string, error) {
	if !raced {
		return os.Executable()
	}
	plain.once.Do(func() {
		if plain.dir, plain.err = os.MkdirTemp("", "llpatch-smoke-"); plain.err != nil {
			return
		}
		out, err := exec.CommandContext(context.Background(), "go", "test", "-c", "-o", filepath.Join(plain.dir, "fake"),
			".").CombinedOutput()
		if err != nil {
			plain.err = fmt.Errorf("go test -c: %w: %s", err, out)
		}
	})
	return filepath.Join(plain.dir, "fake"), plain.err
}

// fakeMode is how the programs of a folder misbehave: as its file says, so that
// two builds in one run can differ, else as FAKE says.
func fakeMode() string {
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "mode")); err == nil {
		return string(b)
	}
	return os.Getenv("FAKE")
}

// fakeBuildOf is a folder of programs that misbehave in their own way.
func fakeBuildOf(tb testing.TB, mode string) string {
	tb.Helper()
	dir := fakeBuild(tb)
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte(mode), 0o644); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// fakeBuild returns a folder with the programs.
func fakeBuild(tb testing.TB) string {
	tb.Helper()
	self, err := fakeProgram()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	for _, name := range []string{
		"llama-server", "llama-simple", "llama-bench", "llama-results", "test-backend-ops",
		"llama-perplexity", "fat-child", "smoke-runner",
	} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// reusePort binds as llama-server's HTTP library does: two servers can have
// one port.
func reusePort(addr string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) {
			err = share(fd)
		})
		if cerr != nil {
			return cerr
		}
		return err
	}}
	return lc.Listen(context.Background(), "tcp", addr)
}

type fake struct {
	mode        string
	alias       string
	router      bool        // it was started with a folder of models
	routed      atomic.Bool // it started a server for one
	requests    atomic.Int32
	completions atomic.Int32
	tokenized   atomic.Int32
	draft       bool // it speculates
	starts      int  // how often a server has run in this HOME
	streamed    atomic.Bool
}

// fakeServer answers as llama-server does, apart from what the mode says.
func fakeServer(mode string) {
	fs := flag.NewFlagSet("llama-server", flag.ContinueOnError)
	host, port, alias := fs.String("host", "", ""), fs.String("port", "", ""), fs.String("alias", "", "")
	version := fs.Bool("version", false, "")
	help, devices := fs.Bool("help", false, ""), fs.Bool("list-devices", false, "")
	draft, kind := fs.String("model-draft", "", ""), fs.String("spec-type", "", "")
	fs.StringVar(draft, "spec-draft-model", "", "")
	for _, known := range []string{
		"ngl", "m", "b", "c", "np", "t", "tb", "cache-ram", "draft-max", "draft-p-min",
		"spec-ngram-size-n", "spec-ngram-size-m", "lora",
	} {
		fs.String(known, "", "")
	}
	fs.Bool("context-shift", false, "")
	models := fs.String("models-dir", "", "")
	hf, cert, key := fs.String("hf", "", ""), fs.String("ssl-cert-file", "", ""), fs.String("ssl-key-file", "", "")
	if mode == "hangs in silence" {
		time.Sleep(time.Hour)
	}
	if err := fs.Parse(os.Args[1:]); err != nil {
		os.Exit(1)
	}
	switch {
	case *version:
		text := "version: 8390 (b10e98a-llp1)"
		switch mode {
		case "new version":
			text = "version: 0.2.0-dev (build 8390, commit b10e98a-llp1)"
		case "other version":
			text = "version: 8391 (b10e98a-llp1)"
		case "no version":
			text = "llama"
		}
		fmt.Fprintf(os.Stderr, "load_backend: loaded CPU backend\n%s\nbuilt with GNU\n", text)
		if mode == "hangs at its end" || mode == "hangs now and then" && countStart() == 3 {
			time.Sleep(time.Hour)
		}
		return
	case *devices:
		fmt.Println("Available devices:\n  BLAS: OpenBLAS (0 MiB, 0 MiB free)")
		if mode != "no device" {
			fmt.Println("  CUDA0: NVIDIA GeForce RTX 3060 (12044 MiB, 11823 MiB free)")
		}
		return
	case *help:
		fmt.Println("-cram, --cache-ram N   set the maximum cache size")
		if mode == "drafts by type" { // as b9842 does
			fmt.Println("--spec-draft-model, -md, --model-draft FNAME\n--draft-max N\n--draft-p-min P\n--spec-type " +
				"none,draft-simple,ngram-simple")
			return
		}
		if mode != "no speculation" {
			fmt.Println("-md, --model-draft FNAME\n--draft-max N\n--draft-p-min P\n--spec-type " +
				"[none|ngram-simple]\n--spec-ngram-size-n N\n--spec-ngram-size-m N")
		}
		return
	}
	switch says, ok := strings.CutPrefix(mode, "says "); {
	case ok:
		fmt.Fprintln(os.Stderr, says)
		os.Exit(1)
	case mode == "ends well":
		return
	case mode == "killed":
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Kill() != nil {
			panic("it lives on")
		}
		time.Sleep(time.Hour)
	}
	if *models != "" { // it finds the one model there
		found, err := filepath.Glob(filepath.Join(*models, "*.gguf"))
		if err != nil || len(found) != 1 {
			panic(fmt.Sprint(found, err))
		}
		*alias = strings.TrimSuffix(filepath.Base(found[0]), ".gguf")
	}
	f := &fake{
		mode: mode, router: *models != "", alias: *alias, draft: *kind != "" || *draft != "" && mode != "drafts by type",
		starts: countStart(),
	}
	if mode == "starts once" && f.starts > 1 {
		fmt.Fprintln(os.Stderr, "lock file is there")
		os.Exit(1)
	}
	switch mode {
	case "silent":
		return
	case "crash on load":
		fmt.Fprintln(os.Stderr, "gguf_init_from_file: tensor data is not within the file bounds\nmain: exiting due to "+
			"model loading error")
		os.Exit(1)
	case "wait":
		// Lets the test take the port first.
		if err := os.WriteFile(os.Getenv("FAKE_PORT"), []byte(*port), 0o600); err != nil {
			panic(err)
		}
		for {
			if _, err := os.Stat(os.Getenv("FAKE_GO")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	case "fat":
		hold(64)
		child := filepath.Join(filepath.Dir(os.Args[0]), "fat-child")
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		if _, err := os.StartProcess(child, []string{child, "256"}, &os.ProcAttr{Files: []*os.File{nil, w}}); err != nil {
			panic(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != nil {
			panic(err)
		}
		time.Sleep(1500 * time.Millisecond) // children are looked for once a second
	}
	if *hf != "" {
		if err := fakeFetch(mode, *hf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	lib := filepath.Join(filepath.Dir(os.Args[0]), "libggml-cpu-haswell.so")
	if mode == "other library" {
		lib = filepath.Join(filepath.Dir(exe), "x", "libggml-cpu-haswell.so")
	}
	if mode != "quiet" {
		fmt.Fprintf(os.Stderr, "load_backend: loaded CPU backend from %s\n", lib)
	}
	l, err := reusePort(net.JoinHostPort(*host, *port))
	if err != nil {
		fmt.Fprintf(os.Stderr, "start: couldn't bind HTTP server socket, hostname: %s, port: %s\n", *host, *port)
		os.Exit(1)
	}
	debug.SetGCPercent(10) // its own memory is not to swing
	go f.signals()
	if *cert != "" && mode != "serves http" {
		panic(http.ServeTLS(l, f, *cert, *key))
	}
	panic(http.Serve(&watched{Listener: l, mode: mode}, f))
}

// signals ends as upstream does: an idle server at once with 0, one in the
// middle of a completion with 1 on the second SIGTERM.
func (f *fake) signals() {
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGTERM)
	n := 0
	for range got {
		n++
		switch {
		case f.mode == "ignores sigterm", f.mode == "stuck when busy" && f.streamed.Load():
		case f.mode == "needs two sigterms" && n < 2:
		case f.mode == "busy until second" && f.streamed.Load() && n < 2:
		case f.mode == "exit 3":
			os.Exit(3)
		case n > 1:
			os.Exit(1)
		default:
			os.Exit(0)
		}
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in fakeRequest
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil && f.mode != "takes anything" {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := in.read(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	reply := func(v any) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(err)
		}
	}
	loading := f.mode == "never ready" || f.mode == "slow" && f.requests.Add(1) <= 3
	switch {
	case f.mode == "never answers":
		time.Sleep(time.Minute)
	case loading:
		w.WriteHeader(http.StatusServiceUnavailable)
		reply(map[string]any{"error": map[string]any{"code": 503, "message": "Loading model"}})
	case r.URL.Path == "/health":
		switch f.mode {
		case "health garbage":
			fmt.Fprint(w, "<p>hello")
		case "health 404":
			w.WriteHeader(http.StatusNotFound)
		default:
			reply(map[string]string{"status": "ok"})
		}
	case r.URL.Path == "/v1/models":
		alias := f.alias
		if f.mode == "other alias" {
			alias = "gpt"
		}
		status := "unloaded"
		if f.routed.Load() {
			status = "loaded"
		}
		reply(map[string]any{"data": []any{map[string]any{"id": alias, "status": map[string]string{"value": status}}}})
	case serveFakePage(f.mode, r.URL.Path, w):
	case r.URL.Path == "/tokenize":
		if f.mode == "deaf in a crowd" && f.tokenized.Add(1) > 50 {
			time.Sleep(time.Minute)
		}
		tokens := gguf.Encode(in.Content)
		if f.mode == "other tokens" && len(tokens) > 40 {
			tokens[40]++
		}
		reply(map[string]any{"tokens": tokens})
	case r.URL.Path == "/detokenize":
		reply(map[string]any{"content": decode(in.Tokens, f.mode)})
	case r.URL.Path == "/completion" && f.router && f.mode == "starts no child":
		w.WriteHeader(http.StatusInternalServerError)
		reply(map[string]any{"error": map[string]any{"code": 500, "message": "Insufficient system resources"}})
	case r.URL.Path == "/completion" && f.mode == "router ends" && f.requests.Add(1) > 5:
		os.Exit(0)
	case r.URL.Path == "/completion" && f.router && in.Model != f.alias:
		http.Error(w, "model not found", http.StatusBadRequest)
	case r.URL.Path == "/completion":
		f.routed.Store(f.router && f.mode != "answers by itself")
		f.complete(w, r, &in)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// decode is the inverse of gguf.Encode.
func decode(tokens []int, mode string) string {
	var b []byte
	for _, id := range tokens {
		switch {
		case id >= 3+256:
			b = append(b, byte(' '+id-3-256))
		case mode != "loses bytes":
			b = append(b, byte(id-3))
		}
	}
	return string(b)
}
