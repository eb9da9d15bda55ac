//go:build !unix

package build

// diskFull is not asked on systems that build nothing: only the programs' own
// words count there.
func diskFull(string) bool { return false }

// FreeDisk tells nothing here.
func FreeDisk(string) (free int64, ok bool) { return 0, false }
