package patch

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime/quotedprintable"
	"regexp"
	"strings"
	"unicode/utf8"
)

// encodedWord is RFC 2047's =?charset?encoding?text?=, with RFC 2231's language.
var encodedWord = regexp.MustCompile(`=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bBqQ])\?([^?]*)\?=`)

// decodeWords turns the encoded words of a header value into UTF-8. Space
// between two encoded words is not part of the text. The bytes of words that
// stand side by side are joined before they are read as characters, because
// some mailers cut inside of one. What cannot be read stays as it is.
func decodeWords(s string) string {
	found := encodedWord.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
	var out strings.Builder
	var run []byte         // decoded bytes not yet turned into characters
	var charset string     // of run
	runStart, last := 0, 0 // where run's text begins in s; end of the last word
	flush := func() {
		if run == nil {
			return
		}
		if text, ok := toUTF8(charset, run); ok {
			out.WriteString(text)
		} else {
			out.WriteString(s[runStart:last])
		}
		run = nil
	}
	for _, m := range found {
		cs := strings.ToLower(s[m[2]:m[3]])
		raw, ok := decodeWord(s[m[4]], s[m[6]:m[7]])
		between := s[last:m[0]]
		if last > 0 && strings.TrimSpace(between) == "" && ok && run != nil {
			between = ""
		}
		if between != "" || cs != charset || !ok {
			flush()
			out.WriteString(between)
		}
		if !ok {
			out.WriteString(s[m[0]:m[1]])
			last = m[1]
			continue
		}
		if run == nil {
			runStart, charset, run = m[0], cs, []byte{}
		}
		run = append(run, raw...)
		last = m[1]
	}
	flush()
	out.WriteString(s[last:])
	return out.String()
}

func decodeWord(encoding byte, text string) ([]byte, bool) {
	if encoding == 'b' || encoding == 'B' {
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
		return raw, err == nil
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '_':
			out = append(out, ' ')
		case c == '=' && i+2 < len(text):
			b, err := hex.DecodeString(text[i+1 : i+3])
			if err != nil {
				return nil, false
			}
			out = append(out, b[0])
			i += 2
		case c == '=':
			return nil, false
		default:
			out = append(out, c)
		}
	}
	return out, true
}

// toUTF8 reads bytes of the charsets that patches come in.
func toUTF8(charset string, b []byte) (string, bool) {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return string(b), utf8.Valid(b)
	case "iso-8859-1", "latin1":
		r := make([]rune, len(b))
		for i, c := range b {
			r[i] = rune(c)
		}
		return string(r), true
	}
	return "", false
}

// decodeBody undoes a mail's content transfer encoding.
func decodeBody(encoding string, body []byte) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		out, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
		if err != nil {
			return nil, fmt.Errorf("quoted-printable mail: %w", err)
		}
		return out, nil
	case "base64":
		out, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body)))
		if err != nil {
			return nil, fmt.Errorf("base64 mail: %w", err)
		}
		return out, nil
	case "", "7bit", "8bit", "binary":
		return body, nil
	}
	return nil, fmt.Errorf("mail of transfer encoding %q: save the patch alone", encoding)
}
