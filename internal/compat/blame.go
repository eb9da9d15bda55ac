package compat

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/report"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Blame names the commits that broke a fix.
type Blame struct {
	Fix    string  `json:"fix"`
	Breaks []Break `json:"breaks"`
}

// Break is one place in the history before which a variant fits, and behind
// which it does not.
type Break struct {
	Patch    string    `json:"patch"`
	Declared string    `json:"declared,omitempty"`
	Good     Tag       `json:"good"` // the last tag that it fits
	Bad      Tag       `json:"bad"`  // the first that it does not
	Verdict  Verdict   `json:"verdict"`
	Commit   string    `json:"commit"` // the first that it does not fit
	Subject  string    `json:"subject"`
	Time     time.Time `json:"time"`
	Build    int       `json:"build"`                  // of the commit
	Pull     int       `json:"pull_request,omitempty"` // 0: the subject names none
	// Changes counts the patch's hunks and changes of whole files, Held those that
	// upstream has on the tree of the commit; Conflicts are about the others.
	Changes   int               `json:"changes"`
	Held      int               `json:"held,omitempty"`
	Conflicts []*patch.Conflict `json:"conflicts,omitempty"`
	// Landed says where the changes came from that upstream has at Bad.
	Landed []Landing `json:"landed,omitempty"`
	// Moved says where a file went that is missing.
	Moved string `json:"moved,omitempty"`
	// Diff is what the commit did to the lines that the first conflict is about.
	Diff []string `json:"diff,omitempty"`
}

// Blame finds every break of a fix: of each of its variants from the beginning
// of its range on, or, given a tag, the first behind it.
func (h *History) Blame(ctx context.Context, o Options, s Stack, fix, from string) (*Blame, error) {
	at := slices.IndexFunc(s.Fixes, func(f Fix) bool { return f.ID == fix })
	if at < 0 {
		e := &spec.Unknown{What: "fix", Name: fix}
		for _, f := range s.Fixes {
			e.Known = append(e.Known, f.ID)
		}
		return nil, e
	}
	first := 0
	if from != "" {
		tags, err := h.Range(from + "..")
		if err != nil {
			return nil, err
		}
		first = tags[0].Build
	}
	s, err := h.backports(ctx, o, s)
	if err != nil {
		return nil, err
	}
	s, at = related(s, at)
	j := newJudge(h, o, s)
	cells, err := j.run(ctx, h.Tags)
	if err != nil {
		return nil, err
	}
	b := &Blame{Fix: fix, Breaks: []Break{}}
	objects, err := h.repo.Objects()
	if err != nil {
		return nil, err
	}
	defer func() { _ = objects.Release() }() // it was only read from
	landings := j.newLandings(cells)
	defer landings.close()
	search := &search{judge: j, objects: objects, reader: newRowReader(objects, j.asked, len(j.paths)), fix: at}
	for k := range s.Fixes[at].Variants {
		lo, _ := s.Fixes[at].Variants[k].Range.Bounds()
		for i := 1; i < len(h.Tags); i++ {
			good, bad := cells[at][i-1].each[k].Verdict, cells[at][i].each[k].Verdict
			if h.Tags[i-1].Build < max(lo, first) || !good.Fits() || bad.Fits() || bad == Unknown {
				continue
			}
			found, err := search.find(ctx, k, h.Tags[i-1], h.Tags[i])
			if err != nil {
				return nil, fmt.Errorf("break of %s between %s and %s: %w", fix, h.Tags[i-1].Name, h.Tags[i].Name, err)
			}
			if found.Landed, err = landings.of(ctx, at, k, i); err != nil {
				return nil, err
			}
			b.Breaks = append(b.Breaks, *found)
			if from != "" {
				break
			}
		}
	}
	return b, nil
}

