package binary

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Device is the NVIDIA device code of one object file, and the names by which a host
// program finds what is in it.
type Device struct {
	Fatbin    []byte   // as it stands in the file, for every arch
	Kernels   []string // mangled, sorted
	Variables []string // likewise: __device__ and __constant__
}

// maxObject bounds the device code that ReadDevice takes of one object: the largest
// of ggml-cuda's are below 20 MB for three archs.
const maxObject = 512 << 20

// entryMark marks a kernel among the functions of a cubin: STO_CUDA_ENTRY in st_other.
// Measured on nvcc 11.8 and 13.5, clang 19 with ptxas 11.2.
const entryMark = 0x10

// ReadDevice reads the device code of an object that nvcc made for Linux, size bytes
// long. Every arch must have machine code, and all the same kernels.
func ReadDevice(r io.ReaderAt, size int64) (out Device, err error) {
	// debug/elf documents that it is not hardened against hostile files.
	defer func() {
		if p := recover(); p != nil {
			out, err = Device{}, fmt.Errorf("malformed ELF file: %v", p)
		}
	}()
	f, err := elf.NewFile(io.NewSectionReader(r, 0, size))
	if err != nil {
		return out, err
	}
	s := f.Section(".nv_fatbin")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return out, errors.New("it holds no device code")
	}
	if s.FileSize > maxObject {
		return out, fmt.Errorf("its device code of %d bytes is %w", s.FileSize, errTooLarge)
	}
	if out.Fatbin, err = s.Data(); err != nil {
		return out, err
	}
	var first map[string]bool // kernel -> true, variable -> false
	var of Arch
	containers, err := readFatbins(io.NewSectionReader(bytes.NewReader(out.Fatbin), 0, int64(len(out.Fatbin))),
		func(_ int, e *entry) error {
			if e.kind != kindELF {
				return nil
			}
			data, err := e.content(maxCubin)
			if err != nil {
				return fmt.Errorf("machine code for %s: %w", "sm_"+e.arch.String(), err)
			}
			names, err := cubinNames(data)
			if err != nil {
				return fmt.Errorf("machine code for %s: %w", "sm_"+e.arch.String(), err)
			}
			if first == nil {
				first, of = names, e.arch
			}
			for name, kernel := range names {
				if has, ok := first[name]; kernel && !(ok && has) {
					return fmt.Errorf("kernel %s is there for %s and not for %s", name, "sm_"+e.arch.String(), "sm_"+of.String())
				}
			}
			for name, kernel := range first {
				if kernel && !names[name] {
					return fmt.Errorf("kernel %s is there for %s and not for %s", name, "sm_"+of.String(), "sm_"+e.arch.String())
				}
			}
			return nil
		})
	switch {
	case err != nil:
		return Device{}, err
	case containers != 1:
		return Device{}, fmt.Errorf("it holds %d fatbins, and a host program registers one", containers)
	case first == nil:
		return Device{}, errors.New("its device code is PTX alone, whose names are not read")
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if first[name] {
			out.Kernels = append(out.Kernels, name)
		} else {
			out.Variables = append(out.Variables, name)
		}
	}
	return out, nil
}

// cubinNames returns the kernels (true) and the variables (false) of a cubin.
func cubinNames(data []byte) (map[string]bool, error) {
	if len(data) < 64 || string(data[:4]) != elf.ELFMAG {
		return nil, errors.New("no cubin")
	}
	data = bytes.Clone(data)
	binary.LittleEndian.PutUint32(data[20:], 1) // debug/elf takes only 1; see readCubin
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	names := map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			continue
		}
		switch elf.ST_TYPE(s.Info) {
		case elf.STT_FUNC:
			if s.Other&entryMark != 0 {
				names[s.Name] = true
			}
		case elf.STT_OBJECT:
			names[s.Name] = false
		}
	}
	return names, nil
}
