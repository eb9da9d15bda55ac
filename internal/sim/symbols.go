package sim

import (
	"cmp"
	"debug/elf"
	"debug/pe"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Symbols names the functions of frames, from the symbol tables of their
// modules, which must still be the files that ran. The zero value is ready.
type Symbols struct {
	modules map[string]*module
}

type module struct {
	first uint64 // address of the file's beginning, as the file counts
	funcs []function
}

type function struct {
	name     string
	at, size uint64
}

// Name returns the function of f, such as "ggml_cuda_pool_leg::alloc", or the
// module's name and the offset where no symbol is known.
func (s *Symbols) Name(f Frame) string {
	if f.Module == "" {
		return fmt.Sprintf("%#x", f.Offset)
	}
	m, ok := s.modules[f.Module]
	if !ok {
		m = readModule(UnixPath(f.Module))
		if s.modules == nil {
			s.modules = map[string]*module{}
		}
		s.modules[f.Module] = m
	}
	if name := m.function(f.Offset); name != "" {
		return demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
	}
	return fmt.Sprintf("%s+%#x", path.Base(strings.ReplaceAll(f.Module, `\`, "/")), f.Offset)
}

// readModule reads a module's functions; none where the file cannot be read.
func readModule(file string) *module {
	m := &module{}
	if f, err := elf.Open(file); err == nil {
		m.readELF(f)
		f.Close()
	} else if f, err := pe.Open(file); err == nil {
		m.readPE(f)
		f.Close()
	}
	slices.SortFunc(m.funcs, func(a, b function) int { return cmp.Compare(a.at, b.at) })
	return m
}

func (m *module) readELF(f *elf.File) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.first = p.Vaddr - p.Off
			break
		}
	}
	symbols, err := f.Symbols()
	if err != nil { // stripped
		symbols, _ = f.DynamicSymbols()
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			m.funcs = append(m.funcs, function{s.Name, s.Value, s.Size})
		}
	}
}

// coffFunction is the derived part of a COFF symbol's type that says it is a function.
const coffFunction = 2 << 4

// readPE reads the symbol table that MinGW's linker leaves in a DLL. It has no sizes: a
// function ends where its section does, or where the next begins.
func (m *module) readPE(f *pe.File) {
	for _, s := range f.Symbols {
		if s.SectionNumber < 1 || int(s.SectionNumber) > len(f.Sections) || s.Type != coffFunction {
			continue
		}
		section := f.Sections[s.SectionNumber-1]
		if s.Value < section.VirtualSize {
			m.funcs = append(m.funcs, function{
				s.Name, uint64(section.VirtualAddress) + uint64(s.Value),
				uint64(section.VirtualSize - s.Value),
			})
		}
	}
}

func (m *module) function(offset uint64) string {
	at := offset + m.first
	i, found := slices.BinarySearchFunc(m.funcs, at, func(f function, at uint64) int { return cmp.Compare(f.at, at) })
	if !found {
		i--
	}
	if i < 0 || at-m.funcs[i].at >= max(m.funcs[i].size, 1) {
		return ""
	}
	return m.funcs[i].name
}
