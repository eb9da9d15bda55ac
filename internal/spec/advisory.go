package spec

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

// AdvisoriesFile holds the security defects that are known of upstreams.
const AdvisoriesFile = "recipes/advisories.toml"

// Security is the group of fixes that cure advisories. Every target takes it unless
// --without says otherwise.
const Security = "security"

// Advisories is recipes/advisories.toml.
type Advisories struct {
	Date string `toml:"date" json:"date"` // of the data, as 2026-11-29
	// upstream -> the last build whose history was searched for fixes
	Through map[string]int `toml:"through" json:"through"`
	Sources []string       `toml:"sources" json:"sources"` // what the facts were taken from, and under which terms
	All     []Advisory     `toml:"advisory" json:"-"`
}

// Advisory is one security defect of an upstream.
type Advisory struct {
	ID       string   `toml:"id" json:"id"`                     // our name of it
	Aliases  []string `toml:"aliases" json:"aliases,omitempty"` // what others call it: CVE, GHSA, pull request
	Upstream string   `toml:"upstream" json:"upstream"`         // empty in the file: llama.cpp
	// what an attacker must be able to give, one of AdvisoryNeeds each
	Needs []string `toml:"needs" json:"needs"`
	// what must be on besides, such as a flag; empty: nothing
	Only      string `toml:"only" json:"only,omitempty"`
	Component string `toml:"component" json:"component"` // the part of upstream's tree
	Effect    string `toml:"effect" json:"effect"`       // a sentence without an end
	Impact    string `toml:"impact" json:"impact"`       // the worst of AdvisoryImpacts
	// the first build that has it; 0: not known, so every build before FixedIn counts
	Since   int    `toml:"since" json:"since,omitempty"`
	SinceBy string `toml:"since-by" json:"since_by,omitempty"` // the commit of Since; empty: not known
	FixedIn int    `toml:"fixed-in" json:"fixed_in,omitempty"` // the first build without it; 0: no fix is known
	// upstream's commits, the last of which is build FixedIn
	FixedBy []string `toml:"fixed-by" json:"fixed_by,omitempty"`
	// what a public record says of the builds, where the history says otherwise
	Record   string  `toml:"record" json:"record,omitempty"`
	Score    float64 `toml:"score" json:"score,omitempty"`         // CVSS as published; 0: nobody published one
	ScoredBy string  `toml:"scored-by" json:"scored_by,omitempty"` // whose Score that is
	State    string  `toml:"state" json:"state"`                   // one of AdvisoryStates
	// what a user does without a cure: an imperative without an end
	Avoid string   `toml:"avoid" json:"avoid,omitempty"`
	fixes []string // of the group security that cure it
}

// What an advisory may say.
var (
	AdvisoryNeeds = []string{"model", "projector", "adapter", "imatrix", "request", "rpc", "slot-file", "page", "none"}
	// worst first: memory is written or used after it was freed
	AdvisoryImpacts = []string{"memory", "read", "crash", "other"}
	// by upstream's fix or a record; by reading the code; in dispute
	AdvisoryStates = []string{"sure", "reading", "disputed"}
)

var (
	dateRE  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
	aliasRE = regexp.MustCompile(`^(CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|[a-z0-9_./-]+#\d+|TALOS-\d{4}-\d+)$`)
)

