package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/spec"
)

// print writes a result's text to standard output, or v as JSON with --json.
func (a *app) print(v any, text func() string) error {
	a.progress.close()
	if a.json {
		data, err := spec.JSON(v)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(data)
		return err
	}
	_, err := fmt.Fprint(a.stdout, text())
	return err
}

// table lays rows out in columns.
func table(rows ...[]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		r = slices.Clone(r)
		for i := range r { // names in it may be anybody's
			r[i] = patch.Printable(r[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
	return b.String()
}
