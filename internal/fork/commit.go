package fork

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's ids are SHA-1
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/source"
)

// Ident is a person and a time, as a commit has them.
type Ident struct {
	Name, Email string
	When        time.Time
}

// ours is the committer of everything that llpatch makes; the time is the tag's.
func ours(when time.Time) Ident {
	return Ident{Name: "llpatch", Email: "llpatch@users.noreply.github.com", When: when.UTC()}
}

// String is how a commit's header has it.
func (i Ident) String() string {
	clean := func(s string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r == '<' || r == '>' || r == '\n' || r == 0 {
				return -1
			}
			return r
		}, s))
	}
	name := clean(i.Name)
	if name != "" {
		name += " "
	}
	return fmt.Sprintf("%s<%s> %d %s", name, clean(i.Email), i.When.Unix(), i.When.Format("-0700"))
}

// Commit is one of a branch.
type Commit struct {
	ID        string
	Tree      string
	Parents   []string
	Author    Ident
	Committer Ident
	Message   string
	Fix       string // that it belongs to, by its trailer; "": it is the user's own

	files map[string]*source.File // what it changes, where llpatch made it; nil: deleted
}

// Subject is the first line of the message.
func (c Commit) Subject() string {
	subject, _, _ := strings.Cut(c.Message, "\n")
	return subject
}

// short is how messages name it.
func (c Commit) short() string { return fmt.Sprintf("%.12s %q", c.ID, c.Subject()) }

// sum computes the id.
func (c Commit) sum() string { return objectID("commit", []byte(c.text())) }

// text is the commit object.
func (c Commit) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", c.Author, c.Committer, c.Message)
	return b.String()
}

func objectID(kind string, data []byte) string {
	h := sha1.New() //nolint:gosec // as said
	_, _ = fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// Keys of the trailers that llpatch adds, and takes away again.
const (
	trailerFix    = "Llpatch-Fix"
	trailerReport = "Llpatch-Report"
	trailerRoot   = "Llpatch-Root"
	trailerCommit = "Llpatch-Commit"
)

var (
	anyTrailer = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*:[ \t]`)
	ourTrailer = regexp.MustCompile(`(?m)^(Llpatch-(?:Fix|Report|Root|Commit)):[ \t]*(.*?)[ \t]*$`)
)

// message is what a patch says of itself, with the trailers of its fix.
func message(h patch.Header, fix string, reports []string, commit string) string {
	subject := h.Subject
	if subject == "" {
		subject = fix
	}
	text := subject + "\n"
	if h.Body != "" {
		text += "\n" + h.Body + "\n"
	}
	paragraph := text[strings.LastIndex(strings.TrimRight(text, "\n"), "\n\n")+1:]
	trailing := h.Body != ""
	for line := range strings.Lines(strings.TrimSpace(paragraph)) {
		trailing = trailing && (anyTrailer.MatchString(line) || line[0] == ' ')
	}
	if !trailing {
		text += "\n"
	}
	text += trailerFix + ": " + fix + "\n"
	for _, r := range reports {
		if !strings.Contains(h.Body, r) {
			text += trailerReport + ": " + r + "\n"
		}
	}
	if commit != "" {
		text += trailerCommit + ": " + commit + "\n"
	}
	return text
}

// plain is a message without what llpatch adds.
func plain(message string) string {
	var kept []string
	for _, line := range strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n") {
		if !ourTrailer.MatchString(line) {
			kept = append(kept, strings.TrimRight(line, " \t"))
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n")) + "\n"
}

// trailer is the value of one of llpatch's trailers, "" where there is none.
func trailer(message, key string) string {
	for _, m := range ourTrailer.FindAllStringSubmatch(message, -1) {
		if m[1] == key {
			return m[2]
		}
	}
	return ""
}

// log lists the commits that a range of git's names, oldest first along first parents.
func (r *Repo) log(ctx context.Context, revisions ...string) ([]Commit, error) {
	const fields = 10
	out, err := r.feed(ctx, nil, append([]string{
		"log", "-z", "--reverse", "--first-parent", "--no-show-signature", "--no-notes", "--no-color", "--encoding=UTF-8",
		"--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B", "--date=raw",
	}, revisions...)...)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(string(out), "\x00")
	var all []Commit
	for ; len(parts) >= fields; parts = parts[fields:] {
		c := Commit{
			ID: parts[0], Tree: parts[1], Parents: strings.Fields(parts[2]), Message: parts[9],
			Fix: trailer(parts[9], trailerFix),
		}
		c.Author = Ident{parts[3], parts[4], rawTime(parts[5])}
		c.Committer = Ident{parts[6], parts[7], rawTime(parts[8])}
		all = append(all, c)
	}
	return all, nil
}

// rawTime reads "1700000000 +0100".
func rawTime(s string) time.Time {
	secs, zone, _ := strings.Cut(s, " ")
	n, err := strconv.ParseInt(secs, 10, 64)
	if err != nil {
		return time.Time{}
	}
	at := time.Unix(n, 0).UTC()
	if z, err := time.Parse("-0700", zone); err == nil {
		at = at.In(z.Location())
	}
	return at
}

// stream writes commits for git fast-import, each on the one before it; the first stands on
// its parent, or on nothing.
func stream(ref string, commits []Commit) *bytes.Buffer {
	var b bytes.Buffer
	data := func(s []byte) { fmt.Fprintf(&b, "data %d\n%s\n", len(s), s) }
	b.WriteString("feature done\n")
	for i, c := range commits {
		if i == 0 {
			fmt.Fprintf(&b, "reset %s\n", ref)
			if len(c.Parents) > 0 {
				fmt.Fprintf(&b, "from %s\n", c.Parents[0])
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "commit %s\nauthor %s\ncommitter %s\n", ref, c.Author, c.Committer)
		data([]byte(c.Message))
		paths := slices.Sorted(maps.Keys(c.files))
		for _, p := range paths {
			if c.files[p] == nil {
				fmt.Fprintf(&b, "D %s\n", quotePath(p))
			}
		}
		for _, p := range paths {
			if f := c.files[p]; f != nil {
				fmt.Fprintf(&b, "M %s inline %s\n", f.Mode, quotePath(p))
				data(f.Data)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("done\n")
	return &b
}

// quotePath writes a path as fast-import reads it.
func quotePath(p string) string {
	if !strings.ContainsAny(p, "\"\n\\") && !strings.HasPrefix(p, " ") {
		return p
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p) + `"`
}
