// Package buildenv makes root file systems to build in, out of the packages that a
// buildenv's lock names, and runs programs inside them. A root is unpacked by
// the user who asks for it, without maintainer scripts, and is read-only in use.
// NVIDIA's archives and Python's wheels become folders in the same way, in which nothing runs.
package buildenv
