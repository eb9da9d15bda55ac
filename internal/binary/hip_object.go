package binary

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
)

// emAMDGPU is the ELF machine number of AMD's code objects.
const emAMDGPU = 224

// What stands in a code object's header (LLVM, "User Guide for AMDGPU Backend", "ELF
// Header"): the processor in the lowest byte of e_flags, and from code object version
// 4 on, which is ABI version 2, whether xnack and sramecc matter.
const (
	amdhsa      = 64 // e_ident[EI_OSABI]
	gfxMask     = 0xff
	xnackMask   = 0x300
	sramECCMask = 0xc00
)

// codeObject is what a code object says of itself.
type codeObject struct {
	gfx            string // gfx1201
	xnack, sramecc string // any, on, off; empty: it has none
	version        int
	compiler       string
}

// target is how clang writes what it is for.
func (o *codeObject) target() string {
	t := o.gfx
	for _, f := range [][2]string{{"sramecc", o.sramecc}, {"xnack", o.xnack}} {
		switch f[1] {
		case "on":
			t += ":" + f[0] + "+"
		case "off":
			t += ":" + f[0] + "-"
		}
	}
	return t
}

// is reports whether a target's name means the code object. Version 3 cannot say that
// a feature is off, so only the processor is compared there.
func (o *codeObject) is(name string) bool {
	if o.version <= 3 {
		name, _, _ = strings.Cut(name, ":")
		return name == o.gfx
	}
	return name == o.target()
}

var gfxModes = [4]string{"", "any", "off", "on"}

// readCodeObject reads the header of a code object, and which compiler made it.
func readCodeObject(r *io.SectionReader) (out *codeObject, err error) {
	defer func() { // as in Read
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("malformed code object: %v", p)
		}
	}()
	head := make([]byte, 64)
	if _, err := r.ReadAt(head, 0); err != nil || string(head[:4]) != elf.ELFMAG ||
		head[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return nil, errors.New("it is no ELF file of 64 bits")
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Machine != emAMDGPU || head[elf.EI_OSABI] != amdhsa {
		return nil, fmt.Errorf("it is for the machine %s and system %d, not for an AMD card", f.Machine, head[elf.EI_OSABI])
	}
	flags := f.ByteOrder.Uint32(head[48:])
	abi := int(head[elf.EI_ABIVERSION])
	out = &codeObject{version: abi + 2}
	var known bool
	if out.gfx, known = gfxNumbers[flags&gfxMask]; !known {
		return nil, fmt.Errorf("its processor has the number %#x, which is not known", flags&gfxMask)
	}
	switch {
	case abi >= 2:
		out.xnack, out.sramecc = gfxModes[flags&xnackMask>>8], gfxModes[flags&sramECCMask>>10]
	case abi == 1: // version 3 has a bit each, and nothing for "any"
		out.xnack, out.sramecc = map[bool]string{true: "on"}[flags&0x100 != 0], map[bool]string{true: "on"}[flags&0x200 != 0]
	}
	if s := f.Section(".comment"); s != nil && s.Type != elf.SHT_NOBITS && s.Size < 1<<12 {
		if text, err := s.Data(); err == nil {
			out.compiler = commented(text)
		}
	}
	return out, nil
}

// commented is the compiler that a .comment section names: several may stand there,
// and the linker is one of them.
func commented(text []byte) string {
	for part := range bytes.SplitSeq(text, []byte{0}) {
		if s := printable(part); strings.Contains(s, "clang version") {
			return s
		}
	}
	return ""
}
