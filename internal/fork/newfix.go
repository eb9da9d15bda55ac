package fork

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// newFix is what is known of a fix that there was none of.
type newFix struct {
	id, subject, message, status string
	reports                      []string
	defect                       string // its table, "" where it is not known
}

var address = regexp.MustCompile(`https?://[^\s<>()\[\]"']+[^\s<>()\[\]"'.,;:!?]`)

// addresses are the reports, and what the message names besides.
func (n newFix) addresses() []string {
	all := slices.Clone(n.reports)
	for _, url := range address.FindAllString(n.message, -1) {
		if !slices.Contains(all, url) {
			all = append(all, url)
		}
	}
	return all
}

// fix declares a new fix; variant is its table, nil: the patch is for the tag alone.
func (d *declaring) fix(n newFix, data []byte, variant []byte) error {
	name := "b"
	if d.upstream == spec.IkLlamaCpp {
		name = "ik"
	}
	name = fmt.Sprintf("%s%d.patch", name, d.lo)
	var quoted []string
	for _, r := range n.addresses() {
		quoted = append(quoted, quote(r))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "summary = %s\nwhy     = %s\nreports = [%s]\nstatus  = %s\nproof   = \"build\"\nunproven = "+
		"\"Nobody has written a check for it.\"\n",
		quote(n.subject), quote(reason(n)), strings.Join(quoted, ", "), quote(n.status))
	if d.upstream != spec.LlamaCpp {
		fmt.Fprintf(&b, "upstream = %s\n", quote(d.upstream))
	}
	b.WriteString(n.defect)
	if variant == nil {
		variant = []byte(d.block(span(d.lo, d.hi, false), name))
	}
	b.Write(variant)
	d.files[path.Join("patches", n.id, "fix.toml")] = []byte(b.String())
	if data != nil {
		d.files[path.Join("patches", n.id, name)] = data
	}
	return nil
}

// reason is the first paragraph of a message, or its subject.
func reason(n newFix) string {
	_, body, _ := strings.Cut(n.message, "\n")
	body, _, _ = strings.Cut(strings.TrimSpace(body), "\n\n")
	if first, _, _ := strings.Cut(body, "\n"); body == "" || anyTrailer.MatchString(first) {
		body = n.subject
	}
	return strings.Join(strings.Fields(body), " ")
}
