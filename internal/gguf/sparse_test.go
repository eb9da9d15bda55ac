package gguf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A header alone becomes a file of full length that says the same, and takes no room.
func TestSparse(t *testing.T) {
	meta := []Entry{{Key: "general.architecture", Value: "llama"}}
	tensors := []Tensor{
		{Name: "a", Type: F16, Dims: []uint64{1024, 1000}},
		{Name: "b", Type: Q8_0, Dims: []uint64{32, 3}, Offset: 2048000},
	}
	b, err := EncodeHeader(meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	from, dir := filepath.Join(t.TempDir(), "m.gguf"), t.TempDir()
	if err := os.WriteFile(from, b, 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := Sparse(from, dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	// 102 bytes of b, and llama.cpp wants the last tensor padded as well.
	if len(got) != len(b)+2048000+128 || !bytes.Equal(got[:len(b)], b) {
		t.Errorf("%d bytes after %d", len(got), len(b))
	}
	if h, err := ReadFile(to); err != nil || h.Missing != 0 || len(h.Tensors) != 2 {
		t.Errorf("%v: %d bytes missing, %d tensors", err, h.Missing, len(h.Tensors))
	}
	if _, err := Sparse(from, dir); err == nil {
		t.Error("it writes over a file")
	}
	if _, err := Sparse(filepath.Join(dir, "none.gguf"), t.TempDir()); err == nil {
		t.Error("no file")
	}
}

// Of a model in several files each becomes one.
func TestSparseSplit(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	for no := range 2 {
		meta := []Entry{
			{Key: "general.architecture", Value: "llama"}, {Key: "split.no", Value: no}, {Key: "split.count", Value: 2},
		}
		b, err := EncodeHeader(meta, []Tensor{{Name: fmt.Sprint("t", no), Type: F16, Dims: []uint64{512}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("m-%05d-of-00002.gguf", no+1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := Sparse(filepath.Join(from, "m-00001-of-00002.gguf"), dir)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := ReadFile(first); err != nil || h.Missing != 0 || len(h.Tensors) != 2 {
		t.Errorf("%v: %+v", err, h)
	}
}
