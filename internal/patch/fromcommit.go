package patch

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/source"
)

// FromCommit returns the change of an upstream commit as a patch file of its own,
// as git format-patch would write it: author, date and message, then a diff with
// 3 lines of context and whole blob ids. Renames are a deletion and a creation.
// The same commit always gives the same bytes; applying them to the parent's
// files gives the commit's, which is tried before they are returned. fix and name
// go into the patches, as Parse's do, which are those of the bytes.
//
// A merge is refused, and so is a change of a binary file or of a submodule.
func FromCommit(c *source.Change, fix, name string) ([]byte, []Patch, error) {
	if n := len(c.Parents); n > 1 {
		return nil, nil, fmt.Errorf("commit %s is a merge of %s: it is no one change; name a commit of the side that was "+
			"merged, which ends in its parent %s",
			c.ID, strings.Join(c.Parents, " and "), c.Parents[n-1])
	}
	if len(c.Files) == 0 {
		return nil, nil, fmt.Errorf("commit %s changes no file", c.ID)
	}
	var out bytes.Buffer
	writeCommitHeader(&out, c, "[PATCH] ", time.RFC1123Z)
	out.Write(separator)
	before, after := map[string]source.File{}, map[string]source.File{}
	for _, f := range c.Files {
		if err := representable(f); err != nil {
			return nil, nil, fmt.Errorf("commit %s: %s %w", c.ID, f.Path, err)
		}
		if f.Before != nil {
			before[f.Path] = *f.Before
		}
		if f.After != nil {
			after[f.Path] = *f.After
		}
		// What a file is does not change in place: git, too, writes two parts.
		if f.Before != nil && f.After != nil && f.Before.Mode&modeType != f.After.Mode&modeType {
			writeFile(&out, remove, f.Path, f.Path, f.Before, nil, false)
			writeFile(&out, create, f.Path, f.Path, nil, f.After, false)
			continue
		}
		writeFile(&out, modify, f.Path, f.Path, f.Before, f.After, false)
	}
	ps, err := Parse(fix, name, out.Bytes())
	if err == nil {
		err = gives(ps, before, after)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("commit %s as a patch: %w", c.ID, err)
	}
	return out.Bytes(), ps, nil
}

// gives tries patches on the files that it was made from.
func gives(ps []Patch, before, after map[string]source.File) error {
	from, err := source.New(before)
	if err != nil {
		return err
	}
	want, err := source.New(after)
	if err != nil {
		return err
	}
	res, err := Apply(from, ps)
	if err != nil {
		return err
	}
	if res.Tree.ID() != want.ID() {
		return fmt.Errorf("it gives tree %s of the files that it touches, and the commit has %s", res.Tree.ID(), want.ID())
	}
	return nil
}

func representable(c source.Changed) error {
	for _, f := range []*source.File{c.Before, c.After} {
		switch {
		case f == nil:
		case f.Mode == source.Submodule:
			return errors.New("is a submodule, which no patch can change: make the fix a patch file without it")
		case isBinary(f.Data) && (c.Before == nil || c.After == nil || !bytes.Equal(c.Before.Data, c.After.Data)):
			return errors.New("is binary: make the fix a patch file with git format-patch --binary")
		}
	}
	return nil
}

// CommitHead returns what stands before the diff in the patch file of a commit, as git
// format-patch --keep-subject --zero-commit --no-stat writes it.
func CommitHead(c source.Change) []byte {
	var out bytes.Buffer
	c.ID = strings.Repeat("0", 40)
	writeCommitHeader(&out, &c, "", "Mon, 2 Jan 2006 15:04:05 -0700")
	if !bytes.HasSuffix(out.Bytes(), []byte("\n\n")) {
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// writeCommitHeader writes what stands before the diff.
func writeCommitHeader(out *bytes.Buffer, c *source.Change, prefix, layout string) {
	subject, body := splitMessage(c.Message)
	author := mailAuthor(c.Author, c.Email)
	// The date is fixed: git's mark of a file made by format-patch.
	fmt.Fprintf(out, "From %s Mon Sep 17 00:00:00 2001\nFrom: %s\nDate: %s\nSubject: %s\n",
		c.ID, author, c.When.Format(layout), encodeWords(prefix, subject))
	if strings.ContainsFunc(body, func(r rune) bool { return r >= 0x80 }) {
		out.WriteString("MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n")
	}
	out.WriteByte('\n')
	if body != "" {
		// A message that begins like a mail's header would be read as one; only the
		// first such lines are.
		if fieldLine.MatchString(body[:lineEnd([]byte(body), 0)-1]) {
			fmt.Fprintf(out, "From: %s\n\n", author)
		}
		writeBody(out, []byte(body))
	}
}

// splitMessage returns the first paragraph as one line, and the rest, which ends
// in a newline or is empty.
func splitMessage(message string) (subject, body string) {
	text := strings.ReplaceAll(strings.ToValidUTF8(message, "\uFFFD"), "\r\n", "\n")
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	n := 0
	for n < len(lines) && strings.TrimSpace(lines[n]) != "" {
		n++
	}
	subject = strings.Join(strings.Fields(strings.Join(lines[:n], " ")), " ")
	if body = strings.Trim(strings.Join(lines[n:], "\n"), "\n"); body != "" {
		body += "\n"
	}
	return subject, body
}

// writeBody writes a message so that none of its lines ends it, or begins
// another mail.
func writeBody(out *bytes.Buffer, body []byte) {
	for pos := 0; pos < len(body); pos = lineEnd(body, pos) {
		line := body[pos:lineEnd(body, pos)]
		if _, ok := mboxLine(bytes.TrimLeft(line, ">")); ok {
			out.WriteByte('>')
			// git apply takes that for a lost hunk
		} else if startsMessageEnd(body, pos) || bytes.HasPrefix(line, []byte("@@ -")) {
			out.WriteByte(' ')
		}
		out.Write(line)
	}
}

var addressSpecials = strings.NewReplacer(
	"(", "=28", ")", "=29", "<", "=3C", ">", "=3E", "[", "=5B", "]", "=5D", ":", "=3A", ";", "=3B",
	"@", "=40", `\`, "=5C", ",", "=2C", ".", "=2E", `"`, "=22")

// mailAuthor writes a From field's value.
func mailAuthor(name, email string) string {
	name = strings.Join(strings.Fields(strings.ToValidUTF8(name, "\uFFFD")), " ")
	email = strings.ToValidUTF8(email, "\uFFFD")
	encoded := encodeWords("", name)
	switch {
	case encoded != name:
		// These mean something in an address, in an encoded word too.
		encoded = addressSpecials.Replace(encoded)
	case strings.ContainsAny(name, `()<>[]:;@\,."`):
		encoded = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
	}
	return strings.TrimSpace(encoded + " <" + email + ">")
}

// encodeWords writes a header's text as RFC 2047 has it where it is not plain,
// each word on a line of its own.
func encodeWords(prefix, s string) string {
	return prefix + strings.ReplaceAll(mime.QEncoding.Encode("UTF-8", s), "?= =?", "?=\n =?")
}
