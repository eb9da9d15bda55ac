// Package doctor looks at this machine for somebody who wants to build a target, or to
// run a bundle: what is there, what is missing and how to get it. It changes nothing.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// Status is what came of one look.
type Status string

// The states of a finding.
const (
	OK      Status = "ok"
	Missing Status = "missing"
	Unknown Status = "cannot tell"
)

// Finding is one thing that was looked at.
type Finding struct {
	About    string `json:"about"` // what it concerns: tool, memory, driver, …
	Status   Status `json:"status"`
	Optional bool   `json:"optional,omitempty"` // it is missing and stops nothing
	Says     string `json:"says"`               // a sentence
	Fix      string `json:"fix,omitempty"`      // a command, or what to do
}

// Report is what was found.
type Report struct {
	Kind         string    `json:"kind"`    // target, bundle or file
	Subject      string    `json:"subject"` // its name
	Tag          string    `json:"tag,omitempty"`
	Asked        string    `json:"asked,omitempty"`    // the tag that was asked for, where Tag is the nearest
	Able         bool      `json:"able"`               // it can be built here, or runs here, as far as can be told
	Buildenv     string    `json:"env,omitempty"`      // the buildenv to build in, where this machine has not every tool
	BuildenvMade bool      `json:"env_made,omitempty"` // its root is there
	Findings     []Finding `json:"findings"`

	Security *spec.Known `json:"security,omitempty"` // of a bundle or a program whose build is known
}

// The kinds of reports.
const (
	KindTarget = "target"
	KindBundle = "bundle"
	KindFile   = "file"
)

func (r *Report) add(about string, s Status, format string, args ...any) *Finding {
	r.Findings = append(r.Findings, Finding{About: about, Status: s, Says: patch.Printable(fmt.Sprintf(format, args...))})
	return &r.Findings[len(r.Findings)-1]
}

func (r *Report) ok(about, format string, args ...any) { r.add(about, OK, format, args...) }

// lacks notes what stops the user, with the way out.
func (r *Report) lacks(about, fix, format string, args ...any) {
	r.add(about, Missing, format, args...).Fix = patch.Printable(fix)
}

// without notes what is missing and stops nothing.
func (r *Report) without(about, fix, format string, args ...any) {
	f := r.add(about, Missing, format, args...)
	f.Fix, f.Optional = fix, true
}

func (r *Report) unknown(about, fix, format string, args ...any) {
	r.add(about, Unknown, format, args...).Fix = fix
}

// judge sets Able.
func (r *Report) judge() *Report {
	r.Able = !slices.ContainsFunc(r.Findings, Finding.stops)
	return r
}

func (f Finding) stops() bool { return f.Status == Missing && !f.Optional }

// isTool is a tool that stops the user, who can have it in a buildenv.
func (f Finding) isTool() bool { return f.About == "tool" && f.stops() }

// Text returns a line for each finding and a last one with the verdict.
func (r *Report) Text() string {
	wide := 0
	for _, f := range r.Findings {
		wide = max(wide, len(f.About))
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-11s  %-*s  %s", f.Status, wide, f.About, f.Says)
		if f.Fix != "" {
			fmt.Fprintf(&b, " [%s]", f.Fix)
		}
		b.WriteByte('\n')
	}
	if r.Security != nil {
		for _, line := range r.Security.Lines(listedDefects) {
			b.WriteString(patch.Printable(line) + "\n")
		}
	}
	fmt.Fprintf(&b, "%s.\n", r.verdict())
	return b.String()
}

// listedDefects is how many open defects of a bundle are shown; --json has all of them.
const listedDefects = 8

func (r *Report) verdict() string {
	what := patch.Printable(strings.TrimSpace(r.Tag + " " + r.Subject))
	sure := ""
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Status == Unknown }) {
		sure = ", as far as can be told"
	}
	switch {
	case r.Kind == KindTarget && r.Able && r.BuildenvMade:
		return what + " can be built here with --env " + r.Buildenv + sure
	case r.Kind == KindTarget && r.Able:
		return what + " can be built here" + sure
	case r.Kind == KindTarget && r.Buildenv != "" && !r.BuildenvMade &&
		!slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.stops() && !f.isTool() }):
		return what + " cannot be built here as it is; once llpatch env create " + r.Buildenv +
			" has made that, it can with --env " + r.Buildenv + sure
	case r.Kind == KindTarget:
		return what + " cannot be built here"
	case r.Able:
		return what + " runs here" + sure
	}
	return what + " does not run here as it is meant to"
}

// Err returns an *Unable where the report says that it cannot be done here.
func (r *Report) Err() error {
	if r.Able {
		return nil
	}
	return &Unable{r}
}

// Unable says that a target cannot be built, or a bundle not run, on this machine.
type Unable struct{ Report *Report }

// Error names what is missing.
func (e *Unable) Error() string {
	var b strings.Builder
	b.WriteString(e.Report.verdict())
	for _, f := range e.Report.Findings {
		if f.stops() {
			fmt.Fprintf(&b, "\n  %s: %s", f.About, strings.TrimRight(f.Says, "."))
		}
	}
	return b.String()
}

// ExitCode is exit.NotRun.
func (e *Unable) ExitCode() int { return exit.NotRun }
