package build

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
)

// joinCase copies the two files of testdata/join into a folder of the test's own.
func joinCase(t *testing.T, change func(text string) string) (object, text string) {
	t.Helper()
	dir := t.TempDir()
	object, text = filepath.Join(dir, "k.obj.nvcc.o"), filepath.Join(dir, "k.obj.ll")
	for from, to := range map[string]string{"kernels.nvcc.o": object, "kernels.ll": text} {
		data, err := os.ReadFile(filepath.Join("testdata", "join", from))
		if err != nil {
			t.Fatal(err)
		}
		if to == text && change != nil {
			data = []byte(change(string(data)))
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return object, text
}

func device(t *testing.T, object string) binary.Device {
	t.Helper()
	data, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	d, err := binary.ReadDevice(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every kernel gets the name that nvcc gave it, and the code comes from a file.
func TestJoin(t *testing.T) {
	object, text := joinCase(t, nil)
	d := device(t, object)
	if len(d.Kernels) != 7 || len(d.Variables) != 1 {
		t.Fatalf("kernels %q, variables %q", d.Kernels, d.Variables)
	}
	if err := Join(t.Context(), object, text); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(d.Kernels, d.Variables...) {
		if n := bytes.Count(out, []byte(`c"`+name+`\00"`)); n != 1 {
			t.Errorf("%s stands in the text %d times", name, n)
		}
	}
	if bytes.Contains(out, []byte(strings.TrimSpace(placeholder))) {
		t.Error("the placeholder is still there")
	}
	fatbin := strings.TrimSuffix(text, ".ll") + ".fatbin"
	for _, want := range []string{
		`module asm ".incbin \22` + fatbin + `\22"`, `.section .nv_fatbin,\22dr\22`,
		"i32 1, ptr @llpatch_device_code, ptr null",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the text has no %s", want)
		}
	}
	f, err := binary.Inspect(fatbin)
	if err != nil || f.CUDA == nil || len(f.CUDA.Code) != 2 {
		t.Errorf("the device code beside it: %+v, %v", f, err)
	}
	// Once more: the text has no placeholder now, and is left as it is.
	if err := Join(t.Context(), object, text); err == nil || !strings.Contains(err.Error(), "device code in 0 places") {
		t.Errorf("joined twice: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	swap := func(old, with string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, with, 1) }
	}
	for name, c := range map[string]struct {
		change func(string) string
		want   string
	}{
		"a kernel that nvcc did not make": {
			swap(`c"_ZL5scaleIfLi3EEvPKT_PS0_xy\00"`, `c"_ZL5scaleIfLi7EEvPKT_PS0_xy\00"`),
			"kernel void scale<float, 7>(float const*, float*, long long, unsigned long long) is not in the device code",
		},
		"a variable that is not there": {
			swap(`[8 x i8] c"counter\00"`, `[8 x i8] c"another\00"`),
			"variable another is not in the device code",
		},
		"another placeholder": {
			swap("llpatch device code", "whatever device code"),
			"not compiled with llpatch's placeholder",
		},
		"a call that cannot be read": {swap("ptr nonnull @__device_stub__plain",
			"ptr nonnull getelementptr (i8, ptr @x, i64 1)"), "can be read"},
		"a name that is no constant": {swap(`c"plain\00"`, `c"pla\22n\00"`), "is not one constant text"},
	} {
		object, text := joinCase(t, c.change)
		before, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := Join(t.Context(), object, text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		after, err := os.ReadFile(text)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the text was changed, %v", name, err)
		}
	}
	object, text := joinCase(t, nil)
	if err := Join(t.Context(), text, text); err == nil {
		t.Error("a text is no object")
	}
	if err := Join(t.Context(), object, text+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no text: %v", err)
	}
}

// What has a longer name than the placeholder is left alone.
func TestEmbedName(t *testing.T) {
	out, err := embed([]byte(`@code = private constant [20 x i8] c"llpatch device code\0A", section ".nv_fatbin", align 8
@a = global { ptr, ptr } { ptr @code, ptr @code.1 }, align 8
@b = global ptr @code
`), "/x.fatbin", true)
	if err != nil || !bytes.Contains(out, []byte("{ ptr @llpatch_device_code, ptr @code.1 }")) ||
		!bytes.HasSuffix(out, []byte("@b = global ptr @llpatch_device_code\n")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Names that differ in long and long long alone cannot be told apart.
func TestJoinAmbiguous(t *testing.T) {
	object, text := joinCase(t, nil)
	d := device(t, object)
	d.Kernels = append(d.Kernels, "_Z5scaleIfLi3EEvPKT_PS0_xy")
	ir, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := joinText(ir, d, "/x.fatbin"); err == nil || !strings.Contains(err.Error(), "cannot be told apart") {
		t.Errorf("got %v", err)
	}
}

// What the two compilers call the same.
func TestPlainName(t *testing.T) {
	for _, pair := range [][2]string{
		{"_ZL5scaleIfLi3EEvPKT_PS0_xy", "_Z5scaleIfLi3EEvPKT_PS0_lm"},
		{"_Z5sizedILy128EEvPf", "_Z5sizedILm128EEvPf"},
		{"_ZN12_GLOBAL__N_16hiddenEPf", "_ZN33_GLOBAL__N__ba8016c4_4_k_cu_plain6hiddenEPf"},
		{
			"_ZL9cpy_f32_qIXadL_ZL19cpy_blck_f32_iq4_nlPKcPcEELi32EEvS1_S2_xxx",
			"_Z9cpy_f32_qIXadL_ZN36_INTERNAL_c3a03e46_6_cpy_cu_bfba63e219cpy_blck_f32_iq4_nlEPKcPcEELi32EEvS2_S3_lll",
		},
		{"plain", "plain"},
	} {
		if a, b := plainName(pair[0]), plainName(pair[1]); a != b {
			t.Errorf("%s is %s, and %s is %s", pair[0], a, pair[1], b)
		}
	}
	if plainName("_Z1kIiEvPT_") == plainName("_Z1kIjEvPT_") {
		t.Error("int and unsigned are the same")
	}
}

// A text that somebody changed is refused, or joined: it never ends the program.
func FuzzJoin(f *testing.F) {
	ir, err := os.ReadFile("testdata/join/kernels.ll")
	if err != nil {
		f.Fatal(err)
	}
	object, err := os.ReadFile("testdata/join/kernels.nvcc.o")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ir, object)
	f.Add(ir[:len(ir)/2], object[:len(object)/2])
	f.Fuzz(func(t *testing.T, ir, object []byte) {
		d, err := binary.ReadDevice(bytes.NewReader(object), int64(len(object)))
		if err != nil {
			d = binary.Device{Kernels: []string{"plain"}}
		}
		out, err := joinText(ir, d, "/x.fatbin")
		if err == nil && bytes.Contains(out, []byte(`section ".nv_fatbin"`)) &&
			bytes.Contains(ir, []byte("__cudaRegisterFunction(")) && len(registerRE.FindAll(ir, -1)) > 0 {
			t.Error("the placeholder is still there")
		}
	})
}
