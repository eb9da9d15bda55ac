package publish

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/report"
)

// The files of an index.
const (
	indexFile = "index.json"
	pageFile  = "index.html"
	shFile    = "which.sh"
	cmdFile   = "which.cmd"
)

//go:embed which.sh
var shText string

//go:embed which.cmd
var cmdText string

// archivesHere is the line of a script in whose place the archives go.
const archivesHere = "archives-here\n"

// pages are the files of an index.
func pages(x bundle.Index) (map[string][]byte, error) {
	data, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return nil, err
	}
	html, err := doc(x).HTML()
	if err != nil {
		return nil, err
	}
	var sh, cmd strings.Builder
	for _, a := range x.Newest() {
		if a.Facts["system"] != "" {
			fmt.Fprintf(&cmd, "call :try %s\n", quotedCmd(a.Name, strings.Join(a.URLs, " "), a.Facts["system"],
				a.Facts["cards"], a.Facts["driver"], a.Facts["dlls"]))
			continue
		}
		sh.WriteString("anew\n")
		for _, key := range slices.Sorted(maps.Keys(a.Facts)) {
			fmt.Fprintf(&sh, "%s=%s\n", key, quoted(a.Facts[key]))
		}
		fmt.Fprintf(&sh, "judge %s %s\n", quoted(a.Name), quoted(strings.Join(a.URLs, " ")))
	}
	return map[string][]byte{
		indexFile: append(data, '\n'), pageFile: html,
		shFile: []byte(strings.Replace(shText, archivesHere, sh.String(), 1)),
		cmdFile: bytes.ReplaceAll([]byte(strings.Replace(cmdText, archivesHere, cmd.String(), 1)), []byte("\n"),
			[]byte("\r\n")),
	}, nil
}

// quoted makes a text one word of a POSIX shell's.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quotedCmd makes arguments of cmd's, which takes a quote or a percent sign inside for its own.
func quotedCmd(args ...string) string {
	for i, a := range args {
		args[i] = `"` + strings.NewReplacer(`"`, "", "%", "%%", "\r", "", "\n", "").Replace(a) + `"`
	}
	return strings.Join(args, " ")
}

// doc is the index for people.
func doc(x bundle.Index) report.Doc {
	d := report.Doc{Title: "llama.cpp, fixed and proven", Parts: []report.Part{{
		Text: []string{
			"Which file is for this machine: download which.sh (Linux) or which.cmd (Windows) from here, read it, and run " +
				"it: it prints the one address, or why there is none.",
			"What you have downloaded is proven by llpatch verify FILE --key KEY, with the files beside it that begin as it " +
				"does, and the key of who published it, which you have from elsewhere.",
		},
		Facts: []report.Fact{{Name: "As of", Value: x.Date.Format(time.DateOnly)}},
	}}}
	for _, r := range x.Releases {
		part := report.Part{
			ID: r.Name, Heading: r.Name, Place: r.Date.Format(time.DateOnly),
			Table: report.Table{Head: report.Columns("File", "For", "Needs", "#MiB", "Known defects", "SHA-256")},
		}
		if w := r.Withdrawn; w != nil {
			part.Mark = report.Mark{Text: "withdrawn", Class: "bad"}
			part.Text = []string{fmt.Sprintf("Do not use it. Withdrawn on %s: %s", w.Date.Format(time.DateOnly), w.Why)}
		}
		for _, a := range r.Archives {
			row := report.Row(a.Name, a.Target, needs(a.Facts), fmt.Sprintf("%.1f", float64(a.Bytes)/(1<<20)),
				fmt.Sprintf("%d open, %d cured", a.Open, a.Cured), a.SHA256)
			row[0].Class = "name"
			if len(a.URLs) == 1 && r.Withdrawn == nil {
				row[0].URL = a.URLs[0]
			}
			part.Table.Rows = append(part.Table.Rows, row)
			if len(a.URLs) > 1 {
				part.Notes = append(part.Notes, fmt.Sprintf("%s is given in %d parts: cat %s.part* > %s joins them.", a.Name,
					len(a.URLs), a.Name, a.Name))
			}
		}
		d.Parts = append(d.Parts, part)
	}
	return d
}

// needs says in words what an archive runs on.
func needs(facts map[string]string) string {
	var all []string
	say := func(format, key string) {
		if v := facts[key]; v != "" {
			all = append(all, fmt.Sprintf(format, v))
		}
	}
	say("Windows (%s)", "system")
	say("Linux on %s", "machine")
	say("glibc %s or newer", "glibc")
	if kinds := strings.Fields(facts["runs_on"]); len(kinds) > 0 {
		for i, k := range kinds {
			kinds[i], _, _ = strings.Cut(k, ":")
		}
		all = append(all, "a card of "+strings.Join(kinds, ", "))
	}
	say("a card of %s", "cards")
	say("NVIDIA's driver %s or newer", "driver")
	say("the libraries %s", "toolkit")
	say("the DLLs %s", "dlls")
	say("a processor with %s", "flags")
	return strings.Join(all, "; ")
}