// advisories reads the file; declarations need not have one.
func (l *loader) advisories() Advisories {
	var all Advisories
	if _, err := fs.Stat(l.fsys, AdvisoriesFile); err != nil {
		return all
	}
	f := l.decode(AdvisoriesFile, &all)
	if f == nil {
		return all
	}
	if _, err := time.Parse(time.DateOnly, all.Date); err != nil || !dateRE.MatchString(all.Date) {
		f.fail("date", "date %q is not a day such as 2026-11-29: the day on which the data was complete", all.Date)
	}
	for _, u := range sortedKeys(all.Through) {
		f.oneOf("through", u, LlamaCpp, IkLlamaCpp)
	}
	seen := map[string]bool{}
	for i := range all.All {
		a := &all.All[i]
		a.Upstream = upstreamOrDefault(a.Upstream)
		key := func(k string) string { return fmt.Sprintf("advisory[%d].%s", i, k) }
		if !idRE.MatchString(a.ID) || seen[a.ID] {
			f.fail(key("id"), "id %q is no name of its own: lower-case words joined by hyphens, each once", a.ID)
		}
		for _, alias := range a.Aliases {
			if !aliasRE.MatchString(alias) || seen[alias] {
				f.fail(key("aliases"), "alias %q is not of the form CVE-2026-1234, GHSA-xxxx-xxxx-xxxx or owner/name#1, or "+
					"stands in two entries", alias)
			}
			seen[alias] = true
		}
		seen[a.ID] = true
		for _, v := range [][2]string{{"component", a.Component}, {"effect", a.Effect}} {
			if strings.TrimSpace(v[1]) == "" || strings.HasSuffix(v[1], ".") {
				f.fail(key(v[0]), "%s is missing, or ends in a full stop", v[0])
			}
		}
		if len(a.Needs) == 0 {
			f.fail(key("needs"), "needs is missing: what an attacker must be able to give")
		}
		for _, n := range a.Needs {
			f.oneOf(key("needs"), n, AdvisoryNeeds...)
		}
		f.oneOf(key("upstream"), a.Upstream, LlamaCpp, IkLlamaCpp)
		f.oneOf(key("impact"), a.Impact, AdvisoryImpacts...)
		f.oneOf(key("state"), a.State, AdvisoryStates...)
		if a.Score < 0 || a.Score > 10 || (a.Score > 0) != (a.ScoredBy != "") {
			f.fail(key("score"), "score and scored-by go together: a CVSS score up to 10, and who published it")
		}
		switch {
		case a.Since < 0 || a.FixedIn < 0:
			f.fail(key("since"), "since = %d and fixed-in = %d are build numbers", a.Since, a.FixedIn)
		case a.FixedIn > 0 && a.Since >= a.FixedIn:
			f.fail(key("fixed-in"), "fixed-in = %d does not come after since = %d", a.FixedIn, a.Since)
		case a.FixedIn == 0 && len(a.FixedBy) > 0:
			f.fail(key("fixed-by"), "fixed-by needs fixed-in: the build of the last commit")
		}
		if a.SinceBy != "" {
			f.commit(key("since-by"), a.SinceBy)
		}
		for _, id := range a.FixedBy {
			f.commit(key("fixed-by"), id)
		}
	}
	return all
}

// cures checks what the fixes of the group security say they cure, and fills them in from the
// advisories: what is said of a defect stands once.
func (l *loader) cures(fixes []Fix, all *Advisories) {
	for i := range fixes {
		fix := &fixes[i]
		name := "patches/" + fix.ID + "/fix.toml"
		for _, id := range fix.Cures {
			at := slices.IndexFunc(all.All, func(a Advisory) bool { return a.ID == id })
			if at < 0 {
				l.fail(ErrorAt(l.fsys, name, "cures", "cures %q, which is not in %s", id, AdvisoriesFile))
				continue
			}
			a := &all.All[at]
			a.fixes = append(a.fixes, fix.ID)
			fix.components = append(fix.components, a.Component)
			fix.Summary = cmp.Or(fix.Summary, a.Effect)
			fix.Why = cmp.Or(fix.Why, strings.ToUpper(a.Effect[:1])+a.Effect[1:]+". An attacker needs: "+a.needs()+".")
			if len(fix.Reports) == 0 {
				fix.Reports = a.Pages()
			}
			if fix.Defect(a.Upstream).Upstream == "" {
				d := Defect{Upstream: a.Upstream, Since: a.Since, Commit: a.SinceBy, FixedIn: a.FixedIn}
				if n := len(a.FixedBy); n > 0 {
					d.FixedBy = a.FixedBy[n-1]
				}
				fix.Defects = append(fix.Defects, d)
			}
		}
		for k, v := range fix.Variants {
			if d := fix.Defect(v.Upstream); d.FixedIn > 0 && !v.Range.IsZero() {
				if _, hi := v.Range.Bounds(); hi >= d.FixedIn {
					l.fail(ErrorAt(l.fsys, name, fmt.Sprintf("variant[%d].range", k), "range %q reaches past build %d, where "+
						"upstream has cured the defect; end it with < %d", v.Range, d.FixedIn, d.FixedIn))
				}
			}
		}
	}
}

