package binary_test

import (
	"path/filepath"
	"strings"
	"testing"

	inspect "github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestVerifyHIP(t *testing.T) {
	one, all := readHIP(t, "version4.hipfb"), readHIP(t, "plain.hipfb")
	// A bundle with the host's part alone, as clang writes it for host code only.
	hollow := append([]byte("__CLANG_OFFLOAD_BUNDLE__\x01\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00\x00\x00\x00\x00"), "host-x86_64-unknown-linux-gnu"...)
	hollow = append(hollow, make([]byte, 4096)...)
	lie := []byte(strings.Replace(string(one), "--gfx1201", "--gfx1100", 1))
	file := []string{"libggml-hip.so"}
	for name, c := range map[string]struct {
		bundles [][]byte
		archs   []string
		say     []string
	}{
		"exactly": {[][]byte{one, one}, []string{"gfx1201"}, nil},
		"several": {[][]byte{all}, []string{
			"gfx1200", "gfx1201", "gfx12-generic", "gfx906",
			"gfx90a:sramecc+:xnack+", "gfx90a:sramecc+:xnack-",
		}, nil},
		"too many": {[][]byte{one, all}, []string{"gfx1201"}, []string{"holds code for gfx906 gfx1200 " +
			"gfx12-generic gfx90a:sramecc+:xnack+ gfx90a:sramecc+:xnack-; the recipe's verify.hip wants exactly gfx1201"}},
		"another": {[][]byte{one}, []string{"gfx1200"}, []string{
			"holds code for gfx1201",
			"lacks code for gfx1200 in 1 of 1 offload bundles",
		}},
		"in one only": {[][]byte{one, all}, []string{
			"gfx1200", "gfx1201", "gfx12-generic", "gfx906",
			"gfx90a:sramecc+:xnack+", "gfx90a:sramecc+:xnack-",
		}, []string{
			"lacks code for gfx1200 in 1 of 2",
			"lacks code for gfx12-generic in 1 of 2", "lacks code for gfx906 in 1 of 2",
			"lacks code for gfx90a:sramecc+:xnack+ in 1 of 2", "lacks code for gfx90a:sramecc+:xnack- in 1 of 2",
		}},
		"a bundle of none": {
			[][]byte{one, hollow},
			[]string{"gfx1201"},
			[]string{"1 of 2 offload bundles hold no code object"},
		},
		"none at all":    {[][]byte{hollow}, []string{"gfx1201"}, []string{"holds no code object in its offload bundles"}},
		"host code only": {nil, []string{"gfx1201"}, []string{"holds no AMD device code"}},
		"a lie": {
			[][]byte{lie},
			[]string{"gfx1201"},
			[]string{"the bundle says gfx1100, the code object in it gfx1201"},
		},
		"rubbish": {
			[][]byte{one, []byte("rubbish, and more of it than a magic")},
			[]string{"gfx1201"},
			[]string{"is no offload bundle"},
		},
	} {
		dir := filepath.Dir(embedHIP(t, nil, c.bundles...))
		_, err := inspect.Verify(dir, file, spec.Verify{Needed: []string{"*"}, HIP: &spec.HIP{Files: file, Archs: c.archs}})
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(c.say) {
			t.Errorf("%s: %v, want %v", name, err, c.say)
			continue
		}
		for i, say := range c.say {
			if !strings.Contains(lines[i], say) {
				t.Errorf("%s: %q does not say %q", name, lines[i], say)
			}
		}
	}
	_, err := inspect.Verify(t.TempDir(), nil, spec.Verify{HIP: &spec.HIP{Files: file, Archs: []string{"gfx1201"}}})
	if err == nil || !strings.Contains(err.Error(),
		"libggml-hip.so: is not in the bundle: this is a build for the processor alone") {
		t.Errorf("no such file: %v", err)
	}
}
