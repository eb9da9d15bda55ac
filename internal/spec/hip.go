package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// HIP holds what the AMD device code in built binaries must be.
type HIP struct {
	Files []string `toml:"files" json:"files"` // names of the files that hold it, with * and ?; each must be there
	// code objects for exactly these, as clang writes a target: gfx1201, gfx12-generic,
	// gfx90a:xnack-
	Archs []string `toml:"archs" json:"archs"`
}

// gfxRE is a target id of clang's (LLVM, "User Guide for AMDGPU Backend", "Target ID"):
// a processor or a generic one, then what must be on or off.
var gfxRE = regexp.MustCompile(`^gfx[0-9][0-9a-f]{2,4}(-generic)?(:sramecc[+-])?(:xnack[+-])?$|^gfx[0-9]{1,2}(-[0-9])?-generic(:sramecc[+-])?(:xnack[+-])?$`)

// GFX reports whether s is a target as clang writes it, such as gfx1201.
func GFX(s string) bool { return gfxRE.MatchString(s) }

// SetGFX makes the recipe build and ask for device code of other AMD targets than it
// names: those of list, joined by commas. The error says what is wrong with the list,
// or that the recipe builds for no AMD card.
func (r *Recipe) SetGFX(list string) error {
	if r.Verify.HIP == nil {
		return fmt.Errorf("%s builds for no AMD card", r.Name)
	}
	h := *r.Verify.HIP
	h.Archs = nil
	for name := range strings.SplitSeq(list, ",") {
		if !GFX(name) {
			return fmt.Errorf("%q is not a target of AMD's: gfx1201, gfx12-generic; several are joined by commas", name)
		}
		if !slices.Contains(h.Archs, name) {
			h.Archs = append(h.Archs, name)
		}
	}
	r.Verify.HIP = &h
	return nil
}

// hip checks what a recipe says of its AMD device code.
func (f *file) hip(rec *Recipe) {
	h := rec.Verify.HIP
	switch builds := slices.Contains(rec.Backends, "hip"); {
	case h == nil && builds:
		f.fail("verify", "it builds the backend hip and has no verify.hip: which code objects must be in its files")
		return
	case h == nil:
		return
	case !builds:
		f.fail("verify.hip", "verify.hip is for recipes that build the backend hip, which backends does not name")
	}
	f.refuse(len(h.Files) == 0, "verify.hip.files",
		"verify.hip says no files: name those that hold device code, such as libggml-hip.so")
	f.names("verify.hip.files", h.Files)
	f.refuse(len(h.Archs) == 0, "verify.hip.archs",
		"verify.hip says no archs: name the targets, such as gfx1201; without them a machine with no card builds for "+
			"another one")
	for i, a := range h.Archs {
		f.refuse(!GFX(a), "verify.hip.archs",
			"%q is not a target as clang writes it, such as gfx1201 or gfx12-generic", a)
		f.refuse(slices.Contains(h.Archs[:i], a), "verify.hip.archs", "%s is named twice", a)
	}
}
