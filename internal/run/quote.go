package run

import "strings"

// Quote returns s as one word of a POSIX shell. It must not hold a NUL byte,
// which no argument can.
func Quote(s string) string {
	plain := s
	if strings.HasPrefix(s, "-") {
		plain = strings.ReplaceAll(s, "=", "") // no assignment: names hold no hyphen
	}
	if s != "" && strings.Trim(plain, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// safe are the letters that mean nothing to a shell anywhere in a word. The
// equals sign is not among them: FOO=1 as a command's first word is an assignment.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%"

// QuoteArgv returns argv as a command line of a POSIX shell.
func QuoteArgv(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = Quote(a)
	}
	return strings.Join(words, " ")
}
