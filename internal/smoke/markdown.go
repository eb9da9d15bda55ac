package smoke

import (
	"fmt"
	"strings"
)

// Markdown returns the report for a pull request or release notes: the verdict,
// a table of checks, what failed with its last log lines, memory, the machine.
func (r *Report) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }

	title := strings.TrimSpace(r.Tag + " " + r.Target)
	p("# Smoke checks of %s: %s\n\n", cell(title), r.Verdict)
	p("%s %.1f s, %s.\n\n", r.tally(), r.Seconds, r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	p("| check | place | verdict | seconds | what was seen |\n|---|---|---|--:|---|\n")
	for _, c := range r.Checks {
		verdict := string(c.Verdict)
		if c.Verdict != Passed {
			verdict = "**" + verdict + "**"
		}
		p("| %s | %s | %s | %.2f | %s |\n", cell(c.Name), cell(c.Place), verdict, c.Seconds, cell(c.seen()))
	}
	if r.count(Absent) > 0 {
		p("\nA check that was not run needs a card that is not here; it stops nothing, and shows nothing.\n")
	}
	r.markdownMemory(p)
	for _, c := range r.Checks {
		if len(c.Tail) == 0 && c.Log == "" {
			continue
		}
		p("\n## %s\n\n%s\n", cell(c.Name), text(c.Detail))
		if len(c.Tail) > 0 {
			fence := fence(c.Tail)
			p("\n%s\n%s\n%s\n", fence, strings.Join(c.Tail, "\n"), fence)
		}
		if c.Log != "" {
			p("\nLog: %s\n", code(c.Log))
		}
	}
	if len(r.Servers) > 0 {
		p("\n## Servers\n\n| started for | build | ready after | peak RSS | looks | end |\n|---|---|--:|--:|--:|---|\n")
		for i := range r.Servers {
			s := &r.Servers[i]
			peak := size(s.PeakRSSKiB)
			if s.PeakVRAMKiB > 0 {
				peak += ", VRAM " + size(s.PeakVRAMKiB)
			}
			p("| %s | %s | %s | %s | %s | %s |\n", cell(s.Check), cell(s.Build), s.ready(), peak, s.looks(), cell(s.End))
		}
	}
	if len(r.Models) > 0 {
		p("\n## Models\n\n")
		for _, m := range r.Models {
			p("- %s, seed %d, %d layers of %d, %d bytes, sha256 `%s`\n", m.Type, m.Seed, m.Layers, m.Embd, m.Bytes, m.SHA256)
		}
	}
	p("\n## Machine and source\n\n")
	for _, f := range r.facts() {
		p("- %s: %s\n", f.Name, cell(f.Value))
	}
	return b.String()
}

// markdownMemory is a line for every check that watched memory.
func (r *Report) markdownMemory(p func(string, ...any)) {
	head := false
	for _, c := range r.Checks {
		if c.Growth == nil {
			continue
		}
		if !head {
			p("\n## Memory\n\n| check | build | what memory did |\n|---|---|---|\n")
			head = true
		}
		for _, side := range c.Growth.sides() {
			p("| %s | %s | %s |\n", cell(c.Name), side.Build, cell(strings.Join(side.Said, "\n")))
		}
	}
	if head {
		p("\n%s\n", moreThanAsked)
	}
}

// cell makes a text fit one cell of a table, and mean nothing but itself.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\r", "", "\n", "<br>").Replace(text(s))
}

// text keeps what a program printed from being read as markup: as HTML, a link,
// an image, a mention, emphasis or code.
func text(s string) string {
	return strings.NewReplacer(
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "\\`", "*", "\\*", "[", "\\[", "\\", "\\\\",
		"@", "@\u200b", "#", "#\u200b", "://", ":\u200b//",
	).Replace(s)
}

// code is a text as code, whatever backquotes it holds.
func code(s string) string {
	f := "`"
	for strings.Contains(s, f) {
		f += "`"
	}
	return f + " " + strings.ReplaceAll(s, "\n", " ") + " " + f
}

// figure shortens a fraction: JSON has all digits.
func figure(v any) any {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.4g", f)
	}
	return v
}

// fence is longer than any run of backquotes in the lines.
func fence(lines []string) string {
	f := "```"
	for _, l := range lines {
		for strings.Contains(l, f) {
			f += "`"
		}
	}
	return f
}
