package binary

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	vxkex  = flag.String("vxkex", "", "a checkout of VxKex NEXT at the commit that docs/win7.md names")
	derive = flag.Bool("derive", false, "with -vxkex: write the tables anew")
)

// TestDerivation derives the tables again from VxKex NEXT's source, which docs/win7.md
// says how to get; without -vxkex only what can be told from the tables is checked.
func TestDerivation(t *testing.T) {
	if *vxkex != "" {
		for name, text := range map[string][]byte{"exports": deriveExports(t), "redirects": deriveRedirects(t)} {
			path := filepath.Join("tables", name+".tsv.gz")
			if *derive {
				if err := os.WriteFile(path, squeeze(t, text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(expand(t, have), text) {
				t.Errorf("%s is not what VxKex NEXT's source says", path)
			}
		}
	}
	page, err := os.ReadFile("../../docs/win7.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exports", "redirects"} {
		data, err := os.ReadFile(filepath.Join("tables", name+".tsv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		text := expand(t, data)
		if !bytes.Equal(squeeze(t, text), data) {
			t.Errorf("%s is not as the derivation writes it", name)
		}
		rows := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if !slices.IsSorted(rows) || len(slices.Compact(slices.Clone(rows))) != len(rows) {
			t.Errorf("%s is not sorted, or says something twice", name)
		}
		if say := fmt.Sprintf("| `%s.tsv.gz` | %d |", name, len(rows)); !bytes.Contains(page, []byte(say)) {
			t.Errorf("docs/win7.md does not say %s", say)
		}
	}
}

func expand(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func squeeze(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// kexDLLs are VxKex NEXT's DLLs and the DLL of Windows that each stands for most.
var kexDLLs = map[string]string{
	"KxAdvapi": "advapi32", "KxBase": "kernel32", "KxCom": "ole32", "KxCrt": "msvcrt", "KxCryp": "bcrypt",
	"KxDw": "dwrite",
	"KxDx": "dxgi", "KxMi": "powrprof", "KxNet": "ws2_32", "KxNt": "ntdll", "KxSChanl": "secur32",
	"KxUia": "uiautomationcore", "KxUser": "user32",
}

// kb2533623 are kernel32's exports that came with that update: Microsoft's reference
// of AddDllDirectory, "Requirements".
var kb2533623 = []string{"AddDllDirectory", "RemoveDllDirectory", "SetDefaultDllDirectories"}

var exportRE = regexp.MustCompile(`^(//)?\s*#\s*pragma comment\(linker, "/EXPORT:([^=]+)=([^.]+)\.([^,"]+)(?:,@([0-9]+))?[^"]*"\)`)

// deriveExports reads what VxKex's DLLs forward to the DLLs of Windows 7 (those are
// there), what of that it has commented out because it has its own (that is there
// too), and what it exports beside (that is not). A row is a DLL, a function, since
// when Windows 7 has it, and the DLL of VxKex that serves it; "-" is none.
func deriveExports(t *testing.T) []byte {
	rows := map[string]bool{}
	add := func(dll, name, win7, kex string) { rows[strings.Join([]string{dll, name, win7, kex}, "\t")] = true }
	stock, mine := map[[2]string]bool{}, map[[2]string]bool{}
	for kex := range kexDLLs {
		for _, line := range amd64Lines(t, filepath.Join(*vxkex, "01-Extended DLLs", kex, "forwards.c")) {
			m := exportRE.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			name, dll, ordinal, win7 := m[2], strings.ToLower(m[3]), m[5], "y"
			if dll == "kxadvapi" || dll == "mfdevmgr" { // DLLs of VxKex, and of a later Windows
				dll, win7 = "-", "-"
			}
			if dll == "kernel32" && slices.Contains(kb2533623, name) {
				win7 = "KB2533623"
			}
			named := !strings.HasPrefix(name, "__OrdinalFunction")
			if named {
				stock[[2]string{dll, name}], mine[[2]string{kex, name}] = true, true
				add(dll, name, win7, kex)
			}
			// ntdll's other ordinals are not the same in every build of it.
			if ordinal != "" && (dll != "ntdll" || !named) {
				add(dll, "#"+ordinal, win7, kex)
			}
		}
	}
	for kex, stands := range kexDLLs {
		for _, name := range defNames(t, filepath.Join(*vxkex, "01-Extended DLLs", kex, strings.ToLower(kex)+".def")) {
			switch {
			case mine[[2]string{kex, name}]:
			case stock[[2]string{stands, name}]:
				add("-", name, "-", kex)
			default:
				add(stands, name, "-", kex)
			}
		}
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(rows)), "\n") + "\n")
}

// amd64Lines returns a C file's lines that are compiled for 64 bits. Files that are
// not there have none.
func amd64Lines(t *testing.T, path string) (lines []string) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var in []bool
	for s := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff")))); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		switch {
		case strings.HasPrefix(line, "#if"):
			in = append(in, strings.Contains(line, "_M_X64"))
		case strings.HasPrefix(line, "#else"):
			in[len(in)-1] = !in[len(in)-1]
		case strings.HasPrefix(line, "#endif"):
			in = in[:len(in)-1]
		case !slices.Contains(in, false):
			lines = append(lines, line)
		}
	}
	return lines
}

// defNames returns what a module definition file exports.
func defNames(t *testing.T, path string) (names []string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(data), "EXPORTS")
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, ";")
		if f := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n=", r) }); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return names
}

var redirectRE = regexp.MustCompile(`^\s*DLL_REDIRECT\("([^"]+)",\s*"([^"]+)"`)

func deriveRedirects(t *testing.T) []byte {
	var lines []string
	for _, line := range amd64Lines(t, filepath.Join(*vxkex, "KexDll", "redirects.h")) {
		if m := redirectRE.FindStringSubmatch(line); m != nil {
			lines = append(lines, strings.ToLower(m[1]+"\t"+strings.TrimSuffix(m[2], ".dll")))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n") + "\n")
}
