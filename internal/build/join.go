package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/binary"
)

// JoinCommand is the argument with which a plan's compile commands start llpatch,
// where nvcc compiles for the card and clang for the processor; it must then call
// Join with the two files that follow.
const JoinCommand = "join-cuda"

// placeholder stands for the device code while clang compiles the host side, so that
// a compiler cache may keep what it makes.
const placeholder = "llpatch device code\n"

// Join puts the device code of an object that nvcc made for Linux into LLVM's text of
// the host side, which clang made from the same source: it writes the device code
// beside the text, with the ending .fatbin, has the text take it from there, and gives
// each kernel and variable that the host side registers the name that it has in the
// device code. The error names what has no counterpart, or more than one.
func Join(ctx context.Context, object, text string) error {
	if err := join(ctx, object, text); err != nil {
		return fmt.Errorf("join %s with %s: %w", object, text, err)
	}
	return nil
}

func join(ctx context.Context, object, text string) error {
	f, err := os.Open(object)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	st, err := f.Stat()
	if err != nil {
		return err
	}
	dev, err := binary.ReadDevice(f, st.Size())
	if err != nil {
		return err
	}
	ir, err := os.ReadFile(text)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	fatbin := strings.TrimSuffix(text, filepath.Ext(text)) + ".fatbin"
	abs, err := filepath.Abs(fatbin)
	if err != nil {
		return err
	}
	ir, err = joinText(ir, dev, abs)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(fatbin, dev.Fatbin, 0o644); err != nil {
		return err
	}
	return atomicfile.WriteFile(text, ir, 0o644)
}

var (
	// What clang 19 to 21 write for a kernel and for a variable: the handle, the host's
	// own symbol, and the name twice.
	registerRE = regexp.MustCompile(`(?m)^.*\bcall .*@__cudaRegister(Function|Var)\(ptr [^,]+, ptr [^,]+, ptr (?:nonnull )?@([-\w.$]+), ptr (?:nonnull )?@([-\w.$]+),`)
	callRE     = regexp.MustCompile(`(?m)^.*\bcall .*@__cudaRegister(?:Function|Var|ManagedVar|Surface|Texture)\(`)
	constantRE = regexp.MustCompile(`(?m)^@([-\w.$]+) = private unnamed_addr constant \[(\d+) x i8\] c"([^"\\]*)\\00", align 1$`)
	codeRE     = regexp.MustCompile(`(?m)^@([-\w.$]+) = (?:private|internal) constant \[(\d+) x i8\] c"([^"]*)", section "\.nv_fatbin", align \d+$`)
)