// needs is what an attacker must give, in words.
func (a Advisory) needs() string {
	words := map[string]string{
		"model": "a crafted model", "projector": "a crafted projector, or its input", "adapter": "a crafted adapter",
		"imatrix": "a crafted imatrix",
		"request": "a request to llama-server", "rpc": "access to rpc-server", "slot-file": "a crafted slot file",
		"page": "a page that the user's browser opens", "none": "nothing shown",
	}
	var all []string
	for _, n := range a.Needs {
		all = append(all, words[n])
	}
	s := strings.Join(all, ", or ")
	if a.Only != "" {
		s += " (" + a.Only + ")"
	}
	return s
}

// Pages are the addresses where the defect is described: of its aliases and its fix.
func (a Advisory) Pages() []string {
	var pages []string
	for _, alias := range a.Aliases {
		repo, number, ok := strings.Cut(alias, "#")
		switch {
		case ok:
			pages = append(pages, "https://github.com/"+repo+"/issues/"+number)
		case strings.HasPrefix(alias, "CVE-"):
			pages = append(pages, "https://www.cve.org/CVERecord?id="+alias)
		case strings.HasPrefix(alias, "GHSA-"):
			pages = append(pages, "https://github.com/advisories/"+alias)
		}
	}
	for _, id := range a.FixedBy {
		pages = append(pages, upstreamPages[a.Upstream]+"/commit/"+id)
	}
	return pages
}

// UpstreamPage is where an upstream's repository is shown; empty for a name that is none.
func UpstreamPage(upstream string) string { return upstreamPages[upstream] }

var upstreamPages = map[string]string{
	LlamaCpp:   "https://github.com/ggml-org/llama.cpp",
	IkLlamaCpp: "https://github.com/ikawrakow/ik_llama.cpp",
}

// Known is what the data says of one build, and of what a series cures of it.
type Known struct {
	Date string `json:"date,omitempty"` // of the data; empty: there is none
	// the last build of the upstream whose history was searched for fixes; 0: none was, so nothing
	// is known
	Through int `json:"through,omitempty"`
	Build   int `json:"build"`
	// Beyond says of a build after Through that fixes and defects later than that are known
	// from public records alone.
	Beyond bool      `json:"beyond,omitempty"`
	Open   []Judged  `json:"open"`            // worst first
	Cured  []Judged  `json:"cured"`           // by the series, likewise
	Absent []Judged  `json:"absent"`          // likewise: whose code is not in what was built
	Lacks  []Lacking `json:"lacks,omitempty"` // cures that exist and could not be had
}

// Judged is an advisory that a build has, and what stands against it.
type Judged struct {
	Advisory
	By  string `json:"by,omitempty"`  // the fix of the series that cures it
	Why string `json:"why,omitempty"` // the reason why its code is not in what was built
}

// Lacking is a cure that the series could not be given, and why.
type Lacking struct {
	Fix string `json:"fix"`
	Why string `json:"why"`
}

