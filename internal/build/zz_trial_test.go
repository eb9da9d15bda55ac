package build

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

func TestTrial(t *testing.T) {
	top := os.Getenv("TRIAL")
	if top == "" {
		t.Skip()
	}
	r := repo(t)
	rec, _ := r.Recipe("linux-cpu")
	tc := r.Toolchains[rec.Toolchain]
	facts, err := Probe(t.Context(), tc, rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(os.Getenv("TAGS")) {
		t.Run(name, func(t *testing.T) {
			n, _ := strconv.Atoi(strings.TrimPrefix(name, "b"))
			if name == "v0.5.0" {
				n = 10865
			}
			src, _ := filepath.EvalSymlinks(filepath.Join(top, name))
			in := Input{Tag: name, Build: n, Commit: strings.Repeat("c0ffee00", 5), Time: time.Unix(1700000000, 0), Tree: strings.Repeat("0", 40), Level: 1, Recipe: rec, Toolchain: tc, Facts: facts, Source: src, Dir: "/tmp/w-build/out/" + name}
			if name == "v0.5.0" {
				in.Commit = ""
			}
			if m := os.Getenv("MISSING"); m != "" {
				in.Missing = []string{m}
			}
			_ = spec.LlamaCpp
			p := mustPlan(t, in)
			fmt.Println(name, p.Off)
			start := time.Now()
			if os.Getenv("FULL") != "" {
				art, err := Run(t.Context(), p, RunOptions{Log: p.Dir + ".log", Progress: func(w string, d, n int64) {
					if d%50 == 0 {
						fmt.Println(w, d, n)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Printf("%+v\n", art)
				return
			}
			b := &builder{plan: p, o: RunOptions{Log: p.Dir + ".log", Logger: slog.New(slog.DiscardHandler)}}
			want, have, err := p.openDir()
			if err != nil {
				t.Fatal(err)
			}
			targets, err := b.configure(t.Context(), want, have)
			fmt.Println(name, len(targets), err, time.Since(start))
			if err != nil {
				t.Fail()
				return
			}
			out, err := b.ninja(t.Context(), append([]string{"-n"}, p.Programs...)...)
			fmt.Println(name, err, strings.Count(string(out), "\n"))
		})
	}
}
