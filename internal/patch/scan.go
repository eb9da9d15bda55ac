package patch

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// section is one file's part of a diff: its header, read, and its hunks in the
// plain form that go-gitdiff reads without surprise.
type section struct {
	change
	text    bytes.Buffer // hunks or binary data, mended, under a header with the name f
	atLines []int        // line of each @@ line
	binary  bool
	noData  bool // "Binary files … differ"
}

// scanner walks the lines of a diff. Everything that go-gitdiff is lax or wrong
// about is decided here: where a file's part begins, its names and modes, and
// whether each hunk has the lines that its header promises.
type scanner struct {
	data []byte
	pos  int
	no   int // 1-based line number of the line at pos
	fail func(line int, format string, args ...any) error
}

// peek returns the current line with its end, nil at the end of the data.
func (s *scanner) peek() []byte {
	if s.pos >= len(s.data) {
		return nil
	}
	return s.data[s.pos:lineEnd(s.data, s.pos)]
}

func (s *scanner) next() []byte {
	line := s.peek()
	s.pos += len(line)
	s.no++
	return line
}

// header returns the current line without its end. A CR there is damage: git
// quotes names that hold one.
func header(line []byte) string { return strings.TrimRight(string(line), "\r\n") }

// each calls found for every file's part. The section is valid until it returns.
func (s *scanner) each(found func(*section) error) error {
	seen := false
	for s.pos < len(s.data) {
		if startsFile(s.data, s.pos) {
			sec := &section{}
			sec.line = s.no
			var err error
			if bytes.HasPrefix(s.peek(), []byte("diff --git ")) {
				err = s.gitFile(sec)
			} else {
				err = s.plainFile(sec)
			}
			if err == nil {
				err = found(sec)
			}
			if err != nil {
				return err
			}
			seen = true
			continue
		}
		line := header(s.next())
		if names, ok := strings.CutPrefix(line, "diff --git "); ok && seen && commonName(names) == "" {
			return s.fail(s.no-1, "file header without the lines that say what is done")
		}
		if seen && strings.HasPrefix(line, "@@ -") {
			if _, err := hunkHeader(line); err == nil {
				return s.fail(s.no-1, "hunk without a file header")
			}
		}
	}
	return nil
}

// gitFile reads what follows "diff --git".
func (s *scanner) gitFile(sec *section) error {
	common := commonName(strings.TrimPrefix(header(s.next()), "diff --git "))
	var oldName, newName string // of the --- and +++ lines
	setName := func(to *string, text string) error {
		name, err := headerName(text)
		if err != nil {
			return s.fail(s.no-1, "%v", err)
		}
		if *to != "" && *to != name {
			return s.fail(s.no-1, "file header names both %q and %q", *to, name)
		}
		*to = name
		return nil
	}
	setMode := func(to *source.Mode, text string) error {
		m, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32)
		if err != nil {
			return s.fail(s.no-1, "file mode %q is not octal", text)
		}
		*to = source.Mode(m)
		return nil
	}
	for {
		line := header(s.peek())
		key, value := "", ""
		for _, p := range gitHeaders {
			if v, ok := strings.CutPrefix(line, string(p)); ok {
				key, value = string(p), v
				break
			}
		}
		if key == "" || key == "GIT binary patch" || key == "Binary files " {
			break
		}
		if !bytes.HasSuffix(s.next(), []byte("\n")) {
			return s.fail(s.no-1, "truncated at line %d: the last line has no newline", s.no-1)
		}
		var err error
		switch key {
		case "old mode ":
			err = setMode(&sec.oldMode, value)
		case "new mode ":
			err = setMode(&sec.newMode, value)
		case "deleted file mode ":
			sec.kind = remove
			err = setMode(&sec.oldMode, value)
		case "new file mode ":
			sec.kind = create
			err = setMode(&sec.newMode, value)
		case "copy from ", "rename from ", "rename old ":
			sec.kind = rename
			if key == "copy from " {
				sec.kind = copied
			}
			err = setName(&sec.old, value)
		case "copy to ", "rename to ", "rename new ":
			err = setName(&sec.new, value)
		case "index ":
			ids, mode, _ := strings.Cut(value, " ")
			sec.oldID, sec.newID, _ = strings.Cut(ids, "..")
			if mode != "" && sec.oldMode == 0 {
				err = setMode(&sec.oldMode, mode)
			}
		case "--- ":
			err = setName(&oldName, value)
		case "+++ ":
			err = setName(&newName, value)
		}
		if err != nil {
			return err
		}
	}
	if err := s.settleNames(sec, common, oldName, newName); err != nil {
		return err
	}
	return s.content(sec)
}

