package binary

import (
	"debug/elf"
)

// kind notes what sort of ELF file it is, and how much of what is to be loaded lies
// beyond the end of the file, which has size bytes.
func (out *File) kind(f *elf.File, size int64) {
	out.etype = f.Type
	pie := false
	if flags, err := f.DynValue(elf.DT_FLAGS_1); err == nil && len(flags) > 0 {
		pie = elf.DynFlag1(flags[0])&elf.DF_1_PIE != 0
	}
	out.program = f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN && (pie || out.Interp != "" && out.SOName == "")
	for _, p := range f.Progs {
		end := p.Off + p.Filesz
		if p.Type == elf.PT_LOAD && p.Filesz > 0 && (end < p.Off || end > uint64(max(size, 0))) {
			out.short = true
		}
	}
}

// Type returns the type of an ELF file, such as elf.ET_REL for an object file, and
// elf.ET_NONE for another format.
func (out *File) Type() elf.Type { return out.etype }

// Program reports whether the file is an ELF program, which needs the right to be run.
func (out *File) Program() bool { return out.program }

// Short reports whether the file ends before what it wants loaded, so that no loader
// takes it.
func (out *File) Short() bool { return out.short }
