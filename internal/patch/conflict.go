package patch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
)

// Cause says why a patch does not fit a tree.
type Cause string

// The causes of a conflict.
const (
	NoPlace     Cause = "no place"     // the hunk's preimage stands nowhere that it may
	Ambiguous   Cause = "ambiguous"    // it stands in several places, none of them the stated one
	OutOfOrder  Cause = "out of order" // it stands only before an earlier hunk of the file
	NoContext   Cause = "no context"   // nothing but a line number says where it belongs
	MissingFile Cause = "missing file"
	Exists      Cause = "exists"      // the patch creates a file that is there
	WrongType   Cause = "wrong type"  // a link where a file is meant, or the reverse
	WrongBlob   Cause = "wrong blob"  // a binary change of another file
	NotEmpty    Cause = "not empty"   // a deletion that leaves lines behind
	Unsafe      Cause = "unsafe path" // through a link, into a submodule, a case clash, a file as a folder
	TooLarge    Cause = "too large"
)

// Conflict is one reason why a patch does not fit: a hunk, or a whole file.
type Conflict struct {
	Fix   string `json:"fix"`
	Patch string `json:"patch"`
	File  string `json:"file"`
	Hunk  int    `json:"hunk,omitempty"` // 1-based, 0 if it is about the whole file
	// Line is the 1-based line of the tree's file at which the hunk nearly
	// stands, 0 if there is none.
	Line      int      `json:"line,omitempty"`
	PatchLine int      `json:"patch_line"` // where the hunk or the file begins in the patch file
	Kind      Cause    `json:"kind"`
	Detail    string   `json:"detail,omitempty"`
	Want      []string `json:"want,omitempty"`   // the hunk's preimage, lines with their ends
	Got       []string `json:"got,omitempty"`    // what stands at Line
	Places    []int    `json:"places,omitempty"` // 1-based lines at which the whole preimage stands
	After     string   `json:"after,omitempty"`  // an earlier patch of the file, fix/name, that did not fit either
	Moves     []Move   `json:"moves,omitempty"`  // where a missing file may have gone, the best first
	// Proposal is which of Places git apply takes; nil where it would not apply the
	// file, or with the hunks in another order.
	Proposal *Proposal `json:"proposal,omitempty"`
}

// Error returns the place, the cause, the difference and what to do next, on
// several lines.
func (c *Conflict) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apply %s: %s:", Printable(orElse(c.Fix, c.Patch)), Printable(c.File))
	if c.Line > 0 {
		fmt.Fprintf(&b, "%d:", c.Line)
	}
	what := "the patch"
	if c.Hunk > 0 {
		what = "hunk " + strconv.Itoa(c.Hunk)
	}
	fmt.Fprintf(&b, " %s (%s:%d) ", what, Printable(c.Patch), c.PatchLine)
	b.WriteString(Printable(c.cause()))
	b.WriteString(c.diff())
	if c.Proposal != nil {
		b.WriteString("\n  " + Printable(c.Proposal.String()))
	}
	b.WriteString("\n  next: ")
	b.WriteString(Printable(c.next()))
	return b.String()
}

// ExitCode is exit.Conflict.
func (c *Conflict) ExitCode() int { return exit.Conflict }

// Hint says what to do.
func (c *Conflict) Hint() string {
	return "the tree is not what the fix was made for; nothing was written"
}

func (c *Conflict) cause() string {
	switch c.Kind {
	case NoPlace:
		if len(c.Places) > 0 {
			return "has no place: " + c.Detail + "; its lines stand at " + lineList(c.Places)
		}
		if sameButSpace(c.Want, c.Got) {
			return "has no place: the lines differ in white space or line ends"
		}
		return "has no place: its lines do not stand together in the file"
	case Ambiguous:
		if len(c.Places) == 1 {
			return "may be there already: " + c.Detail
		}
		s := "fits in several places: lines " + lineList(c.Places)
		if c.Detail != "" {
			s += "; " + c.Detail
		}
		return s
	case OutOfOrder:
		return fmt.Sprintf("stands only at line %d, before an earlier hunk of the same file", c.Line)
	case MissingFile:
		return orElse(c.Detail, "changes a file that is not there")
	case Exists:
		return orElse(c.Detail, "creates a file that is already there")
	case NotEmpty:
		return "deletes the file, but lines are left"
	case NoContext:
		return "has no safe place: " + c.Detail
	case BothChanged, AmongEqual:
		return "cannot be merged: " + c.Detail
	case GitDisagrees, Unchecked:
		return "is not merged: " + c.Detail
	case Unsafe:
		return "is refused: " + c.Detail
	}
	return "does not fit: " + c.Detail
}

// next says what a user can do about it.
func (c *Conflict) next() string {
	switch {
	case c.After != "":
		return "mend " + c.After + " first: it changes this file before and does not fit either"
	case len(c.Moves) > 0:
		return fmt.Sprintf("if it is that file, run llpatch apply again with --three-way --follow %s=%s", c.File,
			c.Moves[0].Path)
	case c.Kind == Unchecked:
		return "install git, or put it on the PATH: a merge counts only if both give the same"
	case c.Kind == GitDisagrees:
		return "merge the file by hand, and make a variant of the fix for this tag of it"
	case c.Kind == Ambiguous && len(c.Places) == 1:
		return "see whether upstream has the change already; if so, end the range of " + c.Patch + " before this tag"
	case c.Kind == Ambiguous:
		return "give the hunk more context (git format-patch -U8) so that only one place fits"
	case c.Kind == NoContext:
		return "make the patch again with context (git format-patch -U3)"
	case c.Kind == Unsafe || c.Kind == TooLarge:
		return "read the patch before trusting it"
	case c.Kind == Exists:
		return "see whether upstream has the change already; if so, end the range of " + c.Patch + " before this tag"
	}
	return "write a variant of the fix for this tag, or end the range of " + c.Patch + " before it"
}

// diff shows the preimage against what stands there.
func (c *Conflict) diff() string {
	wants := "the patch wants (-)"
	switch c.Kind {
	case NoPlace:
		if len(c.Places) > 0 || len(c.Want) == 0 || len(c.Got) == 0 {
			return ""
		}
	case BothChanged, AmongEqual:
		wants = "the patch makes (-)"
		if len(c.Want)+len(c.Got) == 0 {
			return ""
		}
	default:
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s, line %d of the tree has (+):", wants, c.Line)
	for _, l := range shortDiff(c.Want, c.Got) {
		b.WriteString("\n    ")
		b.WriteString(l)
	}
	return b.String()
}

// visible makes a line fit for a terminal, and its odd ends seen.
func visible(line string) string {
	text, ok := strings.CutSuffix(line, "\n")
	if !ok {
		text += " (no newline)"
	}
	if t, ok := strings.CutSuffix(text, "\r"); ok {
		text = t + " (CR)"
	}
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	const most = 160
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}

func lineList(lines []int) string {
	const most = 8
	var parts []string
	for _, l := range lines[:min(len(lines), most)] {
		parts = append(parts, strconv.Itoa(l))
	}
	if len(lines) > most {
		return strings.Join(parts, ", ") + " and more"
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func plural(n int, noun string) string {
	if n == 1 || !strings.HasSuffix(noun, "line") {
		return strconv.Itoa(n) + " " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
