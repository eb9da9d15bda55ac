package spec

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
)

// readsRE is a line of a shell script that reads another one of recipes/.
var readsRE = regexp.MustCompile(`(?m)^\. \./([A-Za-z0-9][A-Za-z0-9_.-]*\.sh)[ \t]*([ \t]#.*)?$`)

// Script returns a script of recipes/ as a bundle has it: with line ends of Linux, which
// an editor or a checkout on Windows may have made others, and with the text of the
// scripts that it reads (a line ". ./NAME.sh") in the place of that line, so that it is
// one file.
func (r *Repo) Script(name string) ([]byte, error) { return script(r.FS, name) }

// script is Script. The error names the file that it is about.
func script(fsys fs.FS, name string) ([]byte, error) {
	text, err := scriptFile(fsys, name)
	if err != nil || path.Ext(name) != ".sh" {
		return text, err
	}
	text = readsRE.ReplaceAllFunc(text, func(line []byte) []byte {
		part := string(readsRE.FindSubmatch(line)[1])
		put, perr := scriptFile(fsys, part)
		switch {
		case err != nil:
		case perr != nil:
			err = fmt.Errorf("recipes/%s reads %w", name, perr)
		case readsRE.Match(put):
			err = fmt.Errorf("recipes/%s reads recipes/%s, which reads a third one", name, part)
		}
		if first, rest, found := bytes.Cut(put, []byte("\n")); found && bytes.HasPrefix(first, []byte("#!")) {
			put = rest
		}
		return bytes.TrimRight(put, "\n")
	})
	return text, err
}

func scriptFile(fsys fs.FS, name string) ([]byte, error) {
	file := path.Join("recipes", name)
	text, err := readFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, cause(err))
	}
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), nil
}
