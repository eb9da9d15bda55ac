// Package compat says which patch fits which tag: it judges a stack of patches
// on every tag of a repository's history without checking one out, and finds
// the commit that broke a patch. A patch's verdict depends only on the files
// that it touches, so each patch is judged once on each set of their blobs.
package compat
