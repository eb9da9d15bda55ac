package binary

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// What nvcc 11.8 made of internal/build/testdata/join/kernels.cu, for two archs.
func deviceObject(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../build/testdata/join/kernels.nvcc.o")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadDevice(t *testing.T) {
	data := deviceObject(t)
	d, err := ReadDevice(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Kernels) != 7 || !slices.Contains(d.Kernels, "_Z5scaleIfLi3EEvPKT_PS0_lm") ||
		!slices.Equal(d.Variables, []string{"counter"}) {
		t.Errorf("kernels %q, variables %q", d.Kernels, d.Variables)
	}
	f, err := Read(bytes.NewReader(d.Fatbin), int64(len(d.Fatbin)))
	if err != nil || len(f.CUDA.Code) != 2 || f.CUDA.Code[0].Arch != "sm_75" || f.CUDA.Code[1].Arch != "sm_86" {
		t.Errorf("the device code is %+v, %v", f, err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no ELF file":    {[]byte("MZ"), "EOF"},
		"no device code": {bytes.ReplaceAll(data, []byte(".nv_fatbin"), []byte(".xx_fatbin")), "holds no device code"},
		"cut off":        {data[:len(data)/2], ""},
	} {
		if _, err := ReadDevice(bytes.NewReader(c.data), int64(len(c.data))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := bytes.Index(data, []byte{0x50, 0xed, 0x55, 0xba}); i < len(data); i += 97 {
		broken := bytes.Clone(data)
		broken[i] ^= 0xff // an error, or other names: no panic
		_, _ = ReadDevice(bytes.NewReader(broken), int64(len(broken)))
	}
}

func FuzzReadDevice(f *testing.F) {
	data := deviceObject(f)
	f.Add(data)
	f.Add(data[:200])
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ReadDevice(bytes.NewReader(data), int64(len(data)))
		if err == nil && !slices.IsSorted(d.Kernels) {
			t.Errorf("not sorted: %q", d.Kernels)
		}
	})
}
