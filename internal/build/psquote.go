package build

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// psQuote returns s as an expression of PowerShell whose value is s, in ASCII alone:
// Windows PowerShell reads a script without a byte order mark in the code page of the
// machine. It must not hold a NUL byte.
func psQuote(s string) string {
	var parts []string
	var plain strings.Builder
	end := func() {
		if plain.Len() > 0 {
			parts = append(parts, "'"+plain.String()+"'")
			plain.Reset()
		}
	}
	for _, r := range s {
		switch {
		case r == '\'':
			plain.WriteString("''") // in single quotes it alone means something
		case r >= ' ' && r <= '~':
			plain.WriteRune(r)
		default:
			end()
			for _, u := range utf16.Encode([]rune{r}) {
				parts = append(parts, fmt.Sprintf("[char]0x%04X", u))
			}
		}
	}
	end()
	switch {
	case len(parts) == 0:
		return "''"
	case len(parts) == 1 && parts[0][0] == '\'':
		return parts[0]
	case parts[0][0] != '\'': // a sum of characters would be one of numbers
		parts = append([]string{"''"}, parts...)
	}
	return "(" + strings.Join(parts, " + ") + ")"
}

// psWords is psQuote with the PowerShell variable of each name in vars where its value
// stands as a whole path or as the beginning of one.
func psWords(s string, vars []variable) string {
	var parts []string
	for _, p := range split(s, vars) {
		if p.name != "" {
			parts = append(parts, "$"+p.name)
		} else {
			parts = append(parts, psQuote(p.value))
		}
	}
	switch {
	case len(parts) == 0:
		return "''"
	case len(parts) == 1:
		return parts[0]
	case parts[0][0] == '$':
		parts[0] = "[string]" + parts[0]
	}
	return "(" + strings.Join(parts, " + ") + ")"
}
