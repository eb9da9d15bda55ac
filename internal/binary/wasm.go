package binary

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Wasm is what a WebAssembly file says of itself: WebAssembly Core Specification, "Binary Format".
type Wasm struct {
	Kind    string   `json:"kind"`              // module or component
	Bits    int      `json:"bits"`              // of addresses: 32, or 64 with the memory64 feature
	Imports []string `json:"imports,omitempty"` // the modules that it takes functions from, sorted
	For     string   `json:"for"`               // what gives it those, in words
}

const (
	wasmMagic      = "\x00asm"
	wasmImports    = 2 // ids of sections
	wasmMemory     = 5
	maxWasmImports = 1 << 16
	maxWasmName    = 1 << 12
)

var errWasm = errors.New("malformed WebAssembly file")

// readWasm reads a WebAssembly file.
func readWasm(r io.ReaderAt, size int64) (*File, error) {
	var head [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, errWasm
	}
	w := &Wasm{Kind: "module", Bits: 32}
	out := &File{Machine: "WebAssembly", Wasm: w, Versions: map[string]string{}}
	if binary.LittleEndian.Uint16(head[6:]) == 1 { // the layer of the component model
		w.Kind, w.For = "component", "a runtime of the component model"
		return out, nil
	}
	b := bufio.NewReader(io.NewSectionReader(r, int64(len(head)), max(0, size-int64(len(head)))))
	for at := int64(len(head)); ; {
		id, err := b.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		n, err := uleb(b)
		if err != nil || n > uint64(max(0, size-at)) {
			return nil, errWasm
		}
		at += int64(n)
		part := io.LimitReader(b, int64(n))
		if err := w.section(id, bufio.NewReaderSize(part, 64)); err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, part); err != nil {
			return nil, err
		}
	}
	slices.Sort(w.Imports)
	w.Imports = slices.Compact(w.Imports)
	out.Machine = fmt.Sprintf("WebAssembly, %d bits", w.Bits)
	switch {
	case slices.ContainsFunc(w.Imports, func(m string) bool { return strings.HasPrefix(m, "wasi_") }):
		w.For = "a runtime with WASI, or Node"
	case len(w.Imports) == 0:
		w.For = "any runtime"
	default:
		w.For = "a browser or Node, with the JavaScript that was made with it (imports of " + strings.Join(w.Imports, ", ") + ")"
	}
	return out, nil
}

// section reads what it wants of one section.
func (w *Wasm) section(id byte, b *bufio.Reader) error {
	if id != wasmImports && id != wasmMemory {
		return nil
	}
	n, err := uleb(b)
	if err != nil || n > maxWasmImports {
		return errWasm
	}
	for range n {
		kind := byte(2)
		if id == wasmImports {
			module, err := wasmName(b)
			if err != nil {
				return err
			}
			if _, err := wasmName(b); err != nil {
				return err
			}
			w.Imports = append(w.Imports, module)
			if kind, err = b.ReadByte(); err != nil {
				return errWasm
			}
		}
		if err := w.skip(kind, b); err != nil {
			return err
		}
	}
	return nil
}

// skip reads the type of an import: a function, a table, a memory, a global, a tag.
func (w *Wasm) skip(kind byte, b *bufio.Reader) error {
	limits := func() (flags byte, err error) {
		if flags, err = b.ReadByte(); err == nil {
			_, err = uleb(b)
		}
		if err == nil && flags&1 != 0 {
			_, err = uleb(b)
		}
		return flags, err
	}
	var err error
	switch kind {
	case 0:
		_, err = uleb(b)
	case 1:
		if _, err = b.ReadByte(); err == nil {
			_, err = limits()
		}
	case 2:
		var flags byte
		if flags, err = limits(); flags&4 != 0 {
			w.Bits = 64
		}
	case 3, 4:
		_, err = io.CopyN(io.Discard, b, 2) // a value's type and whether it changes; a tag's attribute and type
	default:
		return errWasm
	}
	if err != nil {
		return errWasm
	}
	return nil
}

func uleb(b io.ByteReader) (uint64, error) {
	n, err := binary.ReadUvarint(b)
	if err != nil {
		return 0, errWasm
	}
	return n, nil
}

func wasmName(b *bufio.Reader) (string, error) {
	n, err := uleb(b)
	if err != nil || n > maxWasmName {
		return "", errWasm
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(b, name); err != nil {
		return "", errWasm
	}
	return string(name), nil
}
