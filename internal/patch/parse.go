package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/llpatch/llpatch/internal/source"
)

// coverLetter is the subject of a series' introduction, which has no diff.
var coverLetter = regexp.MustCompile(`(?im)^Subject:.*\[[^\]]*PATCH[^\]]* 0+/[0-9]+\]`)

// Parse reads a patch file: an mbox of one or more mails, a patch with a DEP-3
// header, or a bare diff. fix and name go into the patches and into messages.
// An error is a *ParseError.
func Parse(fix, name string, data []byte) ([]Patch, error) {
	fail := func(line int, format string, args ...any) error {
		return &ParseError{Fix: fix, Name: name, Line: line, Msg: fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxSize {
		return nil, fail(0, "patch is larger than %d MiB", MaxSize>>20)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	messages := splitMbox(data)
	var out []Patch
	for _, m := range messages {
		p := Patch{Fix: fix, Name: name, SHA256: digest}
		if err := p.read(m, fail); err != nil {
			return nil, err
		}
		if len(p.changes) == 0 {
			if len(messages) > 1 && coverLetter.Match(m.data) {
				continue
			}
			return nil, fail(m.line, "there is no diff")
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fail(0, "there is no diff")
	}
	return out, nil
}

func (p *Patch) read(m message, fail func(int, string, ...any) error) error {
	h, diff, skipped, err := readHeader(m)
	if err != nil {
		return fail(m.line, "%v", err)
	}
	p.Header = h
	if p.crlf = allCRLF(diff); p.crlf {
		p.Notes = append(p.Notes, "every line ends in CR LF: read as LF where the file has LF")
	}
	s := scanner{data: diff, no: m.line + skipped, fail: fail}
	return s.each(func(sec *section) error {
		if err := p.add(sec, fail); err != nil {
			return err
		}
		return nil
	})
}

// allCRLF reports whether every line ends in CR LF: the mark of a checkout or a
// mail that rewrote line ends. A real patch of a CR LF file has headers in LF.
func allCRLF(data []byte) bool {
	n := bytes.Count(data, []byte("\n"))
	return n > 0 && n == bytes.Count(data, []byte("\r\n"))
}

// add checks one file's part and takes it in.
func (p *Patch) add(sec *section, fail func(int, string, ...any) error) error {
	c := sec.change
	for _, path := range []string{c.old, c.new} {
		if path == "" {
			continue
		}
		if err := checkPath(path); err != nil {
			return fail(c.line, "refused: %v", err)
		}
	}
	if err := checkModes(&c); err != nil {
		return fail(c.line, "%s: %v", c.target(), err)
	}
	if sec.noData {
		return fail(c.line, "%s: binary change without its data: make the patch with git format-patch or git diff --binary",
			c.target())
	}
	if sec.text.Len() > 0 {
		file, err := readDiff(sec)
		if err != nil {
			return fail(c.line, "%s: %v", c.target(), err)
		}
		if sec.binary {
			if c.binary, err = newBinary(&c, file.BinaryFragment, file.ReverseBinaryFragment); err != nil {
				return fail(c.line, "%s: %v", c.target(), err)
			}
		}
		for i, f := range file.TextFragments {
			h, err := newHunk(f, sec.atLines[i], false)
			if err != nil {
				return fail(sec.atLines[i], "%s: %v", c.target(), err)
			}
			c.hunks = append(c.hunks, h)
			if p.crlf {
				if h, err = newHunk(f, sec.atLines[i], true); err != nil {
					return fail(sec.atLines[i], "%s: %v", c.target(), err)
				}
				c.lf = append(c.lf, h)
			}
		}
	}
	if err := checkHunks(&c); err != nil {
		return fail(c.line, "%s: %v", c.target(), err)
	}
	p.changes = append(p.changes, c)
	return nil
}

// readDiff has go-gitdiff read the hunks or binary data, which the scanner put
// under a header of our own: its reading of names and modes is not ours.
func readDiff(sec *section) (*gitdiff.File, error) {
	files, _, err := gitdiff.Parse(&sec.text)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || !sec.binary && len(files[0].TextFragments) != len(sec.atLines) ||
		sec.binary && files[0].BinaryFragment == nil {
		return nil, fmt.Errorf("the diff reads as something else than its lines say")
	}
	return files[0], nil
}

// checkModes accepts what git puts into trees, except submodules: those have no
// content here.
func checkModes(c *change) error {
	for _, m := range []*source.Mode{&c.oldMode, &c.newMode} {
		switch *m & modeType {
		case 0:
			if *m != 0 {
				return fmt.Errorf("file mode %s is none of git's", *m)
			}
		case modeFile:
			// Trees hold two modes of files; others come from old tools.
			if *m&0o100 != 0 {
				*m = source.Executable
			} else {
				*m = source.Regular
			}
		case source.Symlink:
			*m = source.Symlink
		case source.Submodule:
			return fmt.Errorf("refused: changes a submodule")
		default:
			return fmt.Errorf("file mode %s is none of git's", *m)
		}
	}
	if c.oldMode != 0 && c.newMode != 0 && c.oldMode&modeType != c.newMode&modeType {
		return fmt.Errorf("turns mode %s into %s in place; git writes that as a deletion and a creation", c.oldMode,
			c.newMode)
	}
	return nil
}

// checkHunks rejects changes that contradict themselves.
func checkHunks(c *change) error {
	for i := range c.hunks {
		h := &c.hunks[i]
		switch {
		case c.kind == create && len(h.old) > 0:
			return fmt.Errorf("creates a file from old lines")
		case c.kind == create && (i > 0 || h.oldLine != 0):
			return fmt.Errorf("creates a file with a hunk at line %d", max(h.oldLine, h.newLine))
		case c.kind == remove && h.newLines > 0:
			return fmt.Errorf("deletes a file and keeps lines of it")
		case c.kind == remove && i > 0:
			return fmt.Errorf("deletes a file in more than one hunk")
		}
	}
	// As in git, a new mode alone is a change where the old one is stated.
	if c.kind == modify && len(c.hunks) == 0 && c.binary == nil &&
		(c.oldMode == 0 || c.newMode == 0 || c.oldMode == c.newMode) {
		return fmt.Errorf("file header without a change")
	}
	// Only a header without a git line leaves open whether the file exists.
	plain := c.oldID == "" && c.oldMode == 0 && c.newMode == 0
	c.maybeNew = c.kind == modify && plain && len(c.hunks) == 1 && c.hunks[0].oldLine == 0
	return nil
}

// newHunk prepares a fragment for placing; strip removes the CR of each line.
func newHunk(f *gitdiff.TextFragment, line int, strip bool) (hunk, error) {
	h := hunk{
		line:    line,
		oldLine: int(f.OldPosition), newLine: int(f.NewPosition),
		newLines: int(f.NewLines),
		lead:     int(f.LeadingContext), trail: int(f.TrailingContext),
		section: strings.TrimSpace(f.Comment),
	}
	var oldText, newText strings.Builder
	oldSize, newSize := 0, 0
	for _, l := range f.Lines {
		if l.Old() {
			oldSize += len(l.Line)
		}
		if l.New() {
			newSize += len(l.Line)
		}
	}
	oldText.Grow(oldSize)
	newText.Grow(newSize)
	ends := make([]int, 0, f.OldLines)
	for _, l := range f.Lines {
		text := l.Line
		if strip {
			if t, ok := strings.CutSuffix(text, "\r\n"); ok {
				text = t + "\n"
			}
		}
		for _, side := range []struct {
			in  bool
			out *strings.Builder
		}{{l.Old(), &oldText}, {l.New(), &newText}} {
			if !side.in {
				continue
			}
			if s := side.out.String(); s != "" && s[len(s)-1] != '\n' {
				return h, fmt.Errorf("a line follows one that has no newline")
			}
			side.out.WriteString(text)
		}
		if l.Old() {
			ends = append(ends, oldText.Len())
		}
	}
	h.oldText, h.newText = oldText.String(), newText.String()
	h.old = make([]string, len(ends))
	h.hash = make([]uint64, len(ends))
	start := 0
	for i, end := range ends {
		h.old[i] = h.oldText[start:end]
		h.hash[i] = hashString(h.old[i])
		start = end
	}
	return h, nil
}
