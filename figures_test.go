package llpatch_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/evidence"
)

// judgedPages are those in which every measured figure names its record, or is marked.
var judgedPages = []string{
	"README.md", "docs/win7.md", "docs/performance.md", "docs/evidence/README.md",
	"docs/fixes/*.md",
}

var (
	figureLink = regexp.MustCompile(`\[([^\]]*)\]\(([^()\s#]+)#([^()\s]+)\)`)
	unreadLink = regexp.MustCompile(`\S*\.(?:json|txt)#\S*`) // what figureLink has left
	denied     = regexp.MustCompile(`\b(?:not|never) (?:missed|unclear)`)
	noRecord   = regexp.MustCompile(`\*No record: [^*]+\.\*`)
	anyLink    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	tableRule  = regexp.MustCompile(`^\|[-:| ]+\|$`)
	listItem   = regexp.MustCompile(`^ *(-|\d+\.) `)
	sentence   = regexp.MustCompile(`[.?!]\**\s+`)

	// measured is what looks like a figure of a trial: a size, a time, a speed, a share,
	// so many of so many, or a ratio. What a program is set to is written as code or in words.
	measured = regexp.MustCompile(`\d ?(?:[KMGk]i?B|bytes|t/s|ms|s|min|minutes|h|%)(?:[^\pL\pN]|$)|\d of \d|(?:^|[^\pL\d.])[01]\.\d{2,3}(?:[^\d.]|$)|\d\.\d+ to \d`)
	// unitIn is a unit in the head of a table's column.
	unitIn = regexp.MustCompile(`(?:^|[\s(])(?:[KMGk]i?B|t/s|ms|s|ratio|%)(?:$|[\s),])`)
	// noFigure is the level of an interval, a name, a version, an aim.
	noFigure = regexp.MustCompile(`H100 80GB HBM3|95 %|(?:CMake|Ninja|Go|git|GCC|CUDA|ROCm|nvcc|glibc|clang|wine|HIP|OpenSSH|aim of|aim) \d+(?:\.\d+)*`)
)

// spot is a piece of a page that is read by itself: a cell, or a sentence.
type spot struct {
	text   string
	marked bool // no record is kept, and that is said
	figure bool // a cell below a unit
}

// spots takes a page apart.
func spots(doc string) []spot {
	var out []spot
	section := 0 // the level of the heading whose section is marked; 0: none
	headed := 0  // the level of a heading directly above
	before := "" // the paragraph above, whose mark is also for the table or list after it
	for _, block := range blocks(prose(doc)) {
		if m := heading.FindString(block); m != "" {
			level := len(m) - len(strings.TrimLeft(m, "#"))
			if headed = level; section >= level {
				section = 0
			}
			before = ""
			continue
		}
		if mark := noRecord.FindString(block); headed > 0 && strings.TrimSpace(block) == mark && mark != "" {
			section = headed
		}
		headed = 0
		marked := section > 0 || noRecord.MatchString(before)
		lines := strings.Split(block, "\n")
		switch {
		case strings.HasPrefix(block, "|"):
			var units []bool
			for i, line := range lines {
				cells := strings.Split(strings.Trim(line, "|"), "|")
				if i == 0 {
					for _, c := range cells {
						units = append(units, unitIn.MatchString(codeSpan.ReplaceAllString(c, "")))
					}
				}
				if tableRule.MatchString(line) {
					continue
				}
				for j, c := range cells {
					out = append(out, spot{c, marked || noRecord.MatchString(line), i > 0 && j < len(units) && units[j]})
				}
			}
		case listItem.MatchString(block):
			for _, item := range listItems(lines) {
				out = append(out, sentences(item, marked || noRecord.MatchString(item))...)
			}
		default:
			before = block
			out = append(out, sentences(block, section > 0 || noRecord.MatchString(block))...)
			continue
		}
	}
	return out
}

// blocks are paragraphs, lists, tables and headings.
func blocks(doc string) []string {
	var out []string
	open := false
	kind := func(line string) int {
		switch {
		case strings.HasPrefix(line, "|"):
			return 1
		case listItem.MatchString(line):
			return 2
		}
		return 0
	}
	last := 0
	for line := range strings.Lines(doc) {
		line = strings.TrimRight(line, "\n")
		k := kind(line)
		switch {
		case strings.TrimSpace(line) == "":
			open = false
			continue
		case heading.MatchString(line):
			out, open = append(out, line), false
			continue
		case open && (k == last || k == 0 && last == 2):
			out[len(out)-1] += "\n" + line
			continue
		}
		out, open, last = append(out, line), true, k
	}
	return out
}

