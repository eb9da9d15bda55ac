package evidence

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// The builds of the tests hold links to this test binary, which is the program
// whose name it is called by. FAKE says what is wrong with it.
func TestMain(m *testing.M) {
	run.Supervise()
	switch filepath.Base(os.Args[0]) {
	case llamaBench:
		os.Exit(bench())
	case llamaServer:
		os.Exit(serveFake())
	}
	os.Exit(m.Run())
}

func bench() int {
	fmt.Fprintln(os.Stderr, "load_backend: loaded from", os.Args[0])
	switch os.Getenv("FAKE") {
	case "crash":
		fmt.Println("[")
		return 3
	case "hang":
		time.Sleep(time.Minute)
	case "silent":
		return 0
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	}
	time.Sleep(100 * time.Millisecond) // long enough to be looked at
	speed := 1000.0
	if os.Getenv("FAKE") == "slow" {
		speed = 900
	}
	if !slices.Contains(os.Args, "json") {
		return 4
	}
	fmt.Println("========= COMPUTE-SANITIZER")
	fmt.Printf(`[{"n_prompt":512,"n_gen":0,"n_depth":0,"avg_ts":%g,"samples_ts":[%[1]g]},
{"n_prompt":0,"n_gen":16,"n_depth":0,"avg_ts":50,"samples_ts":[50]}]
`, speed)
	fmt.Println("========= ERROR SUMMARY: 0 errors")
	return 0
}

// serveFake answers as llama-server does. Its tokens follow from the prompt.
func serveFake() int {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("load_backend: loaded")
		fmt.Println("version: 8390 (abc)")
		return 0
	}
	fake := os.Getenv("FAKE")
	if fake == "no model" {
		fmt.Println("error: failed to load model")
		return 1
	}
	addr := ""
	for i, a := range os.Args {
		if a == "--port" {
			addr = "127.0.0.1:" + os.Args[i+1]
		}
	}
	fmt.Println("graphs: 7 of 8, max 8")
	var mu sync.Mutex
	var kept [][]byte
	n := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if fake == "never ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, `{"status":"ok"}`)
	})
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Prompt  []int  `json:"prompt"`
			N       int    `json:"n_predict"`
			Grammar string `json:"grammar"`
		}
		if json.NewDecoder(r.Body).Decode(&req) != nil || len(req.Prompt) == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		switch {
		case fake == "dies" && n == 6:
			os.Exit(139)
		case fake == "refuses" && n == 6:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"error":"no"}`)
			return
		case fake == "no UTF-8" && req.Grammar == "":
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"error":{"message":"invalid UTF-8 byte"}}`)
			return
		case fake == "grows":
			b := make([]byte, 512<<10)
			for i := range b {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		time.Sleep(2 * time.Millisecond)
		ids := make([]int, req.N)
		for i := range ids {
			ids[i] = req.Prompt[i%len(req.Prompt)] + i
		}
		if fake == "other" && n == 2 {
			ids[len(ids)-1]++
		}
		tokens := strings.ReplaceAll(fmt.Sprint(ids), " ", ",")
		fmt.Fprintf(w, `{"content":"x","tokens":%s,"timings":{"prompt_n":%d,"prompt_ms":10,"predicted_n":%d,"predicted_ms":20}}`,
			tokens, len(req.Prompt), len(ids))
	})
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	s := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		<-term
		s.Close()
	}()
	_ = s.ListenAndServe()
	return 0
}

// builds makes a folder with the builds' folders in it, each with both programs.
func builds(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, b := range names {
		if err := os.Mkdir(filepath.Join(dir, b), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{llamaBench, llamaServer} {
			if err := os.Symlink(self, filepath.Join(dir, b, p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, b, "libggml.so"), []byte("\x7fELF "+b), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, b, "notes.txt"), []byte("no program"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const twoBuilds = `
what = "a test"
[[build]]
name = "stock"
dir = "{B}/stock"
[[build]]
name = "ours"
dir = "{B}/ours"
`

func plan(t *testing.T, dir, text string) Options {
	t.Helper()
	vars := map[string]string{"B": dir}
	p, err := ParsePlan("plan.toml", []byte(twoBuilds+text), vars)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Plan: p, Vars: vars, Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0"), Work: t.TempDir(),
		Out: filepath.Join(dir, "out.json"), Command: []string{"llpatch", "evidence", dir + "/plan.toml"}, Version: "test",
	}
}

// record runs a plan, reads the file back, and makes sure that it says nothing of
// this machine's folders.
func record(t *testing.T, o Options) (*Result, error) {
	t.Helper()
	_, err := Record(t.Context(), o)
	data, rerr := os.ReadFile(o.Out)
	if rerr != nil {
		t.Fatalf("%v; %v", rerr, err)
	}
	for _, hidden := range []string{filepath.Dir(o.Plan.Builds[0].Dir), o.Work, os.TempDir() + "/"} {
		if i := strings.Index(string(data), hidden); i >= 0 {
			t.Errorf("the record has %s: %s", hidden, data[max(0, i-80):min(len(data), i+160)])
		}
	}
	res, perr := Parse(data)
	if perr != nil {
		t.Fatal(perr)
	}
	return res, err
}
