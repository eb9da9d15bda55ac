package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/spec"
)

// NotFeed is a file that is no record of a defect, or one that contradicts itself.
type NotFeed struct{ File, Why string }

// Error names the file and the cause.
func (e *NotFeed) Error() string { return e.File + ": " + e.Why }

// ExitCode is exit.Declaration.
func (e *NotFeed) ExitCode() int { return exit.Declaration }

// Hint says what is taken.
func (e *NotFeed) Hint() string {
	return "--draft takes one record in OSV's format, or a CVE record of version 5, as JSON"
}

// record is what is read of either format.
type record struct {
	// OSV
	ID      string
	Aliases []string
	// CVE
	CveMetadata struct{ CveID string }
	Containers  struct{ CNA cna }
	// both, in another place
	Affected []struct {
		Ranges []struct{ Events []map[string]string }
	}
	References []struct{ URL string }
}

// cna is what who gave the number says.
type cna struct {
	ProviderMetadata struct{ ShortName string }
	Affected         []struct{ Versions []versions }
	Metrics          []map[string]json.RawMessage
	References       []struct{ URL string }
}

type versions struct{ Version, LessThan, LessThanOrEqual, Status string }

var (
	buildRE  = regexp.MustCompile(`^[<>= ]*b?([0-9]{3,6})$`)
	fixRE    = regexp.MustCompile(`/commit/([0-9a-f]{40})\b`)
	commitRE = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Draft makes of a public record, in OSV's format or a CVE record of version 5, the beginning of
// an entry of recipes/advisories.toml. Nothing of it is believed: ranges in such records were
// wrong before. What they do not say is left empty, so that lint refuses the entry until somebody
// has written it. The error is a *NotFeed.
func Draft(name string, data []byte, known spec.Advisories) ([]byte, error) {
	var r record
	bad := func(format string, args ...any) error { return &NotFeed{name, fmt.Sprintf(format, args...)} }
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, bad("is no JSON record: %v", err)
	}
	by := r.Containers.CNA
	ids := append([]string{cmp.Or(r.ID, r.CveMetadata.CveID)}, r.Aliases...)
	if ids[0] == "" {
		return nil, bad("has neither id nor cveMetadata.cveId")
	}
	for _, a := range known.All {
		for _, id := range ids {
			if slices.Contains(a.Aliases, id) {
				return nil, bad("%s is the entry %q of %s already", id, a.ID, spec.AdvisoriesFile)
			}
		}
	}
	var since, fixed int
	var commits []string
	for _, p := range by.Affected {
		for _, v := range p.Versions {
			lo, hi := number(v.Version), max(number(v.LessThan), next(number(v.LessThanOrEqual)))
			if lo > 0 && hi > 0 && lo >= hi {
				return nil, bad("its range is upside down: from build %d to before %d", lo, hi)
			}
			since, fixed = cmp.Or(since, lo), max(fixed, hi)
		}
	}
	for _, p := range r.Affected {
		for _, g := range p.Ranges {
			for _, e := range g.Events {
				since, fixed = cmp.Or(since, number(e["introduced"])), max(fixed, number(e["fixed"]))
				if commitRE.MatchString(e["fixed"]) {
					commits = append(commits, e["fixed"])
				}
			}
		}
	}
	if since > 0 && fixed > 0 && since >= fixed {
		return nil, bad("its range is upside down: from build %d to before %d", since, fixed)
	}
	for _, ref := range append(r.References, by.References...) {
		if m := fixRE.FindStringSubmatch(ref.URL); m != nil {
			commits = append(commits, m[1])
		}
	}
	slices.Sort(commits)
	commits = slices.Compact(commits)
	var b strings.Builder
	fmt.Fprintf(&b, "[[advisory]]\nid        = \"\" # a name of ours\naliases   = [%s]\nneeds     = []\ncomponent = "+
		"\"\"\neffect    = \"\" # in our own words\nimpact    = \"\"\n", quoted(ids))
	fmt.Fprintf(&b, "since     = %d # as the record says: find the commit\nfixed-in  = %d # likewise\nfixed-by  = [%s]\n",
		since, fixed, quoted(commits))
	if score := by.score(); score > 0 {
		fmt.Fprintf(&b, "score     = %.1f\nscored-by = %q\n", score, cmp.Or(by.ProviderMetadata.ShortName, "the CNA"))
	}
	b.WriteString("state     = \"\"\n")
	return []byte(b.String()), nil
}

// score is the highest of the published ones, 0 where there is none.
func (c cna) score() (best float64) {
	for _, m := range c.Metrics {
		for _, raw := range m {
			var v struct{ BaseScore float64 }
			if json.Unmarshal(raw, &v) == nil {
				best = max(best, v.BaseScore)
			}
		}
	}
	return best
}

// number is the build that a version of a record means, 0 where it means none.
func number(version string) int {
	m := buildRE.FindStringSubmatch(version)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// next is the build after a last one, 0 where there is none.
func next(n int) int {
	if n == 0 {
		return 0
	}
	return n + 1
}

func quoted(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, strconv.Quote(s))
	}
	return strings.Join(out, ", ")
}
