// Package release runs the chain from a tag to a bundle and writes what each
// stage made, so that a stopped chain goes on where it stopped and a release
// can explain itself.
package release
