package spec

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/llpatch/llpatch/internal/exit"
)

// Error says where a declaration is wrong, with the line itself and a mark
// under the place.
type Error struct {
	File      string // path below the declarations' folder
	Line, Col int    // 1-based; 0 where the whole file is meant
	Text      string // the line at fault, empty where there is none
	Msg       string
}

// Error returns file:line:col, the cause, and the marked line below it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": " + e.Msg)
	if e.Text != "" {
		num := fmt.Sprintf("%5d | ", e.Line)
		// Tabs stay tabs, so that the mark stands under its place.
		pad := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, e.Text[:min(max(e.Col-1, 0), len(e.Text))])
		fmt.Fprintf(&b, "\n%s%s\n%s%s^", num, e.Text, strings.Repeat(" ", len(num)), pad)
	}
	return b.String()
}

// ExitCode is exit.Declaration.
func (e *Error) ExitCode() int { return exit.Declaration }

func errorAt(file string, data []byte, p position, format string, args ...any) *Error {
	e := &Error{File: file, Line: p.line, Col: p.col, Msg: fmt.Sprintf(format, args...)}
	if p.line > 0 {
		if lines := strings.Split(string(data), "\n"); p.line <= len(lines) {
			e.Text = strings.TrimRight(lines[p.line-1], "\r")
		}
	}
	return e
}

// The library names the Go field, which says nothing to who wrote the file.
var wrongTypeRE = regexp.MustCompile(`^cannot decode TOML (\S+) into .*of type (\S+)$`)

// decodeTOML reads data into v and refuses keys that v does not have.
func decodeTOML(file string, data []byte, v any) error {
	err := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields().Decode(v)
	var missing *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		var all []error
		for _, m := range missing.Errors {
			line, col := m.Position()
			all = append(all, errorAt(file, data, position{line, col}, "unknown key %q", strings.Join(m.Key(), ".")))
		}
		return errors.Join(all...)
	case errors.As(err, &bad):
		line, col := bad.Position()
		msg := strings.TrimPrefix(bad.Error(), "toml: ")
		if m := wrongTypeRE.FindStringSubmatch(msg); m != nil {
			msg = fmt.Sprintf("this is a %s; the key takes %s", m[1], m[2])
		}
		return errorAt(file, data, position{line, col}, "%s", msg)
	}
	return &Error{File: file, Msg: strings.TrimPrefix(err.Error(), "toml: ")}
}

// Unknown is a name that nothing declared has.
type Unknown struct {
	What  string // such as "target"
	Name  string
	Known []string
	List  string // the command that lists them, or empty
}

// Error names those that there are.
func (e *Unknown) Error() string {
	return fmt.Sprintf("there is no %s %q; there are: %s", e.What, e.Name, cmp.Or(strings.Join(e.Known, ", "), "none"))
}

// ExitCode is exit.Usage.
func (e *Unknown) ExitCode() int { return exit.Usage }

// Hint names the nearest, or what lists all.
func (e *Unknown) Hint() string {
	near := exit.DidYouMean(e.Name, e.Known)
	if near == "" && e.List != "" {
		return e.List + " tells what each of them is"
	}
	return near
}
