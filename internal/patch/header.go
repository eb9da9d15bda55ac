package patch

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// field is one header field with its continuation lines as they were.
type field struct {
	key   string
	value string
	more  []string
}

// fieldLine is the start of a header field. A value may be empty.
var fieldLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(?:[ \t](.*))?$`)

// isField reports whether line begins a header field.
func isField(line []byte) bool {
	return fieldLine.Match(bytes.TrimRight(line, "\r\n"))
}

// Fields of DEP-3 (https://dep-team.pages.debian.net/deps/dep3/) and of Yocto
// that mails do not have. Bug-<Vendor> is one of them too.
var dep3Only = map[string]bool{
	"description": true, "origin": true, "bug": true, "forwarded": true, "author": true,
	"reviewed-by": true, "acked-by": true, "last-update": true, "applied-upstream": true,
	"upstream-status": true,
}

func isDEP3(key string) bool {
	key = strings.ToLower(key)
	return dep3Only[key] || strings.HasPrefix(key, "bug-")
}

// Fields of a mail that say that it is one.
var mailOnly = map[string]bool{
	"message-id": true, "mime-version": true, "content-type": true, "date": true, "to": true,
	"content-transfer-encoding": true, "x-mailer": true, "received": true, "return-path": true,
}

// readHeader reads what stands before the diff. It returns the rest of the
// message, decoded, and how many lines stand before it.
func readHeader(m message) (h Header, rest []byte, skipped int, err error) {
	h.Commit = m.commit
	fields, n := readFields(m.data)
	mail, dep3 := m.commit != "", false
	for _, f := range fields {
		mail = mail || mailOnly[strings.ToLower(f.key)]
		dep3 = dep3 || isDEP3(f.key)
	}
	known := mail || dep3
	for _, f := range fields {
		known = known || strings.EqualFold(f.key, "from") || strings.EqualFold(f.key, "subject")
	}
	if !known {
		fields, n = nil, 0
	}
	rest = m.data[n:]
	skipped = bytes.Count(m.data[:n], []byte("\n"))
	if dep3 && !mail {
		h.fromDEP3(fields)
	} else if rest, err = h.fromMail(fields, rest); err != nil {
		return h, nil, 0, err
	}
	end := messageEnd(rest)
	body := rest[:end]
	skipped += bytes.Count(body, []byte("\n"))
	h.readBody(body, known && (mail || !dep3))
	return h, rest[end:], skipped, nil
}

// readFields reads a block of header fields and the blank line that ends it.
func readFields(data []byte) (fields []field, n int) {
	pos := 0
	for pos < len(data) && isBlank(data[pos:lineEnd(data, pos)]) {
		pos = lineEnd(data, pos)
	}
	for pos < len(data) {
		end := lineEnd(data, pos)
		line := strings.TrimRight(string(data[pos:end]), "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			return fields, end
		case line[0] == ' ' || line[0] == '\t':
			if len(fields) == 0 {
				return nil, 0
			}
			last := &fields[len(fields)-1]
			last.more = append(last.more, line)
		case startsMessageEnd(data, pos):
			return fields, pos
		default:
			m := fieldLine.FindStringSubmatch(line)
			if m == nil {
				// DEP-3 allows free text only below a blank line, and mails
				// nothing at all: this is prose that looks like a field.
				return nil, 0
			}
			fields = append(fields, field{key: m[1], value: m[2]})
		}
		pos = end
	}
	return fields, pos
}

// unfolded joins a folded field as RFC 5322 does.
func (f field) unfolded() string {
	v := f.value
	for _, m := range f.more {
		v += " " + strings.TrimSpace(m)
	}
	return strings.TrimSpace(v)
}

func (h *Header) fromMail(fields []field, rest []byte) ([]byte, error) {
	encoding, charset := "", ""
	for _, f := range fields {
		if h.own(f) {
			continue
		}
		v := decodeWords(f.unfolded())
		switch strings.ToLower(f.key) {
		case "content-transfer-encoding":
			encoding = v
		case "content-type":
			if strings.HasPrefix(strings.ToLower(v), "multipart/") {
				return nil, fmt.Errorf("mail of several parts: save the patch alone")
			}
			if m := charsetParam.FindStringSubmatch(v); m != nil {
				charset = m[1]
			}
		default:
			if isDEP3(f.key) {
				h.Trailers = append(h.Trailers, Trailer{Key: f.key, Value: v})
			}
		}
	}
	body, err := decodeBody(encoding, rest)
	if err != nil {
		return nil, err
	}
	// Only the message is text; the diff's bytes are those of its files.
	if end := messageEnd(body); charset != "" {
		if text, ok := toUTF8(charset, body[:end]); ok && text != string(body[:end]) {
			body = append([]byte(text), body[end:]...)
		}
	}
	return body, nil
}

// own takes a field that a mail and the beginning of its body may have, and reports whether it is one.
func (h *Header) own(f field) bool {
	switch v := decodeWords(f.unfolded()); strings.ToLower(f.key) {
	case "from":
		h.Author, h.Email = splitAuthor(f.unfolded())
	case "subject":
		h.Subject = cleanSubject(v)
	case "date":
		h.Date = v
	default:
		return false
	}
	return true
}

var charsetParam = regexp.MustCompile(`(?i)charset="?([^";\s]+)`)

// fromDEP3 reads a Debian patch header: the first line of the description is
// the subject, its continuation lines are the body, and a lone dot is a blank line.
func (h *Header) fromDEP3(fields []field) {
	for _, f := range fields {
		switch strings.ToLower(f.key) {
		case "description", "subject":
			h.Subject = cleanSubject(decodeWords(strings.TrimSpace(f.value)))
			var body []string
			for _, l := range f.more {
				l = l[1:]
				if strings.TrimSpace(l) == "." {
					l = ""
				}
				body = append(body, l)
			}
			h.Body = strings.Trim(strings.Join(body, "\n"), "\n")
		case "author", "from":
			h.Author, h.Email = splitAuthor(f.unfolded())
		case "date", "last-update":
			h.Date = f.unfolded()
		default:
			h.Trailers = append(h.Trailers, Trailer{Key: f.key, Value: decodeWords(f.unfolded())})
		}
	}
}

// readBody takes the message text: in-body From, Subject and Date of a mail
// come first and win over the mail's own, as with git am.
func (h *Header) readBody(body []byte, mail bool) {
	var lines []string
	for pos := 0; pos < len(body); {
		end := lineEnd(body, pos)
		lines = append(lines, strings.TrimRight(string(unescapeFrom(body[pos:end])), "\r\n"))
		pos = end
	}
	trim := func() {
		for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
			lines = lines[1:]
		}
	}
	trim()
	for mail && len(lines) > 0 {
		m := fieldLine.FindStringSubmatch(lines[0])
		if m == nil {
			break
		}
		f := field{key: m[1], value: m[2]}
		n := 1
		for n < len(lines) && lines[n] != "" && (lines[n][0] == ' ' || lines[n][0] == '\t') {
			f.more = append(f.more, lines[n])
			n++
		}
		if mail = h.own(f); mail {
			lines = lines[n:]
		}
	}
	trim()
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return
	}
	text := strings.Join(lines, "\n")
	if h.Body != "" {
		text = h.Body + "\n\n" + text
	}
	h.Body = text
	h.Trailers = append(h.Trailers, trailers(lines)...)
}

// trailers finds the "Key: value" lines of a message. The last paragraph is
// taken if it has nothing else; an earlier one only for the keys of DEP-3 and
// Yocto, because prose has paragraphs that look the same.
func trailers(lines []string) []Trailer {
	var out []Trailer
	for len(lines) > 0 {
		n := 0
		for n < len(lines) && strings.TrimSpace(lines[n]) != "" {
			n++
		}
		paragraph := lines[:n]
		for n < len(lines) && strings.TrimSpace(lines[n]) == "" {
			n++
		}
		lines = lines[n:]
		var found []Trailer
		known, all := true, true
		for _, l := range paragraph {
			m := fieldLine.FindStringSubmatch(l)
			switch {
			case m != nil:
				found = append(found, Trailer{Key: m[1], Value: strings.TrimSpace(m[2])})
				known = known && isDEP3(m[1])
			case len(found) > 0 && (l[0] == ' ' || l[0] == '\t'):
				found[len(found)-1].Value += " " + strings.TrimSpace(l)
			default:
				all = false
			}
		}
		if all && (known || len(lines) == 0) {
			out = append(out, found...)
		}
	}
	return out
}

// splitAuthor reads "Name <email>", "email (Name)" and a bare name or address.
// Quotes are part of the mail's syntax only outside of encoded words, so those
// are decoded last; a mailer that encodes all of it, brackets too, is read again.
func splitAuthor(s string) (name, email string) {
	if plain := decodeWords(s); !strings.ContainsAny(s, "<@") && strings.ContainsAny(plain, "<@") {
		s = plain
	}
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '<'); i >= 0 {
		email, _, _ = strings.Cut(s[i+1:], ">")
		return decodeWords(unquoteName(s[:i])), strings.TrimSpace(email)
	}
	if addr, comment, ok := strings.Cut(s, "("); ok && strings.Contains(addr, "@") {
		return decodeWords(unquoteName(strings.TrimSuffix(strings.TrimSpace(comment), ")"))), strings.TrimSpace(addr)
	}
	if strings.Contains(s, "@") && !strings.ContainsAny(s, " \t") {
		return s, s
	}
	return decodeWords(unquoteName(s)), ""
}

// unquoteName removes the quotes of RFC 5322's quoted strings.
func unquoteName(s string) string {
	if !strings.Contains(s, `"`) {
		return strings.Join(strings.Fields(s), " ")
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			out.WriteByte(s[i])
		case s[i] != '"':
			out.WriteByte(s[i])
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// cleanSubject removes "Re:" and bracketed tags that hold PATCH, as git am
// --keep-non-patch does, and keeps other tags: upstream writes "[cuda] …".
func cleanSubject(s string) string {
	kept := ""
	for {
		s = strings.TrimLeft(s, " \t:\r\n")
		if len(s) > 3 && strings.EqualFold(s[:3], "re:") {
			s = s[3:]
			continue
		}
		end := strings.IndexByte(s, ']')
		if s == "" || s[0] != '[' || end < 0 {
			break
		}
		if !strings.Contains(s[:end], "PATCH") {
			kept += s[:end+1]
			// Without a space the tag and the next word are one.
			if end+1 < len(s) && s[end+1] == ' ' {
				kept += " "
			}
		}
		s = s[end+1:]
	}
	return strings.Join(strings.Fields(kept+s), " ")
}
