// Package llpatch holds the repository's own patches, recipes and toolchains,
// so that an installed binary works without a checkout.
package llpatch

import "embed"

// Declarations is the root of the declarations: patches/, recipes/, toolchains/.
//
//go:embed patches recipes toolchains
var Declarations embed.FS
