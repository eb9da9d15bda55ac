package binary

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

// wasms are WebAssembly files by name, written by hand from the specification.
func wasms() map[string][]byte {
	head := "\x00asm\x01\x00\x00\x00"
	section := func(id byte, content string) string { return string([]byte{id, byte(len(content))}) + content }
	name := func(s string) string { return string([]byte{byte(len(s))}) + s }
	memory64 := "\x02\x04\x01"      // a memory of 64 bits, 1 page at least
	function := "\x00\x00"          // of type 0
	table := "\x01\x70\x01\x02\x03" // of functions, 2 to 3
	global := "\x03\x7f\x00"
	return map[string][]byte{
		"browser": []byte(head + section(2, "\x04"+name("env")+name("f")+function+name("env")+name("t")+table+
			name("env")+name("g")+global+name("env")+name("memory")+memory64)),
		"wasi": []byte(head + section(1, "\x00") +
			section(2, "\x01"+name("wasi_snapshot_preview1")+name("fd_write")+function)),
		"alone":     []byte(head + section(5, "\x01\x00\x01")),
		"component": []byte("\x00asm\x0d\x00\x01\x00"),
		"cut":       []byte(head + "\x02\x7f\x04"),
		"long name": []byte(head + section(2, "\x01\xff\xff\x7f")),
	}
}

// thin is a Mach-O library for a processor that needs Metal, is for macOS 11.0 and exports symbols.
func thin(cpu macho.Cpu, kind macho.Type, exports ...string) []byte {
	le := binary.LittleEndian
	var commands []byte
	count := 0
	add := func(words []uint32, tail string) {
		b := []byte{}
		for _, w := range words {
			b = le.AppendUint32(b, w)
		}
		b = append(b, tail...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		le.PutUint32(b[4:], uint32(len(b)))
		commands, count = append(commands, b...), count+1
	}
	add([]uint32{0xc, 0, 24, 0, 0, 0}, "/System/Library/Frameworks/Metal.framework/Versions/A/Metal\x00") // LC_LOAD_DYLIB
	add([]uint32{lcBuild, 0, 1, 11 << 16, 14 << 16, 0}, "")
	const symtab = 24
	at := uint32(32 + len(commands) + symtab)
	names, symbols := "\x00", []byte{}
	for _, e := range exports {
		symbols = le.AppendUint32(symbols, uint32(len(names)))
		symbols = append(symbols, 0x0f, 1, 0, 0) // N_SECT | N_EXT
		symbols = le.AppendUint64(symbols, 0)
		names += e + "\x00"
	}
	add([]uint32{2, 0, at, uint32(len(exports)), at + uint32(len(symbols)), uint32(len(names))}, "") // LC_SYMTAB
	var b []byte
	for _, w := range []uint32{macho.Magic64, uint32(cpu), 0, uint32(kind), uint32(count), uint32(len(commands)), 0, 0} {
		b = le.AppendUint32(b, w)
	}
	return slices.Concat(b, commands, symbols, []byte(names))
}

// fat packs thin files for x86_64 and arm64.
func fat(one, two []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, macho.MagicFat)
	b = be.AppendUint32(b, 2)
	const first, second = 4096, 8192
	for _, a := range []struct{ cpu, at, size int }{
		{int(macho.CpuAmd64), first, len(one)}, {int(macho.CpuArm64), second, len(two)},
	} {
		for _, w := range []int{a.cpu, 0, a.at, a.size, 12} {
			b = be.AppendUint32(b, uint32(w))
		}
	}
	b = append(b, make([]byte, first-len(b))...)
	b = append(b, one...)
	b = append(b, make([]byte, second-len(b))...)
	return append(b, two...)
}

func parseBytes(data []byte) (*File, error) { return Read(bytes.NewReader(data), int64(len(data))) }

// A file for Apple's systems is named as one, with the processors that it is for.
func TestMachO(t *testing.T) {
	lib := thin(macho.CpuArm64, macho.TypeDylib, "_ggml_backend_init", "_ggml_backend_metal_reg")
	for name, c := range map[string]struct {
		data    []byte
		machine string
		kind    string
	}{
		"thin":    {lib, "Mach-O arm64", "library"},
		"program": {thin(macho.CpuAmd64, macho.TypeExec), "Mach-O x86_64", "program"},
		"bundle":  {thin(macho.CpuAmd64, macho.TypeBundle), "Mach-O x86_64", "bundle"},
		"fat":     {fat(thin(macho.CpuAmd64, macho.TypeDylib), lib), "Mach-O x86_64 and arm64", "library"},
	} {
		f, err := parseBytes(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m := f.MachO
		if f.Machine != c.machine || m.Kind != c.kind || m.System != "macOS" || m.Since != "11.0" ||
			strings.Join(f.Uses, " ") != "metal" {
			t.Errorf("%s: %+v, %+v", name, f, m)
		}
	}
	f, err := parseBytes(lib)
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := BackendOf("libggml-metal.so", f); !ok || b.Kind != "metal" || b.Why != "" {
		t.Errorf("%+v, %v", b, ok) // macOS' backends end with .so too
	}
	// A Java class begins as a fat file does; its version stands where the number of processors would.
	if _, err := parseBytes([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x34more of it")); !errors.Is(err, ErrNotELF) {
		t.Errorf("a Java class: %v", err)
	}
	if _, err := parseBytes(lib[:40]); err == nil || errors.Is(err, ErrNotELF) {
		t.Errorf("a cut file: %v", err)
	}
}

func FuzzForeign(f *testing.F) {
	lib := thin(macho.CpuArm64, macho.TypeDylib, "_a")
	f.Add(lib)
	f.Add(fat(lib, lib))
	for _, w := range wasms() {
		f.Add(w)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		out, err := parseBytes(data)
		if (out == nil) == (err == nil) {
			panic("neither a file nor an error")
		}
	})
}
