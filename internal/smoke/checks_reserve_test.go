package smoke

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the server says of a start that it refuses, as build 3836 has it in its log.
func TestRefusal(t *testing.T) {
	t.Parallel()
	const line = "llama_new_context_with_model: a prompt that fills the context of 8192 tokens needs %s MiB of scratch " +
		"on CUDA0, and %s MiB are free: lower -c, or bound it with -amb\n"
	for _, tc := range []struct{ log, want string }{
		{fmt.Sprintf(line, "272.00", "136.25"), ""},
		{fmt.Sprintf(line, "271.99", "136.25"), "271.99 MiB are needed, it says, and the forecast is 272.00 MiB"},
		{fmt.Sprintf(line, "272.00", "272.00"), "272.00 MiB are needed and 272.00 MiB free"},
		{
			strings.Replace(fmt.Sprintf(line, "272.00", "136.25"), "8192", "4096", 1),
			"it is said of 4096 tokens, and the context has 8192",
		},
		{"llama_new_context_with_model: failed to allocate compute buffers\n", "none"},
	} {
		file := filepath.Join(t.TempDir(), "server.log")
		if err := os.WriteFile(file, []byte("before\n"+tc.log+"after\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		got := "none"
		if r := readRefusal(file); r != nil {
			got = r.not(8192, 272*mib)
		}
		if got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
			t.Errorf("%q: %q, want %q", tc.log, got, tc.want)
		}
	}
	if readRefusal(filepath.Join(t.TempDir(), "none")) != nil {
		t.Error("a log that is not there")
	}
}

// A server whose -fa is a switch gets it as one, and the last one wins.
func TestFlashSpelled(t *testing.T) {
	t.Parallel()
	const (
		llama  = "-fa,   --flash-attn [on|off|auto]       set Flash Attention use\n"
		ik4840 = "-no-fa, --no-flash-attn   disable\n-fa, --flash-attn (auto|on|off|0|1)  set Flash Attention\n"
		ik3836 = "-fa,   --flash-attn           enable Flash Attention (default: disabled)\n"
	)
	for _, tc := range []struct{ help, args, want string }{
		{llama, "-c 64 -fa on -fa off", "-c 64 -fa on -fa off"},
		{ik4840, "-fa on", "-fa on"},
		{"usage", "-fa on", "-fa on"},
		{ik3836, "-c 64 -fa on -mla 3", "-c 64 -fa -mla 3"},
		{ik3836, "-fa on -fa off -b 32", "-b 32"},
		{ik3836, "-fa off -fa on", "-fa"},
		{ik3836, "-fa", "-fa"},
	} {
		if got := flashSpelled(tc.help, strings.Fields(tc.args)); !slices.Equal(got, strings.Fields(tc.want)) {
			t.Errorf("%q, %s: %q, want %q", tc.help, tc.args, got, tc.want)
		}
	}
}