func listItems(lines []string) []string {
	var out []string
	for _, l := range lines {
		if listItem.MatchString(l) || len(out) == 0 {
			out = append(out, l)
		} else {
			out[len(out)-1] += "\n" + l
		}
	}
	return out
}

func sentences(text string, marked bool) []spot {
	var out []spot
	// A link's text and target are one word.
	kept := []string{}
	text = anyLink.ReplaceAllStringFunc(text, func(l string) string {
		kept = append(kept, l)
		return fmt.Sprintf("\x00%d\x01", len(kept)-1)
	})
	for _, s := range sentence.Split(text, -1) {
		for i, l := range kept {
			s = strings.Replace(s, fmt.Sprintf("\x00%d\x01", i), l, 1)
		}
		out = append(out, spot{text: s, marked: marked})
	}
	return out
}

// isRecord tells a record of docs/evidence, of which a fragment names a figure.
func isRecord(file string) bool {
	return path.Dir(file) == "docs/evidence" && slices.Contains([]string{".json", ".txt"}, path.Ext(file))
}

// sources are read once: a record has hundreds of kilobytes.
var sources = map[string]*evidence.Source{}

func source(file string) (*evidence.Source, error) {
	if s := sources[file]; s != nil {
		return s, nil
	}
	s, err := evidence.ReadSource(filepath.FromSlash(file))
	if err == nil {
		sources[file] = s
	}
	return s, err
}

// badFigures says what is wrong with the figures of a page: one that its record does not
// bear, one whose aim was missed and is not called so, and, where all must have a source,
// one that names no record and is not marked.
func badFigures(name, doc string, all bool) []string {
	var bad []string
	for _, s := range spots(doc) {
		fail := func(format string, args ...any) {
			bad = append(bad, fmt.Sprintf("%s: %s\n    in: %s", name, fmt.Sprintf(format, args...),
				strings.Join(strings.Fields(s.text), " ")))
		}
		rest := figureLink.ReplaceAllStringFunc(s.text, func(l string) string {
			m := figureLink.FindStringSubmatch(l)
			file := path.Join(path.Dir(name), m[2])
			if !isRecord(file) {
				return l
			}
			key, err := url.PathUnescape(m[3])
			if err != nil {
				fail("%s: %v", m[3], err)
				return ""
			}
			src, err := source(file)
			if err != nil {
				fail("%v", err)
				return ""
			}
			f, err := src.Figure(key)
			if err != nil {
				fail("%s: %v", path.Base(file), err)
				return ""
			}
			if err := f.Bears(plain(m[1])); err != nil {
				fail("%s#%s: %v", path.Base(file), m[3], err)
			}
			if state := worst(f.Aims); state != evidence.Passed && !strings.Contains(denied.ReplaceAllString(s.text, ""),
				string(state)) {
				fail("%s: it is not called %s", f, state)
			}
			return ""
		})
		if l := unreadLink.FindString(codeSpan.ReplaceAllString(rest, "")); l != "" {
			fail("%s is no link [TEXT](FILE#KEY) without blanks and brackets, so nothing reads it", l)
		}
		if !all || s.marked {
			continue
		}
		rest = noFigure.ReplaceAllString(plain(codeSpan.ReplaceAllString(anyLink.ReplaceAllString(rest, "$1"), "x")), "")
		if f := measured.FindString(rest); f != "" {
			fail("%q names no record and is not marked *No record: …*", strings.TrimSpace(f))
		} else if s.figure && regexp.MustCompile(`\d`).MatchString(rest) {
			fail("a figure below a unit names no record and is not marked *No record: …*")
		}
	}
	return bad
}

// plain is a text without emphasis, on one line.
func plain(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "**", "")), " ")
}

