package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llpatch/llpatch/internal/exit"
)

const repository = "../.."

// manual returns the text of the manual's chapters, by file name.
func manual(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(repository + "/docs/manual/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no chapters: %v", err)
	}
	chapters := map[string]string{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		chapters[filepath.Base(name)] = string(data)
	}
	return chapters
}

func newRoot() *cobra.Command {
	a := &app{stdout: io.Discard, stderr: io.Discard}
	a.progress = newProgress(io.Discard)
	return a.root()
}

// each calls f for every command that the help shows, but the shells of completion and help.
func each(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		f(sub)
		if sub.Name() != "completion" {
			each(sub, f)
		}
	}
}

// Every command has a row in the manual's table, and every flag of one is explained in
// some chapter.
func TestManualHasCommands(t *testing.T) {
	chapters := manual(t)
	all := strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, text := range chapters {
			if !yield(text) {
				return
			}
		}
	}), "\n")
	root := newRoot()
	has := func(f *pflag.Flag) bool {
		return regexp.MustCompile(`--`+f.Name+`\b`).MatchString(all) || f.Shorthand != "" &&
			strings.Contains(all, " -"+f.Shorthand+" ")
	}
	commands := 0
	each(root, func(c *cobra.Command) {
		commands++
		row := "\n| `" + c.CommandPath()
		if !c.HasAvailableSubCommands() && !strings.Contains(chapters["commands.md"], row+"`") &&
			!strings.Contains(chapters["commands.md"], row+" ") {
			t.Errorf("commands.md has no row for %s", c.CommandPath())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !has(f) {
				t.Errorf("no chapter says what %s --%s is", c.CommandPath(), f.Name)
			}
		})
	})
	if commands < 20 {
		t.Errorf("%d commands", commands)
	}
}

