package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/llpatch/llpatch/internal/source"
)

// Variant returns the merge as a patch file of its own: the header and message
// of the original, whose bytes it takes, and the diff from the target to the
// merged tree with 3 lines of context and whole blob ids. The same merge always
// gives the same bytes; applying them to the target gives the merged tree, which
// is tried before they are returned.
//
// The original must hold one patch only, and the patch no binary file.
func (m *Merge) Variant(original []byte) ([]byte, error) {
	name := orElse(m.Fix, m.Patch)
	if m.Result == nil {
		return nil, fmt.Errorf("new variant of %s: conflicts are left", name)
	}
	if m.Landed() {
		return nil, fmt.Errorf("new variant of %s: the tree has the whole change already", name)
	}
	sum := sha256.Sum256(original)
	if hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, fmt.Errorf("new variant of %s: not the bytes of the patch that was merged", name)
	}
	head, err := Head(original)
	if err != nil {
		return nil, fmt.Errorf("new variant of %s: %s %w", name, m.Patch, err)
	}
	out := bytes.NewBuffer(head)
	written := map[string]bool{}
	for i := range m.changes {
		c := m.left(m.changes[i])
		if c == nil {
			continue
		}
		// An earlier part of the patch about this file wrote all of it.
		if c.kind == modify && written[c.new] {
			continue
		}
		written[c.new] = true
		if err := m.writeChange(out, c); err != nil {
			return nil, fmt.Errorf("new variant of %s: %w", name, err)
		}
	}
	ps, err := Parse(m.Fix, m.Patch, out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("new variant of %s: %w", name, err)
	}
	res, err := Apply(m.target, ps)
	if err != nil {
		return nil, fmt.Errorf("new variant of %s: it does not fit its own tree: %w", name, err)
	}
	if res.Tree.ID() != m.Result.Tree.ID() {
		return nil, fmt.Errorf("new variant of %s: it gives tree %s, and the merge gave %s", name, res.Tree.ID(),
			m.Result.Tree.ID())
	}
	return out.Bytes(), nil
}

// left returns what of a change the target does not hold yet, nil for nothing.
func (m *Merge) left(c change) *change {
	if c.kind == rename {
		_, from := m.target.Stat(c.old)
		if _, to := m.target.Stat(c.new); to && !from {
			c.kind, c.old = modify, c.new
		}
	}
	before, there := m.target.Stat(orElse(c.new, c.old))
	after, stays := m.Result.Tree.Stat(orElse(c.new, c.old))
	if there == stays && before.Blob == after.Blob && before.Mode == after.Mode {
		return nil
	}
	return &c
}

func (m *Merge) writeChange(out *bytes.Buffer, c *change) error {
	var before, after *source.File
	if c.kind != create {
		f, err := m.target.Read(c.old)
		// A plain diff may create a file without saying so.
		if err != nil && (!c.maybeNew || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		if err == nil {
			before = &f
		}
	}
	if c.kind != remove {
		f, err := m.Result.Tree.Read(c.new)
		if err != nil {
			return err
		}
		after = &f
	}
	for _, f := range []*source.File{before, after} {
		if f != nil && isBinary(f.Data) && (before == nil || after == nil || !bytes.Equal(before.Data, after.Data)) {
			return fmt.Errorf("%s: is binary: apply the patch without its text files in git, and make the patch with git "+
				"format-patch", c.target())
		}
	}
	writeFile(out, c.kind, c.old, c.new, before, after, m.unique)
	return nil
}

// What stands between the message and the diff that is about the old diff.
var (
	statLine    = regexp.MustCompile(`^ .*\| +(Bin|[0-9]+)|^ [0-9]+ files? changed|^ (create|delete|rename|copy|mode change) `)
	encodedBody = regexp.MustCompile(`(?im)^Content-Transfer-Encoding:\s*(base64|quoted-printable)`)
	separator   = []byte("---\n")
)

// Head returns the header and the message of a patch file, up to its diff,
// without a diffstat, in LF.
func Head(original []byte) ([]byte, error) {
	var at []message
	for _, m := range splitMbox(original) {
		if !coverLetter.Match(m.data) {
			at = append(at, m)
		}
	}
	if len(at) != 1 {
		return nil, fmt.Errorf("holds %d patches: split it into one file each (git mailsplit)", len(at))
	}
	data := at[0].data
	start := bytes.LastIndex(original, data)
	_, fields := readFields(data)
	if encodedBody.Match(data[:fields]) {
		return nil, errors.New("is an encoded mail: make it with git format-patch")
	}
	end := fields + messageEnd(data[fields:])
	from := 0
	if mbox := bytes.LastIndexByte(original[:max(start-1, 0)], '\n') + 1; at[0].commit != "" {
		from = mbox
	}
	head := bytes.ReplaceAll(original[from:start+end], []byte("\r\n"), []byte("\n"))
	notes := data[end:]
	if line := notes[:lineEnd(notes, 0)]; strings.TrimSpace(string(line)) != "---" {
		return bytes.Clone(head), nil
	}
	var out bytes.Buffer
	out.Write(head)
	out.Write(separator)
	var kept []string
	for pos := lineEnd(notes, 0); pos < len(notes) && !startsMessageEnd(notes, pos); pos = lineEnd(notes, pos) {
		line := strings.TrimRight(string(notes[pos:lineEnd(notes, pos)]), "\r\n")
		if !statLine.MatchString(line) {
			kept = append(kept, line)
		}
	}
	if text := strings.Trim(strings.Join(kept, "\n"), "\n"); text != "" {
		out.WriteString("\n" + text + "\n")
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
