package patch

import (
	"bytes"
	"strings"
	"time"
)

// hunk copies one hunk to sec.text. It mends what mailers and editors break
// without loss of meaning, and refuses a hunk that does not have the lines that
// its header promises.
func (s *scanner) hunk(sec *section) error {
	at := s.no
	head := header(s.next())
	c, err := hunkHeader(head)
	if err != nil {
		return s.fail(at, "%v", err)
	}
	if c.oldN+c.newN > 2*len(s.data) {
		return s.fail(at, "hunk promises %d lines, more than the file could hold", c.oldN+c.newN)
	}
	sec.atLines = append(sec.atLines, at)
	sec.text.WriteString(head)
	sec.text.WriteByte('\n')
	oldN, newN, changed := c.oldN, c.newN, false
	for oldN > 0 || newN > 0 {
		line := s.peek()
		if line == nil {
			return s.fail(s.no-1, "truncated at line %d: the hunk of line %d lacks %s", s.no-1, at, lacking(oldN, newN))
		}
		mark := line[0]
		if line[len(line)-1] != '\n' && mark != '\\' {
			return s.fail(s.no, "truncated at line %d: the last line has no newline", s.no)
		}
		switch {
		case mark == ' ':
			oldN, newN = oldN-1, newN-1
		case mark == '\n' || mark == '\r' && len(line) == 2:
			// An editor removed the space of a blank context line.
			oldN, newN = oldN-1, newN-1
			sec.text.WriteByte(' ')
		case mark == '-':
			oldN, changed = oldN-1, true
		case mark == '+':
			newN, changed = newN-1, true
		case isNoNewline(line):
		default:
			return s.fail(at, "hunk lacks %s: line %d is %s", lacking(oldN, newN), s.no, shorten(header(line)))
		}
		if oldN < 0 || newN < 0 {
			return s.fail(at, "hunk header promises %d old and %d new lines, but line %d is one more", c.oldN, c.newN, s.no)
		}
		sec.text.Write(s.next())
	}
	if !changed {
		return s.fail(at, "hunk changes nothing")
	}
	if line := s.peek(); isNoNewline(line) {
		sec.text.WriteString("\\ No newline at end of file\n")
		s.next()
	}
	if s.goesOn() {
		return s.fail(at, "hunk header promises %d old and %d new lines, but more follow at line %d", c.oldN, c.newN, s.no)
	}
	return nil
}

// isNoNewline recognises "\ No newline at end of file" in any language: git
// says that it is at least 12 bytes long.
func isNoNewline(line []byte) bool {
	return len(line) >= 12 && line[0] == '\\' && line[1] == ' '
}

// goesOn reports whether the line behind a hunk looks like a line of it.
func (s *scanner) goesOn() bool {
	line := s.peek()
	if line == nil || startsFile(s.data, s.pos) || isBlank(line) {
		return false
	}
	switch line[0] {
	case '+', ' ':
		return true
	case '-':
		// A mail's signature begins with "-- "; some editors cut its space.
		return header(line) != "--" && header(line) != "-- "
	}
	return false
}

// binaryData copies "literal N" or "delta N" blocks: the change, and maybe the
// way back.
func (s *scanner) binaryData(sec *section) error {
	sec.text.WriteString(header(s.next()) + "\n")
	for blocks := 0; ; blocks++ {
		line := header(s.peek())
		if !strings.HasPrefix(line, "literal ") && !strings.HasPrefix(line, "delta ") {
			if blocks == 0 {
				return s.fail(s.no, "binary patch has no data")
			}
			return nil
		}
		if blocks == 2 {
			return s.fail(s.no, "binary patch has more than two blocks")
		}
		for {
			raw := s.peek()
			if raw == nil {
				return s.fail(s.no-1, "truncated at line %d: binary data does not end", s.no-1)
			}
			text := header(raw)
			s.next()
			sec.text.WriteString(text)
			sec.text.WriteByte('\n')
			if text == "" {
				break
			}
		}
	}
}

func lacking(oldN, newN int) string {
	switch {
	case oldN == 0:
		return plural(newN, "new line")
	case newN == 0:
		return plural(oldN, "old line")
	}
	return plural(oldN, "old") + " and " + plural(newN, "new line")
}

// shorten quotes a line for a message.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "“" + string(bytes.ToValidUTF8([]byte(s), []byte("?"))) + "”"
}

// parseDiffDate reads the date of a "--- name<tab>date" line.
func parseDiffDate(s string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05.999999999 -07:00"} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
