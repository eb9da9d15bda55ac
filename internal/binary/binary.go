package binary

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/llpatch/llpatch/internal/regular"
)

// File is what a program, shared library or object file says of itself.
type File struct {
	Name string `json:"name"`
	// such as EM_X86_64; fatbin and offload bundle for device code alone
	Machine string   `json:"machine"`
	SOName  string   `json:"soname,omitempty"`      // the name others need it by
	Interp  string   `json:"interpreter,omitempty"` // the loader that a program asks for
	Needed  []string `json:"needed,omitempty"`      // DT_NEEDED, in order
	RunPath []string `json:"runpath,omitempty"`     // DT_RUNPATH and DT_RPATH, split at colons
	// highest needed symbol version by family: GLIBC, GLIBCXX, CXXABI, GCC, OPENSSL
	Versions map[string]string `json:"versions,omitempty"`
	// the symbols that need that version, by family, sorted, eight at most; GLIBC_ABI_DT_RELR among
	// them
	VersionsBy  map[string][]string `json:"versions_by,omitempty"`
	BuildID     string              `json:"build_id,omitempty"` // hex
	ExportCount int                 `json:"exports,omitempty"`  // how many symbols others can use
	CUDA        *CUDA               `json:"cuda,omitempty"`     // NVIDIA device code and runtime, nil where there is none
	HIP         *HIP                `json:"hip,omitempty"`      // AMD device code and runtime, nil where there is none
	PE          *PE                 `json:"pe,omitempty"`       // nil for what is no Windows file
	MachO       *MachO              `json:"macho,omitempty"`    // nil for what is not for an Apple system
	Wasm        *Wasm               `json:"wasm,omitempty"`     // nil for what is no WebAssembly
	// the backends of ggml that it computes with, by what it needs and exports: cuda, vulkan, …
	Uses  []string `json:"uses,omitempty"`
	Host  string   `json:"host,omitempty"`  // the program that loads it and gives it functions: node, python
	Llama *Llama   `json:"llama,omitempty"` // its version, nil where it says none

	imports          []Symbol
	exports          []Symbol
	importedVersions []ImportedVersion
	exportedVersions []string
	relr             bool
	etype            elf.Type
	program          bool
	short            bool
}

// ErrNotELF is returned for a file that is of none of the formats that Inspect reads.
var ErrNotELF = errors.New("no ELF, PE, Mach-O or WebAssembly file")

// Inspect reads an ELF file, a PE file, a Mach-O file, WebAssembly, a fatbin as nvcc -fatbin writes it, or an
// offload bundle of clang's. Errors name the file; a file of another format gives
// ErrNotELF, a broken one says what is wrong.
func Inspect(path string) (*File, error) { return InspectContext(context.Background(), path) }

// InspectContext is Inspect for files of others, which may be of any size: it ends
// with the context's error when ctx ends.
func InspectContext(ctx context.Context, path string) (*File, error) {
	out, err := readFile(ctx, path, "inspect ", Read)
	if err != nil {
		return nil, err
	}
	out.Name = filepath.Base(path)
	if out.Host == "" && strings.HasSuffix(out.Name, ".node") {
		out.Host = "node"
	}
	return out, nil
}

// readFile has read read a file of others until ctx ends. What read finds wrong comes
// after doing and the file's name.
func readFile[T any](ctx context.Context, path, doing string, read func(io.ReaderAt, int64) (*T, error)) (*T, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	out, err := read(regular.UntilAt(ctx, f), st.Size())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", doing, path, err)
	}
	return out, nil
}

// Read reads what Inspect reads from r, which has size bytes. It never panics,
// whatever the bytes are.
func Read(r io.ReaderAt, size int64) (*File, error) {
	out, err := readAny(r, size)
	if err != nil {
		return nil, err
	}
	out.Uses, out.Host = out.usesOf(), out.hostOf()
	return out, nil
}

func readAny(r io.ReaderAt, size int64) (*File, error) {
	magic := make([]byte, len(elf.ELFMAG))
	_, err := r.ReadAt(magic, 0)
	is, fat := machOMagic(magic)
	switch {
	case string(magic[:2]) == "MZ":
		return readPE(r, size)
	case err == nil && is:
		return readMachO(r, fat)
	case err == nil && string(magic) == wasmMagic:
		return readWasm(r, size)
	case err != nil || string(magic) != elf.ELFMAG:
		return readDevice(r, size)
	}
	return readELF(r, size)
}

func readELF(r io.ReaderAt, size int64) (out *File, err error) {
	// debug/elf documents that it is not hardened against hostile files.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("malformed ELF file: %v", p)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out = &File{Machine: elfMachine(f.Machine), Versions: map[string]string{}, Llama: llamaOf(f)}
	if f.SectionByType(elf.SHT_DYNAMIC) != nil {
		if err := out.dynamic(f); err != nil {
			return nil, err
		}
	}
	out.BuildID = buildID(f)
	out.Interp = interpreter(f)
	out.kind(f, size)
	out.CUDA = readCUDA(f, out)
	out.HIP = readHIP(f, out, r, size)
	return out, nil
}

