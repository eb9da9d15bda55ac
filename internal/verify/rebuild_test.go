package verify

import (
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
)

// Only what the manifest names may differ, and only where it can.
func TestMayDiffer(t *testing.T) {
	const number = "the number of nvcc's process, in the names of what is local to a file"
	both := [2]int64{100, 100}
	code := binary.SectionDiffers{
		Name: ".nv_fatbin", Sizes: both, Left: 20,
		Causes: []string{number, "1 of 2 pieces of device code differ"},
	}
	for _, c := range []struct {
		name     string
		what     string
		sections []binary.SectionDiffers
		may      bool
	}{
		{"device code and names", bundle.DeviceCode, []binary.SectionDiffers{
			code,
			{Name: ".strtab", Sizes: both, Causes: []string{number}},
		}, true},
		{"the build id follows", bundle.DeviceCode, []binary.SectionDiffers{
			code,
			{Name: binary.BuildID, Sizes: both, Causes: []string{"it is a hash of the other sections"}},
		}, true},
		{"not named", "", []binary.SectionDiffers{code}, false},
		{"another thing is named", bundle.Signature, []binary.SectionDiffers{code}, false},
		{"host code too", bundle.DeviceCode, []binary.SectionDiffers{code, {Name: ".text", Sizes: both, Left: 1}}, false},
		{"another compiler", bundle.DeviceCode, []binary.SectionDiffers{
			code,
			{Name: ".comment", Sizes: both, Causes: []string{"other compilers: x in A, y in B"}},
		}, false},
		{"a time", bundle.DeviceCode, []binary.SectionDiffers{{
			Name: ".rodata", Sizes: both,
			Causes: []string{"the date of the build (__DATE__)"},
		}}, false},
		{"no device code", bundle.DeviceCode, []binary.SectionDiffers{{
			Name: ".nv_fatbin", Sizes: [2]int64{100, -1},
			Left: 100,
		}}, false},
		{"a text", bundle.DeviceCode, []binary.SectionDiffers{{Name: "(content)", Sizes: both, Left: 3}}, false},
	} {
		info := &bundle.Info{MayDiffer: []bundle.MayDiffer{{What: c.what}}}
		if may := mayDiffer(info, binary.FileDiffers{
			Path: "libggml-cuda.so", Bytes: 1,
			Sections: c.sections,
		}) != ""; may != c.may {
			t.Errorf("%s: %v", c.name, may)
		}
	}
	if mayDiffer(&bundle.Info{MayDiffer: []bundle.MayDiffer{{What: bundle.DeviceCode}}},
		binary.FileDiffers{Path: "x", Why: "only in A"}) != "" {
		t.Error("a file that one of them lacks may differ")
	}
}
