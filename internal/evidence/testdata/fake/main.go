// The llama-bench and llama-server of the tests, by the name that it is called by:
// real output, real HTTP, real memory. FAKE says what is wrong with it.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if filepath.Base(os.Args[0]) == "llama-bench" {
		os.Exit(bench())
	}
	os.Exit(serve())
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
	case "no line end":
		fmt.Fprint(os.Stderr, "last words")
		return 3
	case "abort":
		if own, err := os.FindProcess(os.Getpid()); err == nil {
			_ = own.Kill()
		}
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

// serve answers as llama-server does. Its tokens follow from the prompt.
func serve() int {
	if slices.Contains(os.Args, "--version") {
		if dir, ok := strings.CutPrefix(os.Getenv("FAKE"), "needs "); ok && dir != filepath.Dir(os.Args[0]) {
			return 1
		}
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
		time.Sleep(15 * time.Millisecond) // memory is looked at beside the requests, also on a busy machine
		debug.FreeOSMemory()              // a heap that has yet to be collected would pass for growth
		ids := make([]int, req.N)
		for i := range ids {
			ids[i] = req.Prompt[i%len(req.Prompt)] + i
		}
		content, predictedMS := "x", "20"
		switch fake {
		case "no tokens":
			content, ids = "", nil
		case "no time":
			predictedMS = "1e-320"
		case "ages":
			predictedMS = "1e300"
		}
		if fake == "other" && n == 2 {
			ids[len(ids)-1]++
		}
		tokens := strings.ReplaceAll(fmt.Sprint(ids), " ", ",")
		fmt.Fprintf(w, `{"content":%q,"tokens":%s,"timings":{"prompt_n":%d,"prompt_ms":10,"predicted_n":%d,"predicted_ms":%s}}`,
			content, tokens, len(req.Prompt), len(ids), predictedMS)
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
