package chain

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// Staged is a build laid out as it will be shipped, verified and signed.
type Staged struct {
	Built
	stagedRecord
}

// stagedRecord says what the staged files are.
type stagedRecord struct {
	Entries map[string]string `json:"entries"` // their inventory
	Files   []*binary.File    `json:"files"`
	authenticode.Signed
}

// Top is the folder whose content becomes the archive. In a tar.gz it lies in a
// folder called as the archive is, so that bundles of several targets and levels, and
// upstream's own llama-<tag>/, can be unpacked side by side (docs/adr/0011); a zip has
// no folder, as upstream's have none: Windows makes one.
func (b Built) Top() string {
	return b.own(filepath.Join("stage", bundle.Top(b.Tree.Tag.Short(), b.Recipe)))
}

// Stage lays the built files out as they will be shipped, verifies them against the recipe,
// and signs them where there is a signer: what is checked and packed is what was signed.
// Staged files that are there already and are right are left alone.
func Stage(ctx context.Context, e Workspace, b Built, signer *authenticode.Signer) (Staged, error) {
	s := Staged{Built: b}
	how, err := signer.ID()
	if err != nil {
		return s, err
	}
	libs := ""
	if b.libs != nil {
		libs = b.libs.Digest
	}
	key, err := digest(b.Artifacts.Files, b.Recipe.Programs, b.Recipe.Bundle, b.Recipe.Verify, libs, how)
	if err != nil {
		return s, err
	}
	s.stagedRecord, err = Memo(b.own("stage.json"), key, func(r stagedRecord) bool {
		have, err := inventory(b.Top())
		return err == nil && maps.Equal(have, r.Entries)
	}, func() (stagedRecord, error) { return lay(ctx, e, b, signer) })
	return s, err
}

// lay is Stage where nothing is there.
func lay(ctx context.Context, e Workspace, b Built, signer *authenticode.Signer) (r stagedRecord, err error) {
	if b.DropIn == "" {
		r.Files, err = stage.Lay(b.Artifacts, b.Top(), b.Recipe, b.libsRoot())
	} else {
		r.Files, err = stage.LayDropIn(b.Artifacts, b.Top(), b.DropIn, b.Recipe.Verify)
	}
	if err != nil {
		return r, fmt.Errorf("verify %s %s: %w", b.Tree.Tag, b.Recipe.Name, err)
	}
	if r.Signed, err = sign(ctx, e, b.Recipe.Bundle, b.Top(), r.Files, signer); err != nil {
		return r, err
	}
	r.Entries, err = inventory(b.Top())
	return r, err
}

// sign signs what was built of the staged files. What others made and a full bundle carries
// stays as its makers gave it out.
func sign(
	ctx context.Context, e Workspace, b spec.Bundle, top string, files []*binary.File, signer *authenticode.Signer,
) (authenticode.Signed, error) {
	mine := slices.DeleteFunc(slices.Clone(files), func(f *binary.File) bool { return stage.Carries(b, f.Name) })
	signed, err := signer.SignAll(ctx, top, mine, e.Progress)
	if err == nil && signer != nil {
		e.Log.Info("signed", "files", len(signed.Unsigned), "by", signed.Signer)
	}
	return signed, err
}

// inventory lists what lies in a folder of programs, but for what packing adds.
func inventory(top string) (map[string]string, error) { return stage.Inventory(top, bundle.IsExtra) }

// libsRoot is the root that a full bundle's libraries are taken from; empty: this machine.
func (b Built) libsRoot() string {
	if b.libs == nil {
		return ""
	}
	return b.libs.Root
}