// joinText returns the host side's text with the device code's names, and with a
// reference to the file that holds that code.
func joinText(ir []byte, dev binary.Device, fatbin string) ([]byte, error) {
	if strings.ContainsAny(fatbin, "\"\\\n") {
		return nil, fmt.Errorf("the folder of %s cannot be named in an assembler's text", fatbin)
	}
	registered := registerRE.FindAllSubmatch(ir, -1)
	if calls := len(callRE.FindAll(ir, -1)); calls != len(registered) {
		return nil, fmt.Errorf("the host side registers %d things with CUDA, of which %d can be read; its clang is newer "+
			"than those that were tried", calls, len(registered))
	}
	constants := map[string]string{}
	for _, m := range constantRE.FindAllSubmatch(ir, -1) {
		constants[string(m[1])] = string(m[3])
	}
	kernels, err := counterparts(dev.Kernels)
	if err != nil {
		return nil, err
	}
	variables, err := counterparts(dev.Variables)
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // constant -> its new text
	var errs []error
	for _, m := range registered {
		id := string(m[2])
		name, ok := constants[id]
		if !ok || string(m[3]) != id {
			return nil, fmt.Errorf("the host side registers @%s, which is not one constant text", id)
		}
		in, what := kernels, "kernel"
		if string(m[1]) == "Var" {
			in, what = variables, "variable"
		}
		switch found := in[plainName(name)]; len(found) {
		case 1:
			names[id] = found[0]
		case 0:
			errs = append(errs, fmt.Errorf("%s %s is not in the device code", what, demangle.Filter(name)))
		default:
			errs = append(errs, fmt.Errorf("%s %s may be %s in the device code: names that differ in long and long long "+
				"alone cannot be told apart", what, demangle.Filter(name), strings.Join(found, " or ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	ir = constantRE.ReplaceAllFunc(ir, func(line []byte) []byte {
		m := constantRE.FindSubmatch(line)
		name, ok := names[string(m[1])]
		if !ok {
			return line
		}
		return fmt.Appendf(nil, `@%s = private unnamed_addr constant [%d x i8] c"%s\00", align 1`, m[1], len(name)+1, name)
	})
	return embed(ir, fatbin, len(registered) > 0)
}

// embed makes the placeholder a reference to the file with the device code.
func embed(ir []byte, fatbin string, needed bool) ([]byte, error) {
	code := codeRE.FindAllSubmatchIndex(ir, -1)
	if len(code) == 0 && !needed {
		return ir, nil // no kernel on the host side, and so nothing that clang would register
	}
	if len(code) != 1 {
		return nil, fmt.Errorf("the host side holds device code in %d places, and one is expected", len(code))
	}
	m := code[0]
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(string(ir[m[6]:m[7]]), `\`, `\x`) + `"`); err != nil ||
		text != placeholder {
		return nil, errors.New("the host side was not compiled with llpatch's placeholder for the device code")
	}
	const symbol = "llpatch_device_code"
	id := ir[m[2]:m[3]]
	reference := regexp.MustCompile(`ptr @` + regexp.QuoteMeta(string(id)) + `([^-\w.$]|$)`) // and not of @id.1
	var out bytes.Buffer
	out.Write(ir[:m[0]])
	// One is local to each object: there is no .globl.
	fmt.Fprintf(&out, "@%s = external dso_local constant i8\n", symbol)
	for _, line := range []string{`.section .nv_fatbin,\22` + "FLAGS" + `\22`, ".p2align 3", symbol + ":", `.incbin \22` +
		fatbin + `\22`, ".text"} {
		fmt.Fprintf(&out, "module asm \"%s\"\n", strings.Replace(line, "FLAGS", sectionFlags(ir), 1))
	}
	out.Write(bytes.TrimPrefix(ir[m[1]:], []byte("\n")))
	return reference.ReplaceAll(out.Bytes(), []byte("ptr @"+symbol+"$1")), nil
}

var windowsRE = regexp.MustCompile(`(?m)^target triple = "[^"]*(windows|mingw)`)

// sectionFlags are those of read-only data, as the assembler of the text's system
// writes them: COFF's and ELF's.
func sectionFlags(ir []byte) string {
	if windowsRE.Match(ir) {
		return "dr"
	}
	return "a"
}

// counterparts sorts names by what both compilers agree on.
func counterparts(names []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, n := range names {
		if strings.ContainsAny(n, "\"\\") {
			return nil, fmt.Errorf("the device code has a name that cannot be written down: %q", n)
		}
		p := plainName(n)
		out[p] = append(out[p], n)
	}
	for _, alike := range out {
		slices.Sort(alike)
	}
	return out, nil
}

var (
	longRE    = regexp.MustCompile(`\blong long\b`)
	literalRE = regexp.MustCompile(`\b(\d+)(u?)ll\b`)
)

// plainName is a mangled name without that in which Linux and Windows differ: a
// 64-bit integer is long there and long long here, what is static is marked as such
// by one of them, and each has its own words for a namespace without a name.
func plainName(name string) string {
	s := internalRE.ReplaceAllString(demangle.Filter(name), "")
	s = longRE.ReplaceAllString(s, "long")
	s = literalRE.ReplaceAllString(s, "$1${2}l")
	return unnamedRE.ReplaceAllString(s, "(anonymous namespace)")
}

// nvcc's names, with a hash of the file's path, for a namespace without one, and for that
// in which it puts what is static and named in a template's arguments.
var (
	unnamedRE  = regexp.MustCompile(`\b_GLOBAL__N__[0-9A-Za-z_]+\b`)
	internalRE = regexp.MustCompile(`\b_INTERNAL_[0-9A-Za-z_]+::`)
)
