// Package spec loads and validates every declaration (fixes, recipes,
// toolchains, sources, locks) and chooses the series of fixes for a tag and a
// target. It reads a file system and starts nothing.
package spec