// related leaves of a stack the fixes that can have to do with one of them, and
// returns where that is now. Those behind it do, too: it may have landed below them.
func related(s Stack, at int) (Stack, int) {
	for _, part := range newJudge(nil, Options{}, s).parts {
		if n := slices.Index(part, at); n >= 0 {
			var fixes []Fix
			for _, i := range part {
				fixes = append(fixes, s.Fixes[i])
			}
			s.Fixes = fixes
			return s, n
		}
	}
	return s, at
}

// search looks for the commit of a break.
type search struct {
	*judge
	objects *source.Objects
	reader  *rowReader
	fix     int
}

// verdict judges the variant on a commit.
func (s *search) verdict(ctx context.Context, id plumbing.Hash, variant, build int) (*outcome, row, error) {
	r, err := s.reader.row(id)
	if err != nil {
		return nil, nil, err
	}
	cells, err := s.cells(ctx, []row{r}, []int{build})
	if err != nil {
		return nil, nil, err
	}
	return cells[s.fix][0].each[variant], r, nil
}

// find halves the way between two tags until one commit is left.
func (s *search) find(ctx context.Context, variant int, good, bad Tag) (*Break, error) {
	goodID, _, err := readCommit(s.objects, good.object)
	if err != nil {
		return nil, err
	}
	badID, _, err := readCommit(s.objects, bad.object)
	if err != nil {
		return nil, err
	}
	way, err := s.h.firstParents(ctx, s.objects, goodID, badID)
	if err != nil {
		return nil, err
	}
	slices.Reverse(way) // way[0] comes right after the good tag
	lo, hi := -1, len(way)-1
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		out, _, err := s.verdict(ctx, way[mid], variant, good.Build+mid+1)
		if err != nil {
			return nil, err
		}
		if out.Verdict.Fits() {
			lo = mid
		} else {
			hi = mid
		}
	}
	v := &s.stack.Fixes[s.fix].Variants[variant]
	b := &Break{
		Patch: v.File, Declared: v.Range.String(), Good: good, Bad: bad, Commit: way[hi].String(),
		Build: good.Build + hi + 1,
	}
	before := goodID
	if hi > 0 {
		before = way[hi-1]
	}
	return b, s.describe(ctx, b, variant, before, way[hi])
}

// describe fills in what the commit did.
func (s *search) describe(ctx context.Context, b *Break, variant int, before, id plumbing.Hash) error {
	_, c, err := readCommit(s.objects, id)
	if err != nil {
		return err
	}
	b.Subject, b.Time, b.Pull = c.subject, c.when, pull(c.subject)
	_, old, err := s.verdict(ctx, before, variant, b.Build-1)
	if err != nil {
		return err
	}
	out, now, err := s.verdict(ctx, id, variant, b.Build)
	if err != nil {
		return err
	}
	f := &s.stack.Fixes[s.fix]
	b.Verdict, b.Changes, b.Held = out.Verdict, out.Changes, out.Held
	for _, finding := range out.Findings {
		if finding.Held {
			continue
		}
		b.Conflicts = append(b.Conflicts, finding.conflict(f.ID, &f.Variants[variant], ""))
	}
	if len(out.Findings) == 0 {
		return nil
	}
	finding := out.Findings[0]
	at, ok := slices.BinarySearch(s.paths, finding.File)
	if !ok {
		return nil
	}
	if !now[at].there() && old[at].there() {
		c := &contents{sharedContents: s.files, objects: s.objects}
		m, err := c.moved(before, id, finding.File, old[at].ID)
		b.Moved = finding.File + " " + m.what()
		return err
	}
	if !old[at].there() || !now[at].there() {
		return nil
	}
	_, x, err := s.objects.Read(old[at].ID.String())
	if err != nil {
		return err
	}
	_, y, err := s.objects.Read(now[at].ID.String())
	if err != nil {
		return err
	}
	want, _ := patch.Preimage(f.Variants[variant].Patches, finding.PatchLine)
	b.Diff = nearby(diff.Diff(finding.File, x, finding.File, y), stood(finding, x, want), len(want))
	return nil
}

