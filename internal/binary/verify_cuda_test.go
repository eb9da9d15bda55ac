package binary_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	inspect "github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/spec"
)

func TestVerifyCUDA(t *testing.T) {
	const host = "const char *name = \"x\"; const char *f(void) { return name; }\n"
	even := filepath.Dir(embed(t, map[string][]string{".nv_fatbin": {"cuda-11.8-lz4.fatbin", "cuda-11.8-none.fatbin"}},
		host))
	uneven := filepath.Dir(embed(t, map[string][]string{".nv_fatbin": {"cuda-11.8-lz4.fatbin", "cuda-13.5-none.fatbin"}},
		host))
	nothing := filepath.Dir(embed(t, nil, host))
	objects := filepath.Dir(embed(t, map[string][]string{"__nv_relfatbin": {"cuda-13.5-none.fatbin"}}, host))
	file := []string{"libggml-cuda.so"}
	for name, c := range map[string]struct {
		dir  string
		want spec.CUDA
		say  []string
	}{
		"exactly": {
			even,
			spec.CUDA{Files: file, Archs: []string{"sm_75", "sm_86"}, PTX: []string{"compute_86"}},
			nil,
		},
		"at least":        {even, spec.CUDA{Files: file, AtLeast: []string{"sm_86"}}, nil},
		"uneven, in both": {uneven, spec.CUDA{Files: file, AtLeast: []string{"sm_86"}, PTX: []string{"compute_86"}}, nil},
		"too many": {
			even,
			spec.CUDA{Files: file, Archs: []string{"sm_86"}},
			[]string{"holds machine code for sm_75; the recipe's verify.cuda wants exactly sm_86"},
		},
		"too few": {
			even,
			spec.CUDA{Files: file, AtLeast: []string{"sm_86", "sm_89"}},
			[]string{"lacks code for sm_89 in 2 of 2 fatbins"},
		},
		"another suffix": {even, spec.CUDA{Files: file, AtLeast: []string{"sm_86a"}}, []string{"lacks code for sm_86a"}},
		"in one only": {
			uneven,
			spec.CUDA{Files: file, AtLeast: []string{"sm_75"}},
			[]string{"lacks code for sm_75 in 1 of 2 fatbins"},
		},
		"no PTX wanted": {
			even,
			spec.CUDA{Files: file, AtLeast: []string{"sm_86"}, PTX: []string{}},
			[]string{"holds PTX for compute_86; the recipe's verify.cuda wants none"},
		},
		"other PTX": {
			even,
			spec.CUDA{Files: file, AtLeast: []string{"sm_86"}, PTX: []string{"compute_80"}},
			[]string{"holds PTX for compute_86", "lacks code for compute_80"},
		},
		"host code only": {
			nothing,
			spec.CUDA{Files: file, AtLeast: []string{"sm_86"}},
			[]string{"holds no CUDA device code"},
		},
		"no such file": {
			even,
			spec.CUDA{Files: []string{"libggml-cuda.so", "llama-*"}, AtLeast: []string{"sm_86"}},
			[]string{"llama-*: is not in the bundle: this is a build for the processor alone"},
		},
		"not linked": {
			objects,
			spec.CUDA{Files: file, AtLeast: []string{"sm_86"}},
			[]string{"relocatable device code that was not linked"},
		},
	} {
		_, err := inspect.Verify(c.dir, file, spec.Verify{Needed: []string{"*"}, CUDA: &c.want})
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
	// What linking adds, and nothing else: NVIDIA's libnppc of 11.8 is such a file.
	added := read(t, "linked.fatbin")[:576]
	if f := parse(t, added); f.CUDA.Fatbins != 1 || len(f.CUDA.Faults) > 0 || inspect.Judge(f) != nil {
		t.Errorf("no kernel: %+v", f.CUDA)
	}
	if err := os.WriteFile(filepath.Join(even, "libnppc.so"), added, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := inspect.Verify(even, []string{"libnppc.so"},
		spec.Verify{CUDA: &spec.CUDA{Files: []string{"libnppc.so"}, AtLeast: []string{"sm_86"}}})
	if err == nil || !strings.Contains(err.Error(), "holds no kernel") {
		t.Errorf("no kernel: %v", err)
	}
	// A fatbin that contradicts itself is refused, whatever it says it holds.
	path := filepath.Join(even, "libggml-cuda.so")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := read(t, "cuda-11.8-none.fatbin")
	at := strings.Index(string(data), string(whole))
	data[at+16+28] = 86
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = inspect.Verify(even, file, spec.Verify{
		Needed: []string{"*"},
		CUDA:   &spec.CUDA{Files: file, AtLeast: []string{"sm_86"}},
	})
	if err == nil || !strings.Contains(err.Error(), "the fatbin says sm_86, the cubin in it sm_75") {
		t.Errorf("a lie: %v", err)
	}
}
