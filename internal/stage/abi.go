package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
)

// ABI compares what a backend library takes from ggml with what the programs and
// libraries of a folder give.
func ABI(ctx context.Context, name string, lib *binary.File, bin string, host []*binary.File) error {
	given := map[string]bool{}
	for _, f := range host {
		whole, err := binary.InspectContext(ctx, filepath.Join(bin, f.Name))
		if err != nil {
			return err
		}
		for _, s := range whole.Exports() {
			given[s.Name] = true
		}
	}
	if lib.PE != nil {
		return abiPE(name, lib.PE, given)
	}
	var errs []error
	for _, s := range lib.Imports() { // ggml's have no version
		if s.Version == "" && (strings.Contains(s.Name, "ggml") || strings.Contains(s.Name, "gguf")) && !given[s.Name] {
			errs = append(errs, &binary.Rejected{
				File:  name,
				Fault: fmt.Sprintf("needs the symbol %s, which the stock build of this tag does not have: it is no drop-in", s),
			})
		}
	}
	return errors.Join(errs...)
}

// abiPE is ABI for a DLL. Of ggml's DLLs it may take only C functions: those of C++ have
// other names where Microsoft's compiler made the DLL, as it makes upstream's, and
// other rules for what goes in and out.
func abiPE(name string, lib *binary.PE, given map[string]bool) error {
	var errs []error
	for _, dll := range lib.Imports {
		if !strings.HasPrefix(strings.ToLower(dll.DLL), "ggml") {
			continue
		}
		for _, s := range dll.Functions {
			switch {
			case strings.HasPrefix(s, "_Z") || strings.HasPrefix(s, "?") || strings.HasPrefix(s, "#"):
				errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf("takes %s from %s, which is no C function: "+
					"upstream's package, made by another compiler, cannot give it, so it is no drop-in", s, dll.DLL)})
			case !given[s]:
				errs = append(errs, &binary.Rejected{File: name, Fault: fmt.Sprintf("needs %s of %s, which the stock build of "+
					"this tag does not have: it is no drop-in", s, dll.DLL)})
			}
		}
	}
	return errors.Join(errs...)
}
