// Package report renders a result for its readers: text for a terminal, Markdown, an HTML page that needs nothing else,
// JUnit XML, and charts of memory.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Doc is a result to be shown. Its texts are plain: what has a meaning in Markdown or HTML is escaped.
type Doc struct {
	Title string // may be empty
	Mark  Mark   // behind the title
	Parts []Part
}

// Mark is a verdict, and how a page colours it: good, bad, warn or mute.
type Mark struct{ Text, Class string }

// Part is one heading and what stands below it, in the order of the fields. All may be empty.
type Part struct {
	ID      string // what a link in a table leads to
	Heading string
	Sub     bool // it belongs to the part before
	Place   string
	Mark    Mark
	Text    []string // paragraphs
	Map     Map      // in the page alone
	Charts  []template.HTML
	List    []string
	Facts   []Fact
	Table   Table
	Notes   []string // paragraphs of less weight
	Log     string   // a log's name
	Tail    []string // its last lines
	Fold    bool     // a page shows it on request
}

// Fact is a named value.
type Fact struct{ Name, Value string }

// Table has as many cells in each row as it has columns.
type Table struct {
	Head []Column
	Rows [][]Cell
}

// Column is a column's name; numbers stand to the right.
type Column struct {
	Name   string
	Number bool
}

// Cell is a text, how a page colours it, and what it links to there: a part by its ID, or an address.
type Cell struct{ Text, Class, Link, URL string }

// Columns makes columns of names; a number's name begins with #.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i].Name, out[i].Number = strings.CutPrefix(n, "#")
	}
	return out
}

// Row makes a row of texts.
func Row(texts ...string) []Cell {
	out := make([]Cell, len(texts))
	for i, t := range texts {
		out[i].Text = t
	}
	return out
}

// Map is a heat map: rows over the same columns.
type Map struct {
	Columns []string
	Legend  []Mark // what the colours mean
	Rows    []MapRow
}

// MapRow is a row, from runs of neighbouring columns that are alike.
type MapRow struct {
	Name string
	Runs []MapRun
}

// MapRun is Width columns from First on, what they are, and why, which a click opens. The page knows the colours of
// compat's verdicts as classes.
type MapRun struct {
	First, Width int
	Is           Mark
	Why          string
}

// Tick is a column that the axis names, at a share of its width.
type Tick struct {
	Name    string
	Percent float64
}

// Ticks returns up to eight columns, the first and the last among them.
func (m Map) Ticks() (out []Tick) {
	n := min(8, len(m.Columns))
	for k := range n {
		i := (len(m.Columns) - 1) * k / max(1, n-1)
		out = append(out, Tick{m.Columns[i], 100 * (float64(i) + 0.5) / float64(len(m.Columns))})
	}
	return out
}

//go:embed doc.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"lines": func(l []string) string { return strings.Join(l, "\n") },
	"add":   func(a, b int) int { return a + b },
}).Parse(pageText))

// HTML returns one page without scripts that needs no other file and no network.
func (d Doc) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, d)
	return b.Bytes(), err
}

// Text returns the document for a terminal, without its map, charts, and the names of its columns.
func (d Doc) Text() string {
	var b strings.Builder
	line := func(s string) {
		b.WriteString(strings.TrimRight(Printable(strings.ReplaceAll(s, "\t", "    ")), " ") + "\n")
	}
	if d.Title != "" {
		line(title(d.Title, "", d.Mark))
	}
	for _, part := range d.Parts {
		b.WriteByte('\n')
		if part.Heading != "" {
			line(title(part.Heading, part.Place, part.Mark))
		}
		for _, t := range part.Text {
			line(t)
		}
		var t strings.Builder
		w := tabwriter.NewWriter(&t, 0, 0, 2, ' ', 0)
		for _, r := range part.Table.Rows {
			for _, c := range r {
				_, _ = fmt.Fprint(w, strings.ReplaceAll(Printable(c.Text), "\n", " "), "\t") // t takes everything
			}
			_, _ = fmt.Fprintln(w)
		}
		_ = w.Flush()
		for l := range strings.Lines(t.String()) {
			line("  " + strings.TrimSuffix(l, "\n"))
		}
		for _, l := range slices.Concat(part.items(), part.Notes) {
			line("  " + strings.ReplaceAll(l, "\n", "\n  "))
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// Markdown returns the document without its map and charts.
func (d Doc) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	if d.Title != "" {
		p("# %s\n", heading(d.Title, "", d.Mark))
	}
	for _, part := range d.Parts {
		if part.Heading != "" {
			p("\n##%s %s\n", map[bool]string{true: "#"}[part.Sub], heading(part.Heading, part.Place, part.Mark))
		}
		for _, t := range part.Text {
			p("\n%s\n", escape(t))
		}
		for i, l := range part.items() {
			p("%s- %s\n", map[bool]string{true: "\n"}[i == 0], inCell(l))
		}
		if len(part.Table.Rows) > 0 {
			part.Table.markdown(p)
		}
		for _, t := range part.Notes {
			p("\n%s\n", escape(t))
		}
		if len(part.Tail) > 0 {
			text := Printable(strings.ReplaceAll(strings.Join(part.Tail, "\n"), "\t", "    "))
			fence := backquotes("```", text)
			p("\n%s\n%s\n%s\n", fence, text, fence)
		}
		if part.Log != "" {
			f := backquotes("`", part.Log)
			p("\nLog: %s %s %s\n", f, strings.ReplaceAll(Printable(part.Log), "\n", " "), f)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// items are the list and the facts.
func (p Part) items() []string {
	out := slices.Clone(p.List)
	for _, f := range p.Facts {
		out = append(out, f.Name+": "+f.Value)
	}
	return out
}

func heading(text, place string, m Mark) string { return inCell(title(text, place, m)) }

func title(text, place string, m Mark) string {
	if place != "" {
		text += " (" + place + ")"
	}
	if m.Text != "" {
		text += ": " + m.Text
	}
	return text
}

func (t Table) markdown(p func(string, ...any)) {
	head, line := "|", "|"
	for _, c := range t.Head {
		head += " " + c.Name + " |"
		line += map[bool]string{true: "--:|", false: "---|"}[c.Number]
	}
	p("\n%s\n%s\n", head, line)
	for _, r := range t.Rows {
		row := "|"
		for _, c := range r {
			text := inCell(c.Text)
			if c.Class != "" && c.Class != "good" {
				text = "**" + text + "**"
			}
			row += " " + text + " |"
		}
		p("%s\n", row)
	}
}

// inCell makes a text fit one cell of a table, and mean nothing but itself.
func inCell(s string) string {
	return strings.NewReplacer("|", "\\|", "\r", "", "\n", "<br>").Replace(escape(s))
}

// escape keeps what a program printed from being read as markup: as HTML, a link, an image, a
// mention, emphasis or code.
func escape(s string) string {
	return strings.NewReplacer(
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "\\`", "*", "\\*", "[", "\\[", "\\", "\\\\",
		"@", "@\u200b", "#", "#\u200b", "://", ":\u200b//",
	).Replace(Printable(s))
}

// Printable blanks what a terminal might obey.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// backquotes returns least, or as many more as it takes to enclose a text.
func backquotes(least, s string) string {
	for strings.Contains(s, least) {
		least += "`"
	}
	return least
}