// elfMachine names an ELF machine; debug/elf has none for AMD's cards.
func elfMachine(m elf.Machine) string {
	if m == emAMDGPU {
		return "EM_AMDGPU"
	}
	return m.String()
}

func (out *File) dynamic(f *elf.File) error {
	var err error
	if out.Needed, err = f.ImportedLibraries(); err != nil {
		return fmt.Errorf("needed libraries: %w", err)
	}
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil {
		return fmt.Errorf("soname: %w", err)
	}
	out.SOName = strings.Join(names, " ")
	for _, t := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := f.DynString(t)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		for _, p := range paths {
			out.RunPath = append(out.RunPath, strings.Split(p, ":")...)
		}
	}
	if f.SectionByType(elf.SHT_GNU_VERNEED) != nil { // a library that needs nothing has none
		needs, err := f.DynamicVersionNeeds()
		if err != nil {
			return fmt.Errorf("symbol versions: %w", err)
		}
		for _, lib := range needs {
			for _, n := range lib.Needs {
				if n.Flags&elf.VER_FLG_WEAK == 0 {
					out.importedVersions = append(out.importedVersions, ImportedVersion{lib.Name, n.Dep})
				}
				out.relr = out.relr || n.Dep == relr
				out.raise(n.Dep)
			}
		}
	}
	return errors.Join(out.exportVersions(f), out.symbols(f))
}

// maxVersionsBy bounds how many symbols are named for one version.
const maxVersionsBy = 8

// symbols notes which symbols need the highest versions, and what is exported.
func (out *File) symbols(f *elf.File) error {
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("symbols: %w", err)
	}
	out.VersionsBy = map[string][]string{}
	if out.relr && out.Versions["GLIBC"] == "2.36" {
		out.VersionsBy["GLIBC"] = []string{relr}
	}
	for _, s := range symbols {
		bind, kind := elf.ST_BIND(s.Info), elf.ST_TYPE(s.Info)
		if s.Section == elf.SHN_UNDEF {
			if family, number, ok := symbolVersion(s.Version); ok && out.Versions[family] == number {
				out.VersionsBy[family] = append(out.VersionsBy[family], s.Name)
			}
			if bind == elf.STB_GLOBAL {
				out.imports = append(out.imports, Symbol{s.Name, s.Version})
			}
			continue
		}
		if bind != elf.STB_LOCAL && kind != elf.STT_SECTION && kind != elf.STT_FILE && s.Section != elf.SHN_ABS {
			out.exports = append(out.exports, Symbol{s.Name, s.Version})
		}
	}
	slices.SortFunc(out.imports, Symbol.compare)
	slices.SortFunc(out.exports, Symbol.compare)
	out.ExportCount = len(out.exports)
	for family, names := range out.VersionsBy {
		slices.Sort(names)
		out.VersionsBy[family] = slices.Compact(names)[:min(len(slices.Compact(names)), maxVersionsBy)]
	}
	return nil
}

// relr is what a file with relative relocations in DT_RELR asks for, which glibc has
// since 2.36 (its NEWS). No symbol has it.
const relr = "GLIBC_ABI_DT_RELR"

// symbolVersion splits a version's name, such as GLIBC_2.34. Names that hold no
// number (GLIBC_PRIVATE) have no order and are none.
func symbolVersion(name string) (family, number string, ok bool) {
	if name == relr {
		return "GLIBC", "2.36", true
	}
	family, number, ok = strings.Cut(name, "_")
	return family, number, ok && !Less(number, "0")
}

// raise keeps the highest version of a family, from a name such as GLIBC_2.34
// or OPENSSL_3.0.0.
func (out *File) raise(name string) {
	family, number, ok := symbolVersion(name)
	if !ok {
		return
	}
	if have, ok := out.Versions[family]; !ok || Less(have, number) {
		out.Versions[family] = number
	}
}

// Less reports whether version a is older than version b. What is not a
// version is older than any.
func Less(a, b string) bool {
	x, errX := version.NewVersion(a)
	y, errY := version.NewVersion(b)
	switch {
	case errX != nil:
		return errY == nil
	case errY != nil:
		return false
	}
	return x.LessThan(y)
}

// interpreter returns the loader that a program names in PT_INTERP, or nothing.
func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 1<<12 {
			continue
		}
		data, err := io.ReadAll(p.Open())
		if err != nil {
			return ""
		}
		return string(bytes.TrimRight(data, "\x00"))
	}
	return ""
}

// buildID returns the GNU build id note's content in hex, or nothing. The
// format is in the ELF gABI's "Note Section" and binutils' documentation of
// --build-id.
func buildID(f *elf.File) string {
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Size > 1<<12 {
		return ""
	}
	data, err := s.Data()
	if err != nil || len(data) < 16 || !bytes.Equal(data[12:16], []byte("GNU\x00")) {
		return ""
	}
	size := f.ByteOrder.Uint32(data[4:8])
	if uint64(len(data)) < 16+uint64(size) {
		return ""
	}
	return hex.EncodeToString(data[16 : 16+size])
}