// Every page of the help is for a terminal of 80 columns, and begins with a line that fits
// into the list of commands.
func TestHelpWidth(t *testing.T) {
	var page strings.Builder
	root := newRoot()
	root.SetOut(&page)
	judge := func(c *cobra.Command) {
		page.Reset()
		c.InitDefaultHelpFlag()
		if err := c.Help(); err != nil || !strings.Contains(page.String(), "Usage:") {
			t.Errorf("%s --help: %v, %q", c.CommandPath(), err, page.String())
		}
		for line := range strings.Lines(page.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if n := len(c.Short); n > 60 {
			t.Errorf("%s: %d letters in %q", c.CommandPath(), n, c.Short)
		}
	}
	judge(root)
	each(root, judge)
	shells, _, err := root.Find([]string{"completion"})
	if err != nil {
		t.Fatal(err)
	}
	each(shells, judge) // which the walk above leaves out
}

// Every exit code has its row.
func TestManualHasExitCodes(t *testing.T) {
	table := manual(t)["output.md"]
	for code := range exit.Source + 1 {
		if !strings.Contains(table, fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("output.md has no row for exit code %d", code)
		}
	}
	if !strings.Contains(table, fmt.Sprintf("\n| %d | ", exit.Interrupted)) {
		t.Errorf("output.md has no row for exit code %d", exit.Interrupted)
	}
	goOn := 0
	each(newRoot(), func(c *cobra.Command) {
		if c.Annotations[interrupted] != goesOn {
			return
		}
		goOn++
		if name := strings.TrimPrefix(c.CommandPath(), "llpatch "); !strings.Contains(table, "`"+name+"`") {
			t.Errorf("output.md does not say that %s goes on", name)
		}
	})
	if goOn < 5 {
		t.Errorf("%d commands go on", goOn)
	}
}

var (
	shownCode  = regexp.MustCompile("(?s)```.*?```|`[^`]+`|\n(?: {4}|\t)[^\n]*")
	shownCall  = regexp.MustCompile(`(?:^|[\s$("])llpatch ([a-z][a-z|-]*)([^"\n#;>)]*)`)
	longFlag   = regexp.MustCompile(`(?:^|[\s\[|])--([a-z][a-z0-9-]*)`)
	shortFlag  = regexp.MustCompile(`(?:^|[\s\[])-([A-Za-z])\b`)
	lineBreaks = regexp.MustCompile(`\s*\n\s*`)
)

// wrongCalls says which calls of llpatch in a text's code name a command or a flag that
// is not there, and how many calls there are.
func wrongCalls(root *cobra.Command, text string, isCode bool) (wrong []string, calls int) {
	pieces := []string{text}
	if !isCode {
		pieces = shownCode.FindAllString(text, -1)
	}
	for _, piece := range pieces {
		switch {
		case isCode || strings.HasPrefix(piece, "```"):
		case strings.HasPrefix(piece, "`"): // one call, that may go over a line's end
			piece = lineBreaks.ReplaceAllString(strings.Trim(piece, "`"), " ")
		}
		for _, m := range shownCall.FindAllStringSubmatch(piece, -1) {
			rest, _, _ := strings.Cut(m[2]+" ", " -- ")
			rest = strings.ReplaceAll(rest, `\|`, "|")
			for _, name := range strings.Split(m[1], "|") {
				calls++
				c, left, err := root.Find(append([]string{name}, strings.Fields(rest)...))
				if err != nil || c == root {
					wrong = append(wrong, fmt.Sprintf("llpatch %s is no command: %s", name, strings.TrimSpace(m[0])))
					continue
				}
				// SHELL stands for any of them.
				if len(left) > 0 && c.HasSubCommands() && !strings.Contains(c.Use, " ") && left[0] == strings.ToLower(left[0]) {
					wrong = append(wrong, fmt.Sprintf("%s has no %s", c.CommandPath(), left[0]))
				}
				for _, f := range longFlag.FindAllStringSubmatch(rest, -1) {
					if f[1] != "help" && c.Flags().Lookup(f[1]) == nil && c.InheritedFlags().Lookup(f[1]) == nil {
						wrong = append(wrong, fmt.Sprintf("%s has no --%s", c.CommandPath(), f[1]))
					}
				}
				for _, f := range shortFlag.FindAllStringSubmatch(rest, -1) {
					if c.Flags().ShorthandLookup(f[1]) == nil && c.InheritedFlags().ShorthandLookup(f[1]) == nil {
						wrong = append(wrong, fmt.Sprintf("%s has no -%s", c.CommandPath(), f[1]))
					}
				}
			}
		}
	}
	return wrong, calls
}

// Every call of llpatch that a page or a help text shows is one that llpatch takes.
func TestCallsShown(t *testing.T) {
	root, calls := newRoot(), 0
	judge := func(where, text string, isCode bool) {
		wrong, n := wrongCalls(root, text, isCode)
		calls += n
		for _, w := range wrong {
			t.Errorf("%s: %s", where, w)
		}
	}
	err := filepath.WalkDir(repository, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != repository && (strings.HasPrefix(d.Name(), ".") || d.Name() == "dist" ||
			d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		data, err := os.ReadFile(name)
		judge(name, string(data), false)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	each(root, func(c *cobra.Command) { judge(c.CommandPath()+" --help", examples(c), true) })
	judge("llpatch --help", examples(root), true)
	if calls < 100 {
		t.Errorf("%d calls are shown: the test looks in the wrong place", calls)
	}
}

// examples are the lines of a command's help that stand apart from its prose.
func examples(c *cobra.Command) string {
	var lines []string
	for line := range strings.Lines(c.Long + "\n" + c.Example) {
		if strings.HasPrefix(line, "  ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// The test above must be able to fail.
func TestCallsShownNotice(t *testing.T) {
	for _, c := range []struct {
		text  string
		calls int
		wrong string
	}{
		{"`llpatch release TAG TARGET --bundle thin|full` and `llpatch leak -- CMD --what`", 2, ""},
		{"an llpatch filed under --nothing, `cmd/llpatch`, `llpatch --help`, `llpatch COMMAND --help`", 0, ""},
		{"```\nCUDA_HOME=$(llpatch env create NAME) llpatch build b1 x --env y # --then\n```", 2, ""},
		{"\n    llpatch plan b1 x --sh > plan.sh --foo\n", 1, ""},
		{"`llpatch build|smoke TAG TARGET --on ssh:HOST`", 2, ""},
		{"`llpatch relaese TAG`", 1, "llpatch relaese is no command: llpatch relaese TAG"},
		{"`llpatch env crate NAME`", 1, "llpatch env has no crate"},
		{"`llpatch plan TAG TARGET\n --on ssh:HOST`", 1, "llpatch plan has no --on"},
		{"`llpatch plan TAG TARGET [--sh\\|--bash]`", 1, "llpatch plan has no --bash"},
		{"`llpatch build TAG TARGET -o DIR`", 1, "llpatch build has no -o"},
		{"`llpatch plan|build|smoke TAG TARGET --card 0`", 3, "llpatch plan has no --card llpatch build has no --card"},
	} {
		wrong, calls := wrongCalls(newRoot(), c.text, false)
		if calls != c.calls || strings.Join(wrong, " ") != c.wrong {
			t.Errorf("%q: %d calls, %q; want %d, %q", c.text, calls, wrong, c.calls, c.wrong)
		}
	}
}