// Each figure of the pages that comes from a record is what the record gives, and every
// other measured figure is said to have none.
func TestFigures(t *testing.T) {
	docs := documents(t, os.DirFS("."))
	links := 0
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		all := slices.ContainsFunc(judgedPages, func(p string) bool { ok, _ := path.Match(p, name); return ok })
		for _, b := range badFigures(name, docs[name], all) {
			t.Error(b)
		}
		for _, m := range figureLink.FindAllStringSubmatch(docs[name], -1) {
			if isRecord(path.Join(path.Dir(name), m[2])) {
				links++
			}
		}
	}
	if links < 80 {
		t.Errorf("%d figures name a record: the test looks in the wrong place", links)
	}
}

// The checker must notice: a wrong figure, a wrong number of pairs, a wrong interval, a key
// that is none, an aim that was missed and is not called so, a figure without a source.
func TestFiguresNotice(t *testing.T) {
	const (
		ratio = "docs/evidence/2026-11-28-h200-b8833-speed.json#q8-64k/ours/pp-ratio"
		peak  = "docs/evidence/2026-11-28-h200-b8833-speed.json#q8-64k/ours/vram"
		right = "docs/evidence/2026-11-28-h200-b8833-right.json#"
		trim  = "docs/evidence/2026-11-28-h100-pool-trim.json#"
		logit = "docs/evidence/2026-11-29-h200-b8833-win7-kernels-cpu.txt#==+clang/Maximum+KLD:"
	)
	for _, c := range []struct{ text, bad string }{
		{"[0.962 (0.893 to 1.013), 16 pairs](" + ratio + "): the aim of 0.98 is missed.", ""},
		{"[0.96 (0.9 to 1.0), 16 pairs, missed](" + ratio + ").", ""},
		{"| a | ratio |\n|---|---|\n| b | [**0.962** (0.893 to 1.013), 16 pairs](" + ratio + "), missed |", ""},
		{"[3,487 MiB](" + peak + "), [3.4 GiB](" + peak + ") and [3487](" + peak + ").", ""},
		{"[from 208 to 252 MiB, settled after 302 of 308 requests](" + right + "cap8/ours/host).", ""},
		{"[unclear: it rises by 152 KiB a request](" + right + "cap64/ours/host).", ""},
		{"[58,953 evictions](" + right + "cap8/ours/line/evictions=), [equal](" + right + "cap8/ours/tokens), [aborted](" +
			right + "ub64/published/exit).", ""},
		{
			"[1.021 (0.863 to 1.067), 10 pairs](" + trim + "q8-65536-grow:q8-65536-0/pp_tps-ratio), [0.161](" + logit + ").",
			"",
		},
		{"*No record: by hand.* It takes 12.7 MiB and 3 s.", ""},
		{"*No record: by hand.*\n\n| a |\n|---|\n| 12.7 MiB |", ""},
		{"## A\n\n*No record: by hand.*\n\n12.7 MiB\n\n### B\n\n- 3 s\n- 0.85", ""},
		{"| a | b |\n|---|---|\n| 12.7 MiB | *No record: by hand.* |", ""},
		{"With CUDA 11.8, CMake 3.25, `3 MiB` and an aim of 0.98, b8833, 65,536 tokens.", ""},

		{"[0.963 (0.893 to 1.013), 16 pairs](" + ratio + ") missed.", "0.963 is wrong"},
		{"[0.962 (0.893 to 1.014), 16 pairs](" + ratio + ") missed.", "1.014 is wrong"},
		{"[0.962, 16 pairs](" + ratio + ") missed.", "16 is wrong"},
		{"[0.962 (0.893 to 1.013), 17 pairs](" + ratio + ") missed.", "17 is wrong"},
		{"[0.962 (0.893 to 1.013)](" + ratio + ") missed.", "16 pairs is missing"},
		{"[0.962 (0.893 to 1.013), 16 runs](" + ratio + ") missed.", "16 is wrong"},
		{"[0.962 (0.893 to 1.013), 16 pairs of 20](" + ratio + ") missed.", "20 is wrong"},
		{"[0.962 (0.893 to 1.013), 16 pairs](" + ratio + "). Another missed.", "it is not called missed"},
		{"[0.962 (0.893 to 1.013), 16 pairs](" + ratio + "): the aim is not missed.", "it is not called missed"},
		{"| a | b |\n|---|---|\n| [0.962 (0.893 to 1.013), 16 pairs](" + ratio + ") | missed |", "it is not called missed"},
		{
			"[1.018 (0.908 to 1.124), 15 pairs](docs/evidence/2026-11-28-h200-b8833-f16-64k.json#f16-64k/ours-off/pp-ratio).",
			"it is not called unclear",
		},
		{"[3,488 MiB](" + peak + ").", "3,488 is wrong"},
		{"[3.5 GiB](" + peak + ").", "3.5 is wrong"},
		{"[3,487 s](" + peak + ").", "3,487 is wrong"},
		{"[small](" + peak + ").", "is missing"},
		{"[flat at 252 MiB](" + right + "cap8/ours/host).", "252 is wrong"},
		{"[from 208 to 252 MiB, after 302](" + right + "cap8/ours/host).", "does not say settled"},
		{"[settled, 152 KiB a request, unclear](" + right + "cap64/ours/host).", "does not say unclear"},
		{"[differ](" + right + "cap8/ours/tokens).", "does not say equal"},
		{"[ended](" + right + "ub64/published/exit).", "does not say aborted"},
		{"[0.15](" + logit + ").", "0.15 is wrong"},
		{"[1.03 (0.863 to 1.067), 10 pairs](" + trim + "q8-65536-grow:q8-65536-0/pp_tps-ratio).", "1.03 is wrong"},
		{"[1](" + right + "cap8/ours/none).", `"none" is no measure`},
		{"[1](" + right + "cap9/ours/pp).", `"cap9/ours": the record has ub64/stock`},
		{"[1](" + right + "cap8/pp).", "is no RUN/BUILD/MEASURE"},
		{"[1](" + right + "cap8/ours/line/nonsense=).", "no line with"},
		{"[1](" + right + "ub64/published/pp).", "the record does not know it"},
		{"[1](" + trim + "q8-65536-grow/none).", "no run of that name has such a field"},
		{"[1](" + trim + "none:q8-65536-0/pp_tps-ratio).", "0 and 10 runs have pp_tps"},
		{"[1](docs/evidence/2026-11-29-h200-b8833-win7-kernels-cpu.txt#none).", "no line with"},
		{"[1](docs/evidence/none.json#a/b/pp).", "no such file"},

		{"[9](" + peak + " \"the peak\").", "so nothing reads it"},
		{"[9](" + peak + "(1)).", "so nothing reads it"},
		{"[9][peak]\n\n[peak]: " + peak, "so nothing reads it"},
		{"It takes 12.7 MiB.", "names no record"},
		{"It takes 3 s, at a median.", "names no record"},
		{"It is 0.85 of stock.", "names no record"},
		{"44 of 45 passed.", "names no record"},
		{"From 2.31 to 4.12 here.", "names no record"},
		{"| a | MiB |\n|---|---|\n| b | 12 |", "a figure below a unit"},
		{"It takes 12.7 MiB (no record).", "names no record"},
		{"## A\n\n*No record: by hand.*\n\n## B\n\n12.7 MiB", "names no record"},
		{"*No record: by hand.* It is so.\n\nIt takes 12.7 MiB.", "names no record"},
	} {
		bad := badFigures("README.md", c.text, true)
		if c.bad == "" && len(bad) > 0 || c.bad != "" && (len(bad) != 1 || !strings.Contains(bad[0], c.bad)) {
			t.Errorf("%s: %q, want %q", c.text, bad, c.bad)
		}
	}
}

