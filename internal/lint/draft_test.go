package lint_test

import (
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/lint"
	"github.com/llpatch/llpatch/internal/spec"
)

// A public record is read into an entry that lint refuses until somebody has written it.
func TestDraft(t *testing.T) {
	known := spec.Advisories{All: []spec.Advisory{{ID: "old", Aliases: []string{"CVE-2026-1"}}}}
	const commit = "7b95ea5d110241cf8b0fb6936927387f63f18a32"
	cve := func(id, versions string) string {
		return `{"cveMetadata":{"cveId":"` + id +
			`"},"containers":{"cna":{"providerMetadata":{"shortName":"Some"},"affected":[{"versions":[` + versions +
			`]}],"metrics":[{"cvssV4_0":{"baseScore":9.2}},{"cvssV3_1":{"baseScore":8.1},"format":"CVSS"}],"references":[{"url":"https://github.com/o/r/commit/` + commit + `"}]}}}`
	}
	for name, c := range map[string]struct{ data, want, err string }{
		"cve": {
			cve("CVE-2026-2", `{"version":"b8227","lessThan":"b11393","status":"affected"}`),
			"aliases   = [\"CVE-2026-2\"]\n|since     = 8227 |fixed-in  = 11393 |fixed-by  = [\"" + commit +
				"\"]\nscore     = 9.2\nscored-by = \"Some\"\nstate     = \"\"\n", "",
		},
		"to the last": {
			cve("CVE-2026-2", `{"version":"0","lessThanOrEqual":"b9058"}`), "since     = 0 |fixed-in  = 9059 ",
			"",
		},
		"upside down": {
			cve("CVE-2026-2", `{"version":"b9000","lessThan":"b8000"}`), "",
			"x.json: its range is upside down: from build 9000 to before 8000",
		},
		"known": {cve("CVE-2026-1", ""), "", `x.json: CVE-2026-1 is the entry "old" of recipes/advisories.toml already`},
		"osv": {
			`{"id":"OSV-1","aliases":["CVE-2026-3"],"affected":[{"ranges":[{"type":"GIT","events":[{"introduced":"0"},{"fixed":"` + commit + `"}]}]}]}`,
			"aliases   = [\"OSV-1\", \"CVE-2026-3\"]\n|fixed-by  = [\"" + commit + "\"]\nstate ", "",
		},
		"osv upside down": {
			`{"id":"OSV-1","affected":[{"ranges":[{"events":[{"introduced":"b9000"},{"fixed":"b8999"}]}]}]}`,
			"", "x.json: its range is upside down: from build 9000 to before 8999",
		},
		"no record": {`{}`, "", "x.json: has neither id nor cveMetadata.cveId"},
		"no JSON":   {`[[`, "", "x.json: is no JSON record: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lint.Draft("x.json", []byte(c.data), known)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(string(got), part) {
					t.Errorf("%q is not in:\n%s", part, got)
				}
			}
		})
	}
}
