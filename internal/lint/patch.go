package lint

import (
	"bytes"
	"errors"
	"net/mail"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// The form of a patch file, which makes its bytes the same whoever exports it.
const (
	formatPatch = "git format-patch --keep-subject --zero-commit --full-index --no-stat --no-signature -1"
	mboxLine    = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"
	noBlob      = "0000000000000000000000000000000000000000"
	gitDate     = "Mon, 2 Jan 2006 15:04:05 -0700"
)

// ownTrailers must stand in the message of a patch that is ours: whoever meets
// the file alone learns from them where it belongs (DEP-3, and Yocto's status).
var ownTrailers = []string{"Bug", "Origin", "Forwarded", "Upstream-Status"}

var (
	indexLine = regexp.MustCompile(`^index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: [0-7]{6})?$`)
	hunkLine  = regexp.MustCompile(`^@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@`)
	statLine  = regexp.MustCompile(`^ .*\| +(Bin|[0-9]+)|^ [0-9]+ files? changed`)
)

// patchFile checks one declared patch file and returns its patches, nil where it cannot be read at all.
func (r *Report) patchFile(file, fix, status string, data []byte) []patch.Patch {
	at := func(line int, format string, args ...any) { r.add(spec.ErrorOn(file, data, line, format, args...)) }
	patches, err := patch.Parse(fix, path.Base(file), data)
	if p := new(patch.ParseError); errors.As(err, &p) {
		at(p.Line, "%s", p.Msg)
		return nil
	}
	if err != nil {
		at(0, "%v", err)
		return nil
	}
	if len(patches) != 1 {
		at(0, "holds %d patches; one file is one patch (%s)", len(patches), formatPatch)
		return patches
	}
	f := patchForm{lines: strings.SplitAfter(string(data), "\n"), at: at}
	if last := len(f.lines) - 1; f.lines[last] == "" {
		f.lines = f.lines[:last]
	} else {
		at(len(f.lines), "the last line has no line end")
	}
	if n := bytes.Count(data, []byte("\n")); n > 0 && n == bytes.Count(data, []byte("\r\n")) {
		at(1, "every line ends in CR LF; it must end in LF (git config core.autocrlf changes files on checkout)")
		return patches
	}
	f.diff(f.header())
	if status == "ours" {
		f.trailers(patches[0].Header)
	}
	return patches
}

// patchForm walks over a patch file that patch.Parse could read.
type patchForm struct {
	lines []string // with their ends
	at    func(line int, format string, args ...any)
}

func (f *patchForm) line(i int) string {
	if i >= len(f.lines) {
		return ""
	}
	return strings.TrimSuffix(f.lines[i], "\n")
}

// header checks what stands before the diff, and returns the diff's first line.
func (f *patchForm) header() int {
	end := slices.IndexFunc(f.lines, func(l string) bool { return strings.HasPrefix(l, "diff --git ") })
	if end < 0 {
		f.at(0, "is no diff of git's: make it with %s", formatPatch)
		return len(f.lines)
	}
	for i := range end {
		switch l := f.line(i); {
		case !utf8.ValidString(l):
			f.at(i+1, "is not UTF-8")
		case strings.HasSuffix(l, "\r"):
			f.at(i+1, "ends in CR LF; it must end in LF")
		}
	}
	if f.line(0) != mboxLine {
		f.at(1, "must be: %s", mboxLine)
	}
	// format-patch writes these in this order, and MIME fields behind them.
	i := 1
	for _, key := range []string{"From", "Date", "Subject"} {
		value, ok := strings.CutPrefix(f.line(i), key+": ")
		if !ok {
			f.at(i+1, "here must stand %s:, as git format-patch writes it", key)
			return end
		}
		f.field(key, value, i+1)
		for i++; i < end && strings.HasPrefix(f.line(i), " "); i++ {
			continue // a folded field goes on
		}
	}
	for f.line(i) != "" && i < end {
		i++
	}
	if i >= end-1 {
		f.at(i+1, "there is no message: it must give the reason")
		return end
	}
	f.message(i+1, end)
	return end
}

func (f *patchForm) field(key, value string, line int) {
	switch key {
	case "From":
		if a, err := mail.ParseAddress(value); err != nil || a.Name == "" {
			f.at(line, "From: %q is not of the form Name <address>", value)
		}
	case "Date":
		if t, err := time.Parse(gitDate, value); err != nil || t.Format(gitDate) != value {
			f.at(line, "Date: %q is not a date as git writes it, such as %s", value, "Sat, 28 Nov 2026 12:00:00 +0000")
		}
	case "Subject":
		switch {
		case strings.TrimSpace(value) == "":
			f.at(line, "Subject: is empty")
		case strings.HasPrefix(value, "[PATCH"):
			f.at(line, "Subject: begins with [PATCH]: leave that out (git format-patch --keep-subject)")
		}
	}
}

// message checks the text between the header and the diff.
func (f *patchForm) message(from, end int) {
	for i := from; i < end; i++ {
		switch l := f.line(i); {
		case l == "---":
			f.at(i+1, "what stands below --- is no part of the message, and git am drops it (git format-patch --no-stat)")
			return
		case statLine.MatchString(l):
			f.at(i+1, "is a diffstat: leave it out (git format-patch --no-stat)")
			return
		}
	}
	if f.line(end-1) != "" || f.line(end-2) == "" {
		f.at(end, "one blank line must stand before the diff")
	}
}

func (f *patchForm) trailers(h patch.Header) {
	for _, key := range ownTrailers {
		if h.Trailer(key) == "" {
			f.at(0, "the message has no %s: the patch is ours, and must say it (DEP-3)", key)
		}
	}
}

// diff checks the lines around the hunks, from line i on.
func (f *patchForm) diff(i int) {
	indexed := true
	for i < len(f.lines) {
		l := f.line(i)
		m := hunkLine.FindStringSubmatch(l)
		switch {
		case m != nil:
			if !indexed {
				f.at(i+1, "there is no index line before this hunk (git format-patch --full-index)")
				indexed = true // once a file
			}
			i = f.hunk(i+1, m)
			continue
		case strings.HasPrefix(l, "GIT binary patch"):
			i = f.binary(i + 1)
			continue
		case strings.HasPrefix(l, "diff --git "):
			indexed = false
		case strings.HasPrefix(l, "index "):
			indexed = true
			f.index(i)
		case strings.HasPrefix(l, "-- ") || l == "--":
			f.at(i+1, "is a signature: leave it out (git format-patch --no-signature)")
			return
		case strings.TrimSpace(l) == "":
			f.at(i+1, "there is a blank line behind a change")
			return
		}
		if strings.HasSuffix(l, "\r") {
			f.at(i+1, "ends in CR LF; only lines of the files may")
		}
		i++
	}
}

// index checks the index line i.
func (f *patchForm) index(i int) {
	m := indexLine.FindStringSubmatch(f.line(i))
	if m == nil {
		f.at(i+1, "the blob ids are not whole (git format-patch --full-index)")
		return
	}
	// Where the file is there, quilt's GNU patch takes the id 0 at its word.
	head := f.line(i - 1)
	if m[1] == noBlob && !strings.HasPrefix(head, "new file mode ") {
		f.at(i+1, "the id 0 before the dots is for files that the patch makes")
	}
	if m[2] == noBlob && !strings.HasPrefix(head, "deleted file mode ") {
		f.at(i+1, "the id 0 behind the dots is for files that the patch removes")
	}
}

// hunk returns the line behind a hunk whose header is m. What its lines end in
// is the files' matter.
func (f *patchForm) hunk(i int, m []string) int {
	size := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 1 // left out: one line
		}
		return n
	}
	before, after := size(m[1]), size(m[2])
	for ; i < len(f.lines); i++ {
		l := f.lines[i]
		switch {
		case l[0] == '\\':
			continue // no newline at the end of the file
		case before <= 0 && after <= 0:
			return i
		case l[0] == '-':
			before--
		case l[0] == '+':
			after--
		case l[0] != ' ':
			f.at(i+1, "a context line has lost its leading space: the file was edited")
			fallthrough
		default:
			before--
			after--
		}
	}
	return i
}

// binary returns the line behind the data of a binary change: blocks of data,
// each with a blank line at its end.
func (f *patchForm) binary(i int) int {
	for i < len(f.lines) && !strings.HasPrefix(f.lines[i], "diff --git ") && !strings.HasPrefix(f.lines[i], "-- ") {
		i++
	}
	return i
}
