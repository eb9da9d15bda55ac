//go:build unix

package evidence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/regular"
)

func TestReadWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxRecord+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		pipe: "not a regular file", dir: "not a regular file",
		large: "larger than",
	} {
		if _, err := ReadPlan(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("plan %s: %v", name, err)
		}
		if _, err := ReadRecord(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("record %s: %v", name, err)
		}
	}
}

// A ratio with half an interval is no record, and is not shown.
func TestParseHalfInterval(t *testing.T) {
	for text, ok := range map[string]bool{
		`"low":1`: false, `"high":1`: false, `"low":1,"high":2`: true, `"level":1`: true,
	} {
		for _, which := range []string{"pp", "tg"} {
			_, err := Parse([]byte(`{"plan":"x","builds":{"stock":{}},"summary":[{"` + which + `_ratio":{"median":1,` + text +
				`}}]}`))
			if err == nil || strings.Contains(err.Error(), "one end of its interval only") == ok {
				t.Errorf("%s: %v", text, err) // a whole one is refused because its runs do not give it
			}
		}
	}
}

func TestHashEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sum, err := regular.Sum(ctx, name); !errors.Is(err, context.Canceled) || sum != "" {
		t.Errorf("%q %v", sum, err)
	}
}
