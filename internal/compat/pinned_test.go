package compat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/spec"
)

// An upstream without releases is judged on its pinned commits, by their own
// build numbers; the b tags in a clone of it are another upstream's.
func TestPinnedCommits(t *testing.T) {
	made, diff := provable(t)
	path := made.write()
	ids := strings.Fields(git(t, path, "rev-list", "--reverse", "master"))
	git(t, path, "tag", "b100", ids[8]) // as llama.cpp numbers it
	at := func(id string, build int) spec.Pin {
		f := strings.Fields(git(t, path, "log", "-1", "--format=%T %ct", id))
		var secs int64
		if _, err := fmt.Sscan(f[1], &secs); err != nil {
			t.Fatal(err)
		}
		return spec.Pin{Commit: id, Tree: f[0], Build: build, Time: time.Unix(secs, 0)}
	}
	as := []string{"-c", "user.name=a", "-c", "user.email=a@example.org"}
	// Upstream rewrote its master: the third commit once had another id, and one
	// more before it.
	other := strings.TrimSpace(git(t, path, append(as, "commit-tree", "-m", "was", "-p", ids[1], ids[1]+"^{tree}")...))
	was := strings.TrimSpace(git(t, path, append(as, "commit-tree", "-m", "was", "-p", other, ids[2]+"^{tree}")...))
	gone := strings.Repeat("e", 40)
	rewritten := at(ids[4], 5)
	rewritten.Commit = strings.Repeat("d", 40)
	lock := map[string]spec.Pin{
		ids[1]: at(ids[1], 2), ids[8]: at(ids[8], 9), was: at(was, 4),
		gone: {Commit: gone, Tree: ids[0], Build: 6}, rewritten.Commit: rewritten,
	}

	h := mustOpen(t, path, lock)
	var got []string
	for _, tag := range h.Tags {
		got = append(got, fmt.Sprint(tag.Name[:4], " ", tag.Build))
	}
	if want := fmt.Sprintf("%s 2,%s 4,%s 9", ids[1][:4], was[:4], ids[8][:4]); strings.Join(got, ",") != want ||
		len(h.Left) != 2 {
		t.Errorf("tags %v, left %v, want %s", got, h.Left, want)
	}

	pins, err := h.CheckPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pins.Faults) != 1 || pins.Faults[0].Tag != gone || !strings.Contains(pins.Faults[0].Msg,
		"where build 6 is commit "+ids[5]) {
		t.Errorf("faults %+v", pins.Faults)
	}
	if len(pins.Notes) != 1 || !strings.Contains(pins.Notes[0], "where build 5 is commit "+ids[4]+
		" with the same tree") || pins.Checked != 5 {
		t.Errorf("notes %q, %d checked", pins.Notes, pins.Checked)
	}
	wrong := at(ids[1], 3)
	pins, err = mustOpen(t, path, map[string]spec.Pin{ids[1]: wrong, ids[8]: at(ids[8], 9)}).CheckPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pins.Faults) != 1 || !strings.Contains(pins.Faults[0].Msg, "build number is 3, and commit "+ids[1]+
		" is build 2") {
		t.Errorf("faults %+v", pins.Faults)
	}

	// The range ends where the patch does: proven on commits that nothing names.
	for r, faults := range map[string]int{">= 2, < 7": 0, ">= 1, < 7": 1, ">= 2, < 8": 1} {
		proofs, err := h.Prove(t.Context(), Options{}, stackOf(t, diff, r))
		if err != nil {
			t.Fatal(err)
		}
		if len(proofs[0].Faults) != faults {
			t.Errorf("%s: %+v", r, proofs[0])
		}
	}
}

func mustOpen(t *testing.T, path string, lock map[string]spec.Pin) *History {
	t.Helper()
	h, err := Open(path, spec.IkLlamaCpp, lock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestPinnedRefuses(t *testing.T) {
	made, _ := provable(t)
	path := made.write()
	ids := strings.Fields(git(t, path, "rev-list", "--reverse", "master"))
	for name, lock := range map[string]map[string]spec.Pin{
		"no pin":       nil,
		"none of them": {strings.Repeat("e", 40): {Commit: strings.Repeat("e", 40)}},
	} {
		if _, err := Open(path, spec.IkLlamaCpp, lock); !errors.As(err, new(*NoHistory)) ||
			!strings.Contains(err.Error(), "pins of ik_llama.cpp") {
			t.Errorf("%s: %v", name, err)
		}
	}
	shallow := t.TempDir()
	git(t, shallow, "clone", "-q", "--depth", "3", "file://"+path, ".")
	h := mustOpen(t, shallow, map[string]spec.Pin{ids[8]: {Commit: ids[8], Build: 9}})
	if _, err := h.CheckPins(t.Context()); !errors.As(err, new(*NoHistory)) ||
		!strings.Contains(err.Error(), "--unshallow") {
		t.Errorf("shallow: %v", err)
	}
}
