package spec

import (
	"io/fs"
	"strings"
)

// ErrorAt returns an Error about a key of a TOML declaration, such as "proof" or
// "variant[1].range", placed at the key or, where the key is not there, at the
// nearest table above it.
func ErrorAt(fsys fs.FS, name, key, format string, args ...any) *Error {
	data, err := readFile(fsys, name)
	if err != nil {
		return errorAt(name, nil, position{}, format, args...)
	}
	return ErrorIn(name, data, key, format, args...)
}

// ErrorIn is ErrorAt for a TOML document whose content is data.
func ErrorIn(name string, data []byte, key, format string, args ...any) *Error {
	at := positions(data)
	p, ok := at[key]
	for !ok && key != "" {
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
		p, ok = at[key]
	}
	return errorAt(name, data, p, format, args...)
}

// Decode reads a TOML document into v, and refuses keys that v does not have.
// The error joins one *Error per fault.
func Decode(name string, data []byte, v any) error { return decodeTOML(name, data, v) }

// ErrorOn returns an Error about a 1-based line of a file whose content is data;
// line 0 is the whole file.
func ErrorOn(name string, data []byte, line int, format string, args ...any) *Error {
	p := position{line, 1}
	if line == 0 {
		p = position{}
	}
	return errorAt(name, data, p, format, args...)
}
