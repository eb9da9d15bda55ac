package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llpatch/llpatch/internal/binary"
)

// compare says how two builds differ; that they do is an error after the result.
func (a *app) compare(ctx context.Context, one, other string) error {
	c, err := binary.Compare(ctx, one, other)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, binary.ErrFolder):
		return usage("%w", err)
	case err != nil:
		return err
	}
	if err := a.print(c, func() string { return compareText(c) }); err != nil {
		return err
	}
	if len(c.Differ) > 0 {
		return &binary.NotSame{Comparison: *c}
	}
	return nil
}

func compareText(c *binary.Comparison) string {
	var b strings.Builder
	for _, d := range c.Differ {
		fmt.Fprintf(&b, "%s: ", shown(d.Path))
		if d.Why != "" {
			fmt.Fprintln(&b, shown(d.Why))
			continue
		}
		fmt.Fprintf(&b, "%d bytes differ\n", d.Bytes)
		for _, s := range d.Sections {
			fmt.Fprintf(&b, "  %s: %s\n", shown(s.Name), sectionText(s))
			for _, cause := range s.Causes {
				fmt.Fprintf(&b, "    %s\n", shown(cause))
			}
			switch {
			case s.Left > 0 && len(s.Causes) > 0 && min(s.Sizes[0], s.Sizes[1]) >= 0:
				fmt.Fprintf(&b, "    %d bytes differ beyond that\n", s.Left)
			case s.Left > 0 && len(s.Causes) == 0:
				fmt.Fprintf(&b, "    no known cause\n")
			}
			if len(s.Text) == 2 {
				fmt.Fprintf(&b, "    A has %q, B has %q\n", s.Text[0], s.Text[1])
			}
		}
	}
	fmt.Fprintf(&b, "%d the same, %d not\n", c.Same, len(c.Differ))
	return b.String()
}

// shown is a name as a terminal may get it: quoted where it has what is not printed.
func shown(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

func sectionText(s binary.SectionDiffers) string {
	switch {
	case s.Sizes[0] < 0 || s.Sizes[1] < 0:
		return fmt.Sprintf("%d bytes", s.Bytes)
	case s.Sizes[0] != s.Sizes[1]:
		return fmt.Sprintf("%d of %d and %d bytes, from 0x%x on", s.Bytes, s.Sizes[0], s.Sizes[1], s.First)
	}
	return fmt.Sprintf("%d of %d bytes, from 0x%x on", s.Bytes, s.Sizes[0], s.First)
}
