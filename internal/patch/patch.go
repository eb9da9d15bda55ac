package patch

import (
	"fmt"
	"io"
	"io/fs"
	"net/mail"
	"slices"
	"strconv"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/source"
)

// MaxSize is the largest patch file that is read, in bytes. Upstream's own
// largest commits are under 60 MB as a patch.
const MaxSize = 100 << 20

// Patch is one commit's worth of changes, ready to be applied.
type Patch struct {
	Fix    string   `json:"fix"`    // the fix that it belongs to
	Name   string   `json:"name"`   // its file's name
	SHA256 string   `json:"sha256"` // of the file's bytes; patches of one mbox share it
	Header Header   `json:"header"`
	Notes  []string `json:"notes,omitempty"` // what was mended while reading

	changes []change
	crlf    bool // every line of the diff ends in CR LF
}

// Header is what a patch says about itself before its diff.
type Header struct {
	// from the mbox line, 40 hex digits; all zero with format-patch --zero-commit
	Commit  string `json:"commit,omitempty"`
	Author  string `json:"author,omitempty"`
	Email   string `json:"email,omitempty"`
	Date    string `json:"date,omitempty"`    // as written
	Subject string `json:"subject,omitempty"` // one line, without [PATCH n/m] but with other [tags]
	// the text below the subject, its blank lines as they are, no newline at the end
	Body     string    `json:"body,omitempty"`
	Trailers []Trailer `json:"trailers,omitempty"`
}

// Trailer is one "Key: value" line of a message, or one field of a DEP-3 header.
type Trailer struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Time reads Date. It accepts what mails, git and DEP-3 (2006-01-02) write.
func (h Header) Time() (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, h.Date); err == nil {
		return t, nil
	}
	t, err := mail.ParseDate(h.Date)
	if err != nil {
		return time.Time{}, fmt.Errorf("date %q: %w", h.Date, err)
	}
	return t, nil
}

// Trailer returns the value of the first trailer of that key, or "".
func (h Header) Trailer(key string) string {
	for _, t := range h.Trailers {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// Paths returns every path that the patch reads or writes, sorted. Its verdict
// on a tree depends on these files and, for paths it creates, their folders.
func (p *Patch) Paths() []string {
	var paths []string
	for i := range p.changes {
		c := &p.changes[i]
		if c.old != "" {
			paths = append(paths, c.old)
		}
		if c.new != "" {
			paths = append(paths, c.new)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// ParseError says why a patch file cannot be read, or why it is refused before
// any tree is looked at.
type ParseError struct {
	Fix  string // the fix that it belongs to
	Name string // the patch file
	Line int    // 1-based line of the file, 0 if it is about the whole of it
	Msg  string
}

// Error returns fix, file, line and cause.
func (e *ParseError) Error() string {
	where := e.Name
	if e.Fix != "" {
		where = e.Fix + "/" + e.Name
	}
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	return Printable(where + ": " + e.Msg)
}

// ExitCode is exit.Declaration.
func (e *ParseError) ExitCode() int { return exit.Declaration }

// ParseFile reads a patch file of the given fix from fsys, never more than
// MaxSize bytes of it, and parses it as Parse does. The patches get name as
// their Name.
func ParseFile(fsys fs.FS, path, fix, name string) ([]Patch, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", fix, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", fix, err)
	}
	return Parse(fix, name, data)
}

// The part of a git file mode that says what a file is.
const (
	modeType source.Mode = 0o170000
	modeFile source.Mode = 0o100000
)

type changeKind int

const (
	modify changeKind = iota
	create
	remove
	rename
	copied
)

// change is what a patch does to one file.
type change struct {
	kind     changeKind
	old, new string // paths below the tree's root; old is empty for create, new for remove
	// A plain diff does not say that it creates a file: one that starts from
	// nothing creates it where it is missing.
	maybeNew         bool
	oldMode, newMode source.Mode // 0: not stated
	oldID, newID     string      // blob ids of the index line, maybe shortened
	hunks            []hunk
	lf               []hunk // hunks without their CRs, only if the patch is all CR LF
	binary           *binaryData
	line             int // of its header in the patch file
}

// target returns the path that messages name.
func (c *change) target() string {
	if c.new != "" {
		return c.new
	}
	return c.old
}

// hunk is one block of a text diff, in the two forms that placing needs: as
// lines to search for, and as bytes to compare and to write.
type hunk struct {
	line             int // of its @@ line in the patch file
	oldLine, newLine int // as its header states them
	old              []string
	hash             []uint64 // of old
	newLines         int
	oldText, newText string
	lead, trail      int    // context lines before the first and after the last change
	section          string // what its header names: the function that it lies in, as a rule
}

// start returns the 0-based line before which the hunk's preimage begins, as
// the header states it. A side without lines names the line before it.
func (h *hunk) start() int {
	if len(h.old) == 0 {
		return h.oldLine
	}
	return h.oldLine - 1
}

// consistent reports whether the header's new side agrees with its old side,
// given by how many lines the earlier hunks of the file made it longer.
func (h *hunk) consistent(grown int) bool {
	return h.newStart()-grown == h.start()
}

// newStart is start for the side that the hunk makes.
func (h *hunk) newStart() int {
	if h.newLines == 0 {
		return h.newLine
	}
	return h.newLine - 1
}