// stood returns the 1-based line of the file at which the finding's hunk stood
// while it fitted.
func stood(f Finding, data []byte, want []string) int {
	text := strings.Join(want, "")
	if text == "" {
		return f.Line
	}
	best, all := 0, string(data)
	for from := 0; ; {
		i := strings.Index(all[from:], text)
		if i < 0 {
			break
		}
		line := 1 + strings.Count(all[:from+i], "\n")
		if best == 0 || abs(line-f.Line) < abs(best-f.Line) {
			best = line
		}
		from += i + 1
	}
	if best == 0 {
		return f.Line
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// maxDiff bounds what is shown of a commit, in lines.
const maxDiff = 60

var hunkHead = regexp.MustCompile(`^@@ -([0-9]+)(?:,([0-9]+))? \+[0-9]+(?:,[0-9]+)? @@`)

// nearby returns the hunks of a unified diff that touch the n lines at a line
// of its old side; where none does, the one closest to it.
func nearby(unified []byte, line, n int) []string {
	type hunk struct {
		from, to int
		lines    []string
	}
	var hunks []hunk
	for l := range strings.Lines(string(unified)) {
		l = strings.TrimSuffix(l, "\n")
		if m := hunkHead.FindStringSubmatch(l); m != nil {
			var from, count int
			_, _ = fmt.Sscan(m[1], &from) // digits, as the expression says
			if count = 1; m[2] != "" {
				_, _ = fmt.Sscan(m[2], &count)
			}
			hunks = append(hunks, hunk{from: from, to: from + count, lines: []string{l}})
			continue
		}
		if k := len(hunks) - 1; k >= 0 {
			hunks[k].lines = append(hunks[k].lines, l)
		}
	}
	distance := func(h hunk) int { return max(0, h.from-(line+n), line-h.to) }
	best := -1
	for _, h := range hunks {
		if d := distance(h); best < 0 || d < best {
			best = d
		}
	}
	var out []string
	for _, h := range hunks {
		if distance(h) == best {
			out = append(out, h.lines...)
		}
	}
	if len(out) > maxDiff {
		out = append(out[:maxDiff:maxDiff], fmt.Sprintf("… %d more lines", len(out)-maxDiff))
	}
	return out
}

// pullRE is how a squashed commit's subject names its pull request.
var pullRE = regexp.MustCompile(`\(#([0-9]{1,9})\)\s*$`)

func pull(subject string) int {
	m := pullRE.FindStringSubmatch(subject)
	if m == nil {
		return 0
	}
	var n int
	_, _ = fmt.Sscan(m[1], &n) // digits, as the expression says
	return n
}

// Text is the breaks for a terminal.
func (b *Blame) Text() string {
	if len(b.Breaks) == 0 {
		return patch.Printable(b.Fix) + ": no tag breaks it\n"
	}
	var d report.Doc
	for _, k := range b.Breaks {
		p := report.Part{Heading: fmt.Sprintf("%s (%s) fits %s, and not %s: %s", patch.Printable(b.Fix),
			patch.Printable(k.Patch), k.Good.Name, k.Bad.Name, k.Verdict)}
		add := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
		add("commit  %s (build %d, %s)\nsubject %s", k.Commit, k.Build, k.Time.Format(time.DateOnly),
			patch.Printable(k.Subject))
		if k.Pull > 0 {
			add("pull    #%d", k.Pull)
		}
		if k.Declared != "" {
			add("declared for %s", k.Declared)
		}
		if k.Held > 0 {
			add("upstream has %d of its %d changes from there on", k.Held, k.Changes)
			for _, l := range Landings(k.Landed, k.Verdict == Landed) {
				add("  %s", l)
			}
		}
		for _, c := range k.Conflicts {
			add("%s", c)
		}
		if k.Moved != "" {
			add("%s", patch.Printable(k.Moved))
		}
		if len(k.Diff) > 0 {
			add("what the commit did there:\n  %s", strings.Join(k.Diff, "\n  "))
		}
		d.Parts = append(d.Parts, p)
	}
	return d.Text()
}
