package smoke

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
)

func (f *fake) complete(w http.ResponseWriter, r *http.Request, in *fakeRequest) {
	nth := f.completions.Add(1)
	n, stream := in.N, in.Stream
	text := strings.Repeat("lorem ipsum ", n/12+1)[:n]
	evaluated := in.evaluated
	f.leak()
	if says, ok := strings.CutPrefix(f.mode, "malformed: "); ok && in.Discard != 0 {
		if says == "500" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(os.Stderr, says)
		os.Exit(1)
	}
	if in.Grammar == "" {
		f.greedy(w, in)
		return
	}
	switch f.mode {
	case "answers by start":
		text = strings.Repeat(string(rune('a'+f.starts)), n)
	case "dies after a while":
		if nth > 20 {
			fmt.Fprintln(os.Stderr, "GGML_ASSERT(slots) failed")
			os.Exit(134)
		}
	case "changes its mind":
		if nth > 30 {
			text = strings.Repeat("y", n)
		}
	case "miscounts a long prompt":
		evaluated += evaluated / 300
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"code":500,"message":"invalid UTF-8"}}`)
		return
	case "garbage":
		fmt.Fprint(w, "\x00\x01 no json")
		return
	case "cut":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"content":"lor`)
		return
	case "dies":
		fmt.Fprintln(os.Stderr, "GGML_ASSERT(x) failed")
		os.Exit(134)
	case "hangs in a completion":
		<-r.Context().Done()
		return
	case "two answers":
		if nth == 2 {
			text = strings.Repeat("x", n)
		}
	case "out of grammar":
		text = "L" + text[1:]
	case "too short":
		text, n = text[:n-1], n-1
	case "miscounts the prompt":
		evaluated--
	case "streams another":
		if stream {
			text = strings.Repeat("z", n)
		}
	}
	final := map[string]any{
		"content": "", "tokens": []int{}, "stop": true, "tokens_predicted": n, "tokens_evaluated": evaluated,
		"timings": map[string]any{"prompt_n": evaluated},
	}
	if !stream {
		final["content"], final["tokens"] = text, gguf.Encode(text)
		b, err := json.Marshal(final)
		if err != nil {
			panic(err)
		}
		if _, err := w.Write(b); err != nil {
			return
		}
		return
	}
	f.streamed.Store(true)
	out := http.NewResponseController(w)
	event := func(v any) bool {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, err = fmt.Fprintf(w, "data: %s\n\n", b)
		return err == nil && out.Flush() == nil
	}
	if in.Progress && f.mode != "no progress" {
		for at := 0; at < in.evaluated; at = min(at+64, in.evaluated) {
			told, total := at+min(64, in.evaluated-at), in.evaluated
			switch {
			case f.mode == "goes back" && at >= 128:
				told = 64
			case f.mode == "other total":
				total++
			case f.mode == "keeps tokens":
				leak(64 * 4096)
			}
			if !event(map[string]any{
				"content": "", "tokens": []int{}, "stop": false,
				"prompt_progress": map[string]int{"total": total, "processed": told},
			}) {
				return
			}
			if f.mode == "half of its progress" && at > 500 {
				_, _ = io.WriteString(w, `data: {"content":"","prompt_pro`)
				return
			}
			time.Sleep(8 * time.Millisecond)
		}
	}
	for i := range n {
		if i == 3 {
			switch f.mode {
			case "half a chunk":
				_, _ = io.WriteString(w, `data: {"content":"l","to`)
				_ = out.Flush()
				panic(http.ErrAbortHandler)
			case "clean half a chunk":
				_, _ = io.WriteString(w, `data: {"content":"l","to`)
				return
			case "no final chunk":
				return
			case "error chunk":
				event(map[string]any{"error": map[string]any{"code": 500}})
				return
			case "no event":
				_, _ = io.WriteString(w, "hello\n\n")
			}
		}
		if !event(map[string]any{"content": text[i : i+1], "tokens": gguf.Encode(text[i : i+1]), "stop": false}) {
			return
		}
		if n > 1000 {
			time.Sleep(time.Millisecond)
		}
	}
	event(final)
	if f.mode == "goes on" {
		event(final)
	}
}

func fakeBench(mode string) {
	row := func(p, n int, speed float64) {
		fmt.Printf(`{"build_number":8390,"build_commit":"b10e98a-llp1","n_prompt":%d,"n_gen":%d,"avg_ts":%g}`+"\n", p, n,
			speed)
	}
	switch mode {
	case "bench fails":
		fmt.Fprintln(os.Stderr, "failed to create context")
		os.Exit(1)
	case "bench garbage":
		fmt.Println("| model | t/s |")
	case "bench stands":
		row(64, 0, 0)
	case "bench stops":
		row(64, 0, 1000)
	case "bench hangs":
		time.Sleep(time.Minute)
	default:
		row(64, 0, 1000)
		row(0, 16, 100)
	}
}
