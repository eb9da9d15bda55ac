package sim

import (
	"debug/elf"
	"fmt"
	"path/filepath"
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
	funcs []elf.Symbol
}

// Name returns the function of f, such as "ggml_cuda_pool_leg::alloc", or the
// module's name and the offset where no symbol is known.
func (s *Symbols) Name(f Frame) string {
	if f.Module == "" {
		return fmt.Sprintf("%#x", f.Offset)
	}
	m, ok := s.modules[f.Module]
	if !ok {
		m = readModule(f.Module)
		if s.modules == nil {
			s.modules = map[string]*module{}
		}
		s.modules[f.Module] = m
	}
	if name := m.function(f.Offset); name != "" {
		return demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.NoEnclosingParams)
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(f.Module), f.Offset)
}

// Stack returns the names of frames, innermost first, as one line.
func (s *Symbols) Stack(frames []Frame) string {
	names := make([]string, len(frames))
	for i, f := range frames {
		names[i] = s.Name(f)
	}
	return strings.Join(names, " < ")
}

// readModule reads a module's functions; none where the file cannot be read.
func readModule(path string) *module {
	m := &module{}
	f, err := elf.Open(path)
	if err != nil {
		return m
	}
	defer f.Close()
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
			m.funcs = append(m.funcs, s)
		}
	}
	slices.SortFunc(m.funcs, func(a, b elf.Symbol) int {
		if a.Value < b.Value {
			return -1
		}
		return int(min(a.Value-b.Value, 1))
	})
	return m
}

func (m *module) function(offset uint64) string {
	at := offset + m.first
	i, found := slices.BinarySearchFunc(m.funcs, at, func(s elf.Symbol, at uint64) int {
		switch {
		case s.Value < at:
			return -1
		case s.Value > at:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || at-m.funcs[i].Value >= max(m.funcs[i].Size, 1) {
		return ""
	}
	return m.funcs[i].Name
}