// overlaps are the trials that ran at the same time on one machine, as two names.
func overlaps(trials map[string]*evidence.Result) [][2]string {
	var out [][2]string
	names := slices.Sorted(maps.Keys(trials))
	for i, a := range names {
		for _, b := range names[i+1:] {
			x, y := trials[a], trials[b]
			if sameMachine(x.Machine, y.Machine) && x.Began.Before(over(y)) && y.Began.Before(over(x)) {
				out = append(out, [2]string{a, b})
			}
		}
	}
	return out
}

// Trials that may have been in each other's way are listed as such.
func TestTrialsAlone(t *testing.T) {
	files, err := filepath.Glob("docs/evidence/*.json")
	if err != nil {
		t.Fatal(err)
	}
	trials := map[string]*evidence.Result{}
	for _, f := range files {
		if res, err := evidence.ReadRecord(f); err == nil {
			trials[filepath.Base(f)] = res
		} else if !strings.Contains(err.Error(), "older form") {
			t.Error(err)
		}
	}
	if len(trials) < 30 {
		t.Fatalf("%d records", len(trials))
	}
	page, err := os.ReadFile("docs/evidence/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Trials at the same time\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed [][2]string
	for line := range strings.Lines(section) {
		if m := link.FindAllStringSubmatch(line, -1); strings.HasPrefix(line, "|") && len(m) == 2 {
			pair := []string{m[0][1], m[1][1]}
			slices.Sort(pair)
			listed = append(listed, [2]string{pair[0], pair[1]})
		}
	}
	found := overlaps(trials)
	for _, p := range found {
		if !slices.Contains(listed, p) {
			t.Errorf("%s and %s ran at the same time on one machine, and docs/evidence/README.md does not list them", p[0], p[1])
		}
	}
	for _, p := range listed {
		if !slices.Contains(found, p) {
			t.Errorf("docs/evidence/README.md lists %s and %s, which did not run at the same time on one machine", p[0], p[1])
		}
	}
}

// The test above must notice an overlap, and no other.
func TestTrialsAloneNotice(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.TimeOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	trial := func(from, to, cpu, boot string, cores int) *evidence.Result {
		end := at(to)
		return &evidence.Result{Began: at(from), Ended: &end, Machine: evidence.Machine{
			CPU: cpu, Kernel: "6", Memory: 1,
			Cores: cores, Boot: boot,
		}}
	}
	first := trial("10:00:00", "10:10:00", "x", "", 32)
	cut := &evidence.Result{
		Began: at("10:05:00"), Machine: first.Machine,
		Runs: []evidence.Run{{Began: at("10:09:00"), Seconds: 30}},
	}
	for name, c := range map[string]struct {
		a, b *evidence.Result
		want bool
	}{
		"inside":                 {first, trial("10:03:00", "10:04:00", "x", "", 32), true},
		"the end":                {first, trial("10:09:59", "10:20:00", "x", "", 32), true},
		"on half of its cores":   {first, trial("10:03:00", "10:04:00", "x", "", 16), true},
		"after it":               {first, trial("10:10:00", "10:20:00", "x", "", 32), false},
		"another processor":      {first, trial("10:03:00", "10:04:00", "y", "", 32), false},
		"one was cut":            {cut, trial("10:09:20", "10:20:00", "x", "", 32), true},
		"after one that was cut": {cut, trial("10:09:30", "10:20:00", "x", "", 32), false},
		"another machine's start": {
			trial("10:00:00", "10:10:00", "x", "1", 32),
			trial("10:03:00", "10:04:00", "x", "2", 32), false,
		},
		"the same machine's start": {
			trial("10:00:00", "10:10:00", "x", "1", 32),
			trial("10:03:00", "10:04:00", "x", "1", 32), true,
		},
	} {
		if got := len(overlaps(map[string]*evidence.Result{"a": c.a, "b": c.b})) == 1; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The picture is drawn from its record.
func TestPicture(t *testing.T) {
	res, err := evidence.ReadRecord("docs/evidence/2026-11-28-h200-b8833-speed.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := res.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("docs/pictures/q8-64k.svg"); err != nil || string(got) != want {
		t.Errorf("docs/pictures/q8-64k.svg is not what `llpatch evidence show --chart` draws: %v", err)
	}
}

// sameMachine says whether two records may be of one machine: of one start of it where both know
// theirs, else where processor, kernel and memory are the same. The cores that a program may
// use tell nothing: a trial can be kept on some of them.
func sameMachine(a, b evidence.Machine) bool {
	if a.Boot != "" && b.Boot != "" {
		return a.Boot == b.Boot
	}
	return a.CPU == b.CPU && a.Kernel == b.Kernel && a.Memory == b.Memory
}

// over is when the record ended, or the last run of one that was cut short.
func over(r *evidence.Result) time.Time {
	if r.Ended != nil {
		return *r.Ended
	}
	over := r.Began
	for i := range r.Runs {
		if end := r.Runs[i].Began.Add(time.Duration(r.Runs[i].Seconds * float64(time.Second))); end.After(over) {
			over = end
		}
	}
	return over
}

// worst is what a record says of the aims on a figure: Passed where there is none.
func worst(aims []evidence.Check) evidence.State {
	s := evidence.Passed
	for _, c := range aims {
		if c.State == evidence.Missed || s == evidence.Passed {
			s = c.State
		}
	}
	return s
}
