package smoke

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown returns the report for a pull request or release notes: the verdict,
// a table of checks, what failed with its last log lines, memory, the machine.
func (r *Report) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }

	title := strings.TrimSpace(r.Tag + " " + r.Target)
	p("# Smoke checks of %s: %s\n\n", title, r.Verdict)
	p("%d checks on %s: %d passed, %d failed, %d not run. %.1f s, %s.\n\n",
		len(r.Checks), r.Place, r.count(Passed), r.count(Wrong), r.count(NotJudged),
		r.Seconds, r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	p("| check | verdict | seconds | what was seen |\n|---|---|--:|---|\n")
	for _, c := range r.Checks {
		verdict := string(c.Verdict)
		if c.Verdict != Passed {
			verdict = "**" + verdict + "**"
		}
		seen := cell(c.Detail)
		for _, k := range slices.Sorted(maps.Keys(c.Figures)) {
			if seen != "" {
				seen += "; "
			}
			seen += cell(fmt.Sprintf("%s %v", strings.ReplaceAll(k, "_", " "), figure(c.Figures[k])))
		}
		p("| %s | %s | %.2f | %s |\n", cell(c.Name), verdict, c.Seconds, seen)
	}
	for _, c := range r.Checks {
		if len(c.Tail) == 0 && c.Log == "" {
			continue
		}
		p("\n## %s\n\n%s\n", c.Name, c.Detail)
		if len(c.Tail) > 0 {
			fence := fence(c.Tail)
			p("\n%s\n%s\n%s\n", fence, strings.Join(c.Tail, "\n"), fence)
		}
		if c.Log != "" {
			p("\nLog: `%s`\n", c.Log)
		}
	}
	if len(r.Servers) > 0 {
		p("\n## Servers\n\n| started for | ready after | peak RSS | samples | end |\n|---|--:|--:|--:|---|\n")
		for _, s := range r.Servers {
			ready, rss, samples := "never", "not seen", fmt.Sprint(len(s.Samples))
			if s.ReadySeconds > 0 {
				ready = fmt.Sprintf("%.0f ms", s.ReadySeconds*1000)
			}
			if s.PeakRSSKiB > 0 {
				rss = fmt.Sprintf("%.1f MiB", float64(s.PeakRSSKiB)/1024)
			}
			if s.LateSamples > 0 {
				samples += fmt.Sprintf(" (%d late)", s.LateSamples)
			}
			p("| %s | %s | %s | %s | %s |\n", cell(s.Check), ready, rss, samples, cell(s.End))
		}
	}
	if len(r.Models) > 0 {
		p("\n## Models\n\n")
		for _, m := range r.Models {
			p("- %s, seed %d, %d layers of %d, %d bytes, sha256 `%s`\n", m.Type, m.Seed, m.Layers, m.Embd, m.Bytes, m.SHA256)
		}
	}
	p("\n## Machine\n\n%s %s", r.Machine.OS, r.Machine.Arch)
	if r.Machine.Kernel != "" {
		p(", kernel %s", r.Machine.Kernel)
	}
	if r.Machine.CPU != "" {
		p(", %s", r.Machine.CPU)
	}
	p(", %d cores", r.Machine.Cores)
	if r.Machine.MemoryKiB > 0 {
		p(", %.1f GiB of memory", float64(r.Machine.MemoryKiB)/(1<<20))
	}
	p(".\n")
	return b.String()
}

// cell makes a text fit one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\r", "", "\n", "<br>", "<", "&lt;").Replace(s)
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
