package binary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of versions that differ in a number the highest counts, of the libraries that are not inside.
func TestOutsideVersions(t *testing.T) {
	files := []*File{
		{Name: "bin/app", importedVersions: []ImportedVersion{
			{"libc.so.6", "GLIBC_2.9"},
			{"libc.so.6", "GLIBC_2.34"},
			{"libc.so.6", "GLIBC_2.2.5"},
			{"libc.so.6", "GLIBC_PRIVATE"},
			{"libstdc++.so.6", "GLIBCXX_3.4.30"},
			{"libstdc++.so.6", "CXXABI_1.3.9"},
			{"libown.so.1", "OWN_1"},
		}},
		{Name: "lib/libown.so.1.2", SOName: "libown.so.1", importedVersions: []ImportedVersion{
			{"libc.so.6", "GLIBC_ABI_DT_RELR"},
			{"libc.so.6", "GLIBC_2.4"},
			{"libstdc++.so.6", "GLIBCXX_3.4.5"},
			{"libcudart.so.12", "libcudart.so.12"},
			{"libamdhip64.so.6", "hip_4.2"},
			{"libamdhip64.so.6", "hip_6.0"},
		}},
	}
	want := map[string][]string{
		"libc.so.6":        {"GLIBC_2.34", "GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE"},
		"libstdc++.so.6":   {"CXXABI_1.3.9", "GLIBCXX_3.4.30"},
		"libcudart.so.12":  {"libcudart.so.12"},
		"libamdhip64.so.6": {"hip_6.0"},
	}
	if d := cmp.Diff(want, OutsideVersions(files)); d != "" {
		t.Error(d)
	}
}

func TestNewestCapability(t *testing.T) {
	newest := NewestCapability()
	if !KnownCapability(newest) {
		t.Errorf("%s is not known", newest)
	}
	for _, c := range cards {
		if Less(newest, c.cc.Capability()) {
			t.Errorf("%s is newer than %s", c.cc.Capability(), newest)
		}
	}
}
