package patch

import (
	"bytes"
	"slices"
)

// isBlank reports whether a line holds nothing but white space.
func isBlank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// messageEnd returns the offset at which the message text ends: at a "---" line
// or at the first real file header.
func messageEnd(data []byte) int {
	for pos := 0; pos < len(data); pos = lineEnd(data, pos) {
		if startsMessageEnd(data, pos) {
			return pos
		}
	}
	return len(data)
}

func startsMessageEnd(data []byte, pos int) bool {
	line := data[pos:lineEnd(data, pos)]
	if bytes.HasPrefix(line, []byte("---")) && isBlank(line[3:]) {
		return true
	}
	if startsFile(data, pos) {
		return true
	}
	next := data[pos+len(line):]
	switch {
	case bytes.HasPrefix(line, []byte("Index: ")):
		return bytes.HasPrefix(next, []byte("==="))
	case bytes.HasPrefix(line, []byte("diff -")):
		return startsFile(data, pos+len(line))
	}
	return false
}

// gitHeaders are the lines that may follow "diff --git".
var gitHeaders = [][]byte{
	[]byte("old mode "), []byte("new mode "), []byte("deleted file mode "), []byte("new file mode "),
	[]byte("copy from "), []byte("copy to "), []byte("rename from "), []byte("rename to "),
	[]byte("rename old "), []byte("rename new "), []byte("similarity index "),
	[]byte("dissimilarity index "), []byte("index "), []byte("--- "), []byte("+++ "),
	[]byte("GIT binary patch"), []byte("Binary files "),
}

// startsFile reports whether a file's header begins at pos. A message may hold
// a line such as "diff --git a/x b/x"; a header goes on with more than that.
func startsFile(data []byte, pos int) bool {
	end := lineEnd(data, pos)
	switch {
	case bytes.HasPrefix(data[pos:end], []byte("diff --git ")):
		if bytes.HasPrefix(data[end:], []byte("--- ")) {
			return bytes.HasPrefix(data[lineEnd(data, end):], []byte("+++ "))
		}
		return slices.ContainsFunc(gitHeaders, func(p []byte) bool { return bytes.HasPrefix(data[end:], p) })
	case bytes.HasPrefix(data[pos:end], []byte("--- ")):
		third := lineEnd(data, end)
		return bytes.HasPrefix(data[end:], []byte("+++ ")) && bytes.HasPrefix(data[third:], []byte("@@ -"))
	}
	return false
}
