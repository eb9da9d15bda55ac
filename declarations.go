// Package llpatch holds the repository's own patches, recipes, toolchains and
// buildenvs, so that an installed binary works without a checkout.
package llpatch

import "embed"

// Declarations is the root of the declarations: buildenv/, patches/, recipes/, toolchains/.
//
//go:embed buildenv patches recipes toolchains
var Declarations embed.FS
