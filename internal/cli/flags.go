package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llpatch/llpatch/internal/exit"
)

// unparsed is how the flags' library tells that a value is no number: in Go's words.
var unparsed = regexp.MustCompile(`(?s)^(.*)strconv\.Parse(\w+): parsing ".*": (invalid syntax|value out of range)$`)

// flagError says what is wrong with a flag, and which is the nearest to one that there is none of.
func flagError(c *cobra.Command, err error) error {
	// The flag is that of a command that does not exist.
	if left := c.Flags().Args(); c.HasSubCommands() && len(left) > 0 {
		return noSubcommand(c, left)
	}
	hint := ""
	if none := new(pflag.NotExistError); errors.As(err, &none) && len(none.GetSpecifiedName()) > 2 {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = exit.DidYouMean("--"+none.GetSpecifiedName(), names)
	}
	return &usageError{plainFlag(err), hint}
}

// exclusive makes a command refuse each of the pairs of flags, such as "sh json".
func exclusive(c *cobra.Command, pairs ...string) {
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, pair := range pairs {
			one, other, _ := strings.Cut(pair, " ")
			if c.Flags().Changed(one) && c.Flags().Changed(other) {
				return usage("--%s and --%s are mutually exclusive", one, other)
			}
		}
		return nil
	}
}

// plainFlag says in plain words what value a flag takes.
func plainFlag(err error) error {
	m := unparsed.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	what := cmp.Or(map[string]string{"Bool": "true or false", "Float": "a number"}[m[2]], "a whole number")
	if m[3] != "invalid syntax" {
		return errors.New(m[1] + "it is too large")
	}
	return fmt.Errorf("%sit must be %s", m[1], what)
}
