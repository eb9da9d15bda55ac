package patch

import (
	"bytes"
)

// message is one mail of an mbox, or a whole patch file.
type message struct {
	commit string // of the mbox line, if there was one
	data   []byte // without the mbox line
	line   int    // 1-based line of the file on which data begins
}

// splitMbox cuts a file at its "From <40 hex digits> " lines. Only format-patch
// writes those; the "From someone@host" of mail programs stands in too many
// messages to cut there. The line after it must be a mail header, so that a
// message which quotes such a line stays whole.
func splitMbox(data []byte) []message {
	var out []message
	cur := message{line: 1}
	start, no := 0, 1
	for pos := 0; pos < len(data); no++ {
		end := lineEnd(data, pos)
		if commit, ok := mboxLine(data[pos:end]); ok && isField(data[end:lineEnd(data, end)]) {
			cur.data = data[start:pos]
			if cur.commit != "" || len(bytes.TrimSpace(cur.data)) > 0 {
				out = append(out, cur)
			}
			cur = message{commit: commit, line: no + 1}
			start = end
		}
		pos = end
	}
	cur.data = data[start:]
	return append(out, cur)
}

// Split cuts the bytes of a patch file into its mails, each a patch file of its own, and
// leaves out the introduction of a series.
func Split(data []byte) [][]byte {
	var out [][]byte
	for _, m := range splitMbox(data) {
		if coverLetter.Match(m.data) {
			continue
		}
		if m.commit != "" { // with the line that began it
			at := bytes.Index(data, m.data)
			start := bytes.LastIndexByte(data[:at-1], '\n') + 1
			out = append(out, data[start:at+len(m.data)])
			continue
		}
		out = append(out, m.data)
	}
	return out
}

// lineEnd returns the offset behind the line that begins at pos.
func lineEnd(data []byte, pos int) int {
	if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(data)
}

// mboxLine returns the commit that an mbox line of format-patch names.
func mboxLine(line []byte) (string, bool) {
	const prefix, digits = "From ", 40
	if len(line) <= len(prefix)+digits || string(line[:len(prefix)]) != prefix || line[len(prefix)+digits] != ' ' {
		return "", false
	}
	id := line[len(prefix) : len(prefix)+digits]
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return string(id), true
}

// unescapeFrom removes the ">" that was put before a body line which would
// otherwise have been read as an mbox line. As in git, other ">From" lines are
// quotations and stay.
func unescapeFrom(line []byte) []byte {
	rest := bytes.TrimLeft(line, ">")
	if len(rest) == len(line) {
		return line
	}
	if _, ok := mboxLine(rest); ok {
		return line[1:]
	}
	return line
}
