package patch

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// contextLines is what format-patch writes around a change.
const contextLines = 3

// hunkEdits are the edits of one hunk and how many lines of context it gets.
type hunkEdits struct {
	es     []lineEdit
	around int
}

// lines returns the part of a that the hunk covers.
func (h hunkEdits) lines(a *numbered) (from, to int) {
	return max(0, h.es[0].a0-h.around), min(a.count(), h.es[len(h.es)-1].a1+h.around)
}

// writeHunks writes the hunks of a unified diff as git does, with the last line
// that looks like the start of a function behind each header. unique gives a hunk
// whose lines stand in the file more than once as much context as it takes.
func writeHunks(out *bytes.Buffer, before, after []byte, unique bool) {
	var t lineTable
	a, b := t.number(before), t.number(after)
	es := diffLines(a.id, b.id)
	var hunks []hunkEdits
	for i := range es {
		hunks = append(hunks, hunkEdits{es[i : i+1], contextLines})
	}
	for grown := true; grown; {
		grown = false
		var joined []hunkEdits
		start := 0 // of the last hunk, in es
		for _, h := range hunks {
			n := len(joined) - 1
			if n < 0 || h.es[0].a0-joined[n].es[len(joined[n].es)-1].a1 > h.around+joined[n].around {
				if n >= 0 {
					start += len(joined[n].es)
				}
				joined = append(joined, h)
				continue
			}
			joined[n] = hunkEdits{es[start : start+len(joined[n].es)+len(h.es)], max(h.around, joined[n].around)}
			grown = true // upwards it may meet the one before now
		}
		hunks = joined
		for i := range hunks {
			if unique && a.repeats(hunks[i].lines(a)) {
				hunks[i].around++
				grown = true
			}
		}
	}
	for _, h := range hunks {
		writeHunk(out, a, b, h)
	}
}

// repeats reports whether the lines [from,to) stand elsewhere in the file, too.
func (f *numbered) repeats(from, to int) bool {
	n := to - from
	for i := 0; n > 0 && i+n <= f.count(); i++ {
		if i != from && slices.Equal(f.id[i:i+n], f.id[from:to]) {
			return true
		}
	}
	return false
}

func writeHunk(out *bytes.Buffer, a, b *numbered, h hunkEdits) {
	es := h.es
	first, last := es[0], es[len(es)-1]
	from, to := h.lines(a)
	lead, trail := first.a0-from, to-last.a1
	at := first.a0 - lead
	fmt.Fprintf(out, "@@ -%s +%s @@", lineRange(at, last.a1+trail), lineRange(first.b0-lead, last.b1+trail))
	if h := heading(func(i int) []byte { return a.slice(i, i+1) }, at); h != "" {
		out.WriteString(" " + h)
	}
	out.WriteByte('\n')
	for _, e := range es {
		writeLines(out, ' ', a, at, e.a0)
		writeLines(out, '-', a, e.a0, e.a1)
		writeLines(out, '+', b, e.b0, e.b1)
		at = e.a1
	}
	writeLines(out, ' ', a, at, last.a1+trail)
}

func writeLines(out *bytes.Buffer, mark byte, f *numbered, from, to int) {
	for i := from; i < to; i++ {
		line := f.slice(i, i+1)
		out.WriteByte(mark)
		out.Write(line)
		if line[len(line)-1] != '\n' {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lineRange writes the lines [from,to), counted from 0, as a hunk header does.
func lineRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(to)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// heading finds the last line above that begins with a letter, as git does for
// files of no known language.
func heading(line func(i int) []byte, at int) string {
	const most = 80
	for i := at - 1; i >= 0; i-- {
		line := line(i)
		if c := line[0]; isLetter(c) || c == '_' || c == '$' {
			line = line[:min(len(line), most)]
			return strings.TrimRight(strings.ToValidUTF8(string(line), ""), " \t\r\n\v\f")
		}
	}
	return ""
}

// writeFile writes one file's part of a git diff, with whole blob ids. before
// or after is nil where there is no file. kind and old matter for a rename or a
// copy only. unique is that of writeHunks.
func writeFile(out *bytes.Buffer, kind changeKind, oldPath, newPath string, before, after *source.File, unique bool) {
	if before == nil {
		oldPath = newPath
	}
	if after == nil {
		newPath = oldPath
	}
	fmt.Fprintf(out, "diff --git %s %s\n", quoteName("a/"+oldPath), quoteName("b/"+newPath))
	oldName, newName := quoteName("a/"+oldPath), quoteName("b/"+newPath)
	oldID, newID := strings.Repeat("0", 40), strings.Repeat("0", 40)
	var oldData, newData []byte
	if before != nil {
		oldID, oldData = blobID(before.Data), before.Data
	}
	if after != nil {
		newID, newData = blobID(after.Data), after.Data
	}
	mode := ""
	switch {
	case before == nil:
		fmt.Fprintf(out, "new file mode %s\n", after.Mode)
		oldName = devNull
	case after == nil:
		fmt.Fprintf(out, "deleted file mode %s\n", before.Mode)
		newName = devNull
	case before.Mode != after.Mode:
		fmt.Fprintf(out, "old mode %s\nnew mode %s\n", before.Mode, after.Mode)
	default:
		mode = " " + before.Mode.String()
	}
	if verb := map[changeKind]string{rename: "rename", copied: "copy"}[kind]; verb != "" {
		percent := 100
		if oldID != newID {
			percent = min(similarity(oldData, newData), 99)
		}
		fmt.Fprintf(out, "similarity index %d%%\n%[2]s from %[3]s\n%[2]s to %[4]s\n", percent, verb, quoteName(oldPath),
			quoteName(newPath))
	}
	if oldID == newID {
		return
	}
	fmt.Fprintf(out, "index %s..%s%s\n", oldID, newID, mode)
	if len(oldData) == 0 && len(newData) == 0 {
		return
	}
	for i, name := range []string{oldName, newName} {
		out.WriteString([]string{"--- ", "+++ "}[i] + name)
		// A tab ends a name that could be taken for a name and a date.
		if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
			out.WriteByte('\t')
		}
		out.WriteByte('\n')
	}
	writeHunks(out, oldData, newData, unique)
}

// quoteName writes a name as git does with its default core.quotePath.
func quoteName(s string) string {
	const letters, values = `abtnvfr"\`, "\a\b\t\n\v\f\r\"\\"
	var out strings.Builder
	quoted := false
	for i := range len(s) {
		c := s[i]
		if j := strings.IndexByte(values, c); j >= 0 {
			out.WriteString(`\` + letters[j:j+1])
			quoted = true
		} else if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&out, `\%03o`, c)
			quoted = true
		} else {
			out.WriteByte(c)
		}
	}
	if !quoted {
		return s
	}
	return `"` + out.String() + `"`
}

// isBinary reports whether git would call the file binary: a zero byte among
// the first 8000.
func isBinary(data []byte) bool {
	const looked = 8000
	return bytes.IndexByte(data[:min(len(data), looked)], 0) >= 0
}
