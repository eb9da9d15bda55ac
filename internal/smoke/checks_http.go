package smoke

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/sim"
)

// config reads the arguments that every check with a server takes: model (f16
// q8_0 or q4_0) and args (more options for the server).
func (a *args) config() func(context.Context, *session) (config, error) {
	typ, more := a.modelType(), a.list("args", nil)
	return func(ctx context.Context, s *session) (config, error) {
		path, err := s.model(ctx, typ, 0)
		return config{model: path, args: more, typ: typ}, err
	}
}

// onServer is the step of a check that asks a running server.
func onServer(a *args, ask func(context.Context, *server) (outcome, error)) step {
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		srv, err := s.need(ctx, c)
		if err != nil {
			return outcome{}, err
		}
		return ask(ctx, srv)
	}
}

// healthCheck: the server is ready within a time (Options.Ready), answers only
// 503 until then, and ok after.
func healthCheck(a *args) step {
	within := a.duration("within", 0)
	cfg := a.config()
	return func(ctx context.Context, s *session) (outcome, error) {
		c, err := cfg(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		within := cmp.Or(within, s.o.Ready)
		c.ready = within
		srv, err := s.need(ctx, c)
		if err != nil {
			return outcome{}, err
		}
		if srv.ready > within {
			return outcome{}, srv.fault("ready after %v; the limit is %v", srv.ready.Round(time.Millisecond), within)
		}
		status, body, err := srv.call(ctx, http.MethodGet, "/health", nil)
		if err != nil {
			return outcome{}, srv.fault("GET /health: %v", err)
		}
		var health struct{ Status string }
		if err := json.Unmarshal(body, &health); err != nil || status != http.StatusOK || health.Status != "ok" {
			return outcome{}, srv.fault("GET /health gave %d with %s", status, llamaserver.Quote(body))
		}
		return outcome{
			detail:  fmt.Sprintf("ready after %v", srv.ready.Round(100*time.Microsecond)),
			figures: map[string]any{"ready_seconds": seconds(srv.ready), "answers_503": srv.busy},
		}, nil
	}
}

// texts are what tokenizeCheck sends: scripts of two, three and four bytes a
// character, combining and invisible ones, and every printable ASCII character.
var texts = []string{
	"",
	"a",
	"  two blanks before,  between and after  ",
	"line\nline\r\n\ttab \\ \"quoted\" </s> <0x41>",
	"Grüße, naïve café; Привет; 日本語; עברית; العربية",
	"e\u0301 \u200b\u200d \ufeff \U0001f469\u200d\U0001f4bb \U0001d11e \U0010ffff",
	printable(),
	strings.Repeat("A long line, again and again. ", 100),
}

func printable() string {
	var b strings.Builder
	for c := ' '; c <= '~'; c++ {
		b.WriteRune(c)
	}
	return b.String()
}

// tokenizeCheck: /tokenize gives exactly the tokens that the model's vocabulary
// means, and /detokenize gives back the text.
func tokenizeCheck(a *args) step {
	return onServer(a, func(ctx context.Context, srv *server) (outcome, error) {
		total := 0
		for _, text := range texts {
			var got struct{ Tokens []int }
			// parse_special is off: "</s>" is text here.
			req := map[string]any{"content": text, "add_special": false, "parse_special": false}
			if err := srv.ask(ctx, "/tokenize", req, &got); err != nil {
				return outcome{}, err
			}
			if want := gguf.Encode(text); !slices.Equal(got.Tokens, want) {
				return outcome{}, srv.fault("POST /tokenize makes %s the tokens %v, want %v", llamaserver.Quote([]byte(text)),
					got.Tokens, want)
			}
			var back struct{ Content *string }
			if err := srv.ask(ctx, "/detokenize", map[string]any{"tokens": gguf.Encode(text)}, &back); err != nil {
				return outcome{}, err
			}
			if back.Content == nil || *back.Content != text {
				got := "no content"
				if back.Content != nil {
					got = llamaserver.Quote([]byte(*back.Content))
				}
				return outcome{}, srv.fault("POST /detokenize gives %s, want %s", got, llamaserver.Quote([]byte(text)))
			}
			total += len(got.Tokens)
		}
		return outcome{
			detail:  "texts come back as they went",
			figures: map[string]any{"texts": len(texts), "tokens": total},
		}, nil
	})
}

// loadedBackend is what ggml-backend-reg.cpp logs for a backend from a library.
var loadedBackend = regexp.MustCompile(`load_backend: loaded (\S+) backend from (.+?)\r?\n`)

// variantsCheck: the server chose one of the build's backend libraries at run
// time, as its log or its memory says. backend is the name it must have (CPU); one_of lists
// the libraries that may be chosen, by the end of their names without .so.
func variantsCheck(a *args) step {
	backend, oneOf := a.text("backend", "CPU"), a.list("one_of", nil)
	return onServer(a, func(_ context.Context, srv *server) (outcome, error) {
		log, err := os.ReadFile(srv.log)
		if err != nil {
			return outcome{}, fmt.Errorf("the server's log: %w", err)
		}
		var lib string
		for _, m := range loadedBackend.FindAllSubmatch(log, -1) {
			if string(m[1]) == backend {
				lib = sim.UnixPath(string(m[2]))
			}
		}
		if lib == "" && srv.s.wine != nil {
			// Of those that it tries, the program keeps the one that it loads last.
			lib = lastLoaded(string(log), "ggml-"+strings.ToLower(backend))
		}
		if lib == "" {
			// Somewhere up to b9842 the server's log ceased to name them.
			lib = mapped(srv.proc.Pid(), "libggml-"+strings.ToLower(backend))
		}
		if lib == "" {
			return outcome{}, srv.fault("the log names no %s backend that was loaded from a library", backend)
		}
		name := strings.TrimSuffix(filepath.Base(lib), filepath.Ext(lib))
		if !within(lib, srv.bin) {
			return outcome{}, srv.fault("the %s backend came from %s, which is not in the build's folder %s", backend, lib,
				srv.bin)
		}
		if oneOf != nil && !slices.ContainsFunc(oneOf, func(v string) bool { return strings.HasSuffix(name, "-"+v) }) {
			return outcome{}, srv.fault("the %s backend is %s; it must be one of %s", backend, name, strings.Join(oneOf, ", "))
		}
		return outcome{detail: "loaded " + name}, nil
	})
}

// mapped returns the first library of a name that starts so in a process's memory,
// or "" where there is none, or no /proc that tells.
func mapped(pid int, name string) string {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		// address, rights, offset, device, inode, path
		if i := strings.IndexByte(line, '/'); i >= 0 && strings.HasPrefix(filepath.Base(line[i:]), name) {
			return strings.TrimSpace(line[i:])
		}
	}
	return ""
}

// within tells whether a file lies in a folder, whatever links lead there.
func within(file, dir string) bool {
	f, err1 := filepath.EvalSymlinks(filepath.Dir(file))
	d, err2 := filepath.EvalSymlinks(dir)
	return err1 == nil && err2 == nil && f == d
}
