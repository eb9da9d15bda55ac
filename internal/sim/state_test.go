package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

func page(t *testing.T, sequence uint64, s State) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(stateMagic)
	for _, v := range []any{uint32(1), uint32(7), sequence, s} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return append(b.Bytes(), make([]byte, 4096-b.Len())...)
}

func TestReadState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	if _, err := ReadState(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	want := State{VRAMTotal: 12 << 30, VRAMUsed: 5, Faults: 3, StaleReplays: 2}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(page(t, 4, want))
	if got, err := ReadState(file); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	write(page(t, 5, want)) // its writer was killed in the middle of a change
	if got, err := ReadState(file); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	old := page(t, 4, want)
	old[8] = 9
	for name, b := range map[string][]byte{
		"empty": nil, "short": page(t, 4, want)[:40], "not yet begun": make([]byte, 4096), "another version": old,
	} {
		write(b)
		if _, err := ReadState(file); !errors.Is(err, ErrNoState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The order of the numbers is written down twice, in C and in Go.
func TestStateOrder(t *testing.T) {
	text, err := os.ReadFile("c/sim.h")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)struct counters \{(.*?)\};`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no struct counters")
	}
	names := regexp.MustCompile(`\b[a-z_]+\b`).FindAllString(string(regexp.MustCompile(`uint64_t`).ReplaceAll(m[1], nil)),
		-1)
	other := map[string]string{ // where the two are not spelled alike
		"instances": "GraphInstances", "instances_peak": "GraphInstancesPeak", "updates": "GraphUpdates",
	}
	typ := reflect.TypeFor[State]()
	if len(names) != typ.NumField() {
		t.Fatalf("%d numbers in C, %d in Go", len(names), typ.NumField())
	}
	for i, n := range names {
		want := other[n]
		if want == "" {
			want = regexp.MustCompile(`_`).ReplaceAllString(n, "")
		}
		if !bytes.EqualFold([]byte(want), []byte(typ.Field(i).Name)) {
			t.Errorf("number %d is %s in C and %s in Go", i, n, typ.Field(i).Name)
		}
	}
}
