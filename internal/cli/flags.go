package cli

import (
	"errors"
	"fmt"
	"regexp"
)

// unparsed is how the flags' library tells that a value is no number: in Go's words.
var unparsed = regexp.MustCompile(`(?s)^(.*)strconv\.Parse(\w+): parsing ".*": (invalid syntax|value out of range)$`)

// plainFlag says in plain words what value a flag takes.
func plainFlag(err error) error {
	m := unparsed.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	what := map[string]string{"Bool": "true or false", "Float": "a number"}[m[2]]
	if what == "" {
		what = "a whole number"
	}
	if m[3] != "invalid syntax" {
		return errors.New(m[1] + "it is too large")
	}
	return fmt.Errorf("%sit must be %s", m[1], what)
}
