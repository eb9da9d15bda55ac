// Package run is the only package that starts programs. Every program gets a
// small supervisor, llpatch started once more, that outlives nothing and leaves
// nothing behind: when the program ends, when the caller asks, or when the
// caller dies, it ends every descendant before it ends itself.
//
// The supervisor needs Linux. Elsewhere a program is started directly in its
// own process group, and ending it reaches that group only (on Windows the
// program alone): a descendant that left the group, or a caller that is killed,
// can leave something behind there.
package run
