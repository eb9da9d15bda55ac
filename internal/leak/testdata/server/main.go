// The llama-server of the tests: real HTTP, real memory. HELPER says what it does.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

func main() { os.Exit(serve(os.Getenv("HELPER"))) }

// touch takes memory that is really there.
func touch(n int) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
}

// serve is a llama-server as far as its interface goes. What it does to memory is
// told by the kind.
func serve(kind string) int {
	// Go collects nothing before 4 MiB are taken: some hundred requests of what is left
	// of each are a straight line, as a leak's is.
	debug.SetGCPercent(5)
	switch kind {
	case "silent, exits":
		return 0
	case "crashes":
		fmt.Println("error: failed to load model")
		return 1
	case "silent, hangs":
		time.Sleep(time.Minute)
	case "grows by itself":
		for range 60 {
			touch(256 << 10)
			time.Sleep(20 * time.Millisecond)
		}
		return 0
	}
	if kind == "hangs in shutdown" {
		signal.Ignore(syscall.SIGTERM)
	}
	if kind == "prompt cache" {
		fmt.Println("srv  load_model: prompt cache is enabled, size limit: 8192 MiB")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	var mu sync.Mutex
	var slot []int     // the cached prompt
	context, n := 0, 0 // the largest context so far, requests
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"default_generation_settings":{"n_ctx":4096}}`)
	})
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Prompt []int `json:"prompt"`
			Cache  bool  `json:"cache_prompt"`
			Slot   *int  `json:"id_slot"`
		}
		if json.NewDecoder(r.Body).Decode(&req) != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		common := 0
		for req.Cache && common < min(len(slot), len(req.Prompt)) && slot[common] == req.Prompt[common] {
			common++
		}
		slot = req.Prompt
		fresh := len(req.Prompt) - common
		switch kind {
		case "leaks by token":
			touch(fresh * 16 << 10)
		case "needs by token":
			if len(req.Prompt) > context {
				touch((len(req.Prompt) - context) * 16 << 10)
				context = len(req.Prompt)
			}
		case "leaks by request", "prompt cache":
			touch(256 << 10)
		case "answers 500":
			if n > 5 {
				http.Error(w, `{"error":"no slot"}`, http.StatusInternalServerError)
				return
			}
		case "never answers":
			<-r.Context().Done()
			return
		case "cuts":
			fmt.Fprint(w, "data: {\"content\":\"a\",\"stop\":false}\n\n")
			return
		case "dies", "dies soon":
			if n > 60 || kind == "dies soon" && n > 5 {
				fmt.Println("CUDA error: out of memory")
				os.Exit(1)
			}
			touch(2 << 20)
		}
		took := 8 * time.Millisecond
		if req.Cache { // a prefill is 96 requests: a busy machine is to look at each half of them
			took = 20 * time.Millisecond
		}
		time.Sleep(took)
		fmt.Fprintf(w, "data: {\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d}}\n\n", len(req.Prompt),
			common, len(req.Prompt))
		fmt.Fprintf(w, "data: {\"content\":\"a\",\"stop\":true,\"timings\":{\"prompt_n\":%d,\"predicted_n\":1}}\n\n", fresh)
	})
	fmt.Println("listening on", l.Addr())
	_ = (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l)
	return 0
}
