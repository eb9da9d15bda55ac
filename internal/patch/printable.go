package patch

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable writes what a terminal would obey or hide, as names of others may hold, the
// way Go quotes it. A line feed is among it: a name must not write a line of a report.
func Printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			b.WriteString(strings.Trim(strconv.QuoteToASCII(s[:n]), `"`))
		}
		s = s[n:]
	}
	return b.String()
}