// settleNames brings together the names that a git header repeats.
func (s *scanner) settleNames(sec *section, common, oldName, newName string) error {
	side := func(name string, isNull bool, word string) (string, error) {
		if isNull != (name == devNull) {
			return "", s.fail(sec.line, "%s side of the file header is %q, which does not go with its mode line", word, name)
		}
		if isNull {
			return "", nil
		}
		rest, ok := stripFolder(name)
		if !ok {
			return "", s.fail(sec.line, "%q has no folder to strip (a/ and b/)", name)
		}
		return rest, nil
	}
	var fromOld, fromNew string
	var err error
	if oldName != "" {
		if fromOld, err = side(oldName, sec.kind == create, "old"); err != nil {
			return err
		}
	}
	if newName != "" {
		if fromNew, err = side(newName, sec.kind == remove, "new"); err != nil {
			return err
		}
	}
	pick := func(to *string, others ...string) error {
		for _, n := range others {
			if n == "" {
				continue
			}
			if *to != "" && *to != n {
				return s.fail(sec.line, "file header names both %q and %q", *to, n)
			}
			*to = n
		}
		if *to == "" {
			return s.fail(sec.line, "file header names no file")
		}
		return nil
	}
	switch sec.kind {
	case rename, copied:
		if err := pick(&sec.old, fromOld); err != nil {
			return err
		}
		return pick(&sec.new, fromNew)
	case create:
		return pick(&sec.new, fromNew, common)
	case remove:
		return pick(&sec.old, fromOld, common)
	}
	if (oldName == "") != (newName == "") {
		return s.fail(sec.line, "file header has one of its two names: its --- or +++ line is missing")
	}
	if err := pick(&sec.old, fromOld, fromNew, common); err != nil {
		return err
	}
	sec.new = sec.old
	return nil
}

// plainFile reads "--- a/x" and "+++ b/x" without a git header. As GNU patch and
// git do, it takes the shorter name of x and x.orig.
func (s *scanner) plainFile(sec *section) error {
	var names [2]string
	var gone [2]bool
	for i, prefix := range []string{"--- ", "+++ "} {
		text := strings.TrimPrefix(header(s.next()), prefix)
		name, err := headerName(text)
		if err != nil {
			return s.fail(s.no-1, "%v", err)
		}
		if gone[i] = name == devNull; gone[i] {
			continue
		}
		rest, ok := stripFolder(name)
		if !ok {
			return s.fail(s.no-1, "%q has no folder to strip (a/ and b/)", name)
		}
		names[i] = rest
		_, date, _ := strings.Cut(text, "\t")
		gone[i] = isEpoch(date)
	}
	name := names[1]
	if names[1] == "" || (names[0] != "" && strings.HasPrefix(names[1], names[0])) {
		name = names[0]
	}
	switch {
	case gone[0] && gone[1]:
		return s.fail(sec.line, "both sides of the file header are missing files")
	case gone[0]:
		sec.kind, sec.new = create, name
	case gone[1]:
		sec.kind, sec.old = remove, name
	default:
		sec.old, sec.new = name, name
	}
	return s.content(sec)
}

// isEpoch reports whether a date is the start of 1970, which GNU diff writes
// for a file that is missing on that side.
func isEpoch(date string) bool {
	t, ok := parseDiffDate(date)
	return ok && t.Unix() == 0
}

// content reads the hunks or the binary data behind a file header.
func (s *scanner) content(sec *section) error {
	line := s.peek()
	switch {
	case bytes.HasPrefix(line, []byte("GIT binary patch")):
		sec.binary = true
		sec.text.WriteString("diff --git a/f b/f\n")
		return s.binaryData(sec)
	case bytes.HasPrefix(line, []byte("Binary files ")) && strings.HasSuffix(header(line), " differ"):
		sec.noData = true
		s.next()
		return nil
	}
	if bytes.HasPrefix(line, []byte("@@ -")) {
		sec.text.WriteString("diff --git a/f b/f\n--- a/f\n+++ b/f\n")
	}
	for bytes.HasPrefix(s.peek(), []byte("@@ -")) {
		if err := s.hunk(sec); err != nil {
			return err
		}
	}
	return nil
}

// counts are the numbers of a hunk header.
type counts struct{ oldLine, oldN, newLine, newN int }

// hunkHeader reads "@@ -12,3 +14,5 @@ anything".
func hunkHeader(line string) (counts, error) {
	var c counts
	body, ok := strings.CutPrefix(line, "@@ -")
	body, _, ok2 := strings.Cut(body, " @@")
	before, after, ok3 := strings.Cut(body, " +")
	if !ok || !ok2 || !ok3 {
		return c, fmt.Errorf("%q is no hunk header", line)
	}
	for _, side := range []struct {
		text    string
		line, n *int
	}{{before, &c.oldLine, &c.oldN}, {after, &c.newLine, &c.newN}} {
		start, n, ok := strings.Cut(side.text, ",")
		if !ok {
			n = "1"
		}
		for _, v := range []struct {
			text string
			to   *int
		}{{start, side.line}, {n, side.n}} {
			// Numbers beyond 31 bits are no line numbers, and sums of them must not overflow.
			u, err := strconv.ParseUint(v.text, 10, 31)
			if err != nil {
				return c, fmt.Errorf("%q is no line number", v.text)
			}
			*v.to = int(u)
		}
		if *side.line == 0 && *side.n != 0 {
			return c, fmt.Errorf("line 0 of a side that has lines")
		}
	}
	return c, nil
}