// Of judges a build of an upstream. s, which may be nil, is the series that it was given, c what
// was made of it: a defect in code that is not there is neither open nor cured.
func (all Advisories) Of(upstream string, build int, s *Series, c Contents) Known {
	k := Known{
		Date: all.Date, Through: all.Through[upstream], Build: build, Open: []Judged{}, Cured: []Judged{},
		Absent: []Judged{},
	}
	k.Beyond = build > k.Through
	var in []string
	if s != nil {
		for _, c := range s.In {
			in = append(in, c.Fix)
		}
		for _, c := range s.Landed {
			in = append(in, c.Fix)
		}
	}
	for _, a := range all.All {
		if a.Upstream != upstream || build < a.Since || a.FixedIn > 0 && build >= a.FixedIn {
			continue
		}
		if why := c.Without(a.Component); why != "" {
			k.Absent = append(k.Absent, Judged{Advisory: a, Why: why})
		} else if at := slices.IndexFunc(a.fixes, func(id string) bool { return slices.Contains(in, id) }); at >= 0 {
			k.Cured = append(k.Cured, Judged{Advisory: a, By: a.fixes[at]})
		} else {
			k.Open = append(k.Open, Judged{Advisory: a})
		}
	}
	if s != nil {
		for _, o := range s.Out {
			cures := func(a Judged) bool { return slices.Contains(a.fixes, o.Fix) }
			if o.Case == NotAtHand && (slices.ContainsFunc(k.Open, cures) || !slices.ContainsFunc(k.Absent, cures)) {
				k.Lacks = append(k.Lacks, Lacking{o.Fix, o.Reason})
			}
		}
	}
	for _, list := range [][]Judged{k.Open, k.Cured, k.Absent} {
		slices.SortStableFunc(list, func(a, b Judged) int {
			return cmp.Or(cmp.Compare(slices.Index(AdvisoryImpacts, a.Impact), slices.Index(AdvisoryImpacts, b.Impact)),
				cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
		})
	}
	return k
}

// Total is how many defects are known, wherever their code is.
func (k Known) Total() int { return len(k.Open) + len(k.Cured) + len(k.Absent) }

// Head is one sentence: how many defects are known, and how many of them are cured.
func (k Known) Head() string {
	switch {
	case k.Through == 0:
		return "Security: whether this build has known defects was not looked up."
	case k.Total() == 0:
		return fmt.Sprintf("Security: no defect of build %d is known (data of %s).", k.Build, k.Date) + k.beyond()
	}
	absent := ""
	if n := len(k.Absent); n > 0 {
		absent = fmt.Sprintf(", not in these programs: %d", n)
	}
	return fmt.Sprintf("Security: known defects of build %d: %d, cured here: %d%s, open: %d (data of %s).",
		k.Build, k.Total(), len(k.Cured), absent, len(k.Open), k.Date) + k.beyond()
}

func (k Known) beyond() string {
	if !k.Beyond {
		return ""
	}
	return fmt.Sprintf(" It is newer than build %d, to which upstream's history was searched: of later fixes only "+
		"public records are known.", k.Through)
}

// String is an advisory on one line: its effect, what it takes, how bad it was called.
func (a Advisory) String() string {
	s := a.ID
	if len(a.Aliases) > 0 {
		s += " (" + a.Aliases[0] + ")"
	}
	s += ": " + a.Effect + "; needs " + a.needs()
	if a.Score > 0 {
		s += fmt.Sprintf("; %.1f by %s", a.Score, a.ScoredBy)
	}
	switch a.State {
	case "reading":
		s += "; by reading the code"
	case "disputed":
		s += "; disputed"
	}
	return s
}

// Avoids lists what a user does while defects are open, worst first, each once.
func (k Known) Avoids() []string {
	var out []string
	for _, a := range k.Open {
		if a.Avoid != "" && !slices.Contains(out, a.Avoid) {
			out = append(out, a.Avoid)
		}
	}
	return out
}

// Lines is all of it as text: the head, what to avoid, the open defects worst first, no more
// than limit of them (0: all), those whose code is not there, and the cures that could not be had.
func (k Known) Lines(limit int) []string {
	lines := []string{k.Head()}
	for _, a := range k.Avoids() {
		lines = append(lines, "avoid: "+a)
	}
	for i, a := range k.Open {
		if limit > 0 && i == limit {
			lines = append(lines, fmt.Sprintf("open: %d more", len(k.Open)-limit))
			break
		}
		lines = append(lines, "open: "+a.String())
	}
	for i, a := range k.Absent { // those of one reason on one line
		same := func(b Judged) bool { return b.Why == a.Why }
		if slices.IndexFunc(k.Absent, same) < i {
			continue
		}
		var ids []string
		for _, b := range k.Absent[i:] {
			if same(b) {
				ids = append(ids, b.ID)
			}
		}
		lines = append(lines, fmt.Sprintf("not in these programs, %s: %s", a.Why, strings.Join(ids, ", ")))
	}
	for _, l := range k.Lacks {
		lines = append(lines, "lacks: "+l.Fix+": "+l.Why)
	}
	return lines
}
