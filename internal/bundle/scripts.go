package bundle

import (
	"bytes"
	"fmt"
	"path"
	"regexp"

	"github.com/llpatch/llpatch/internal/spec"
)

// checkScript is what a bundle for Linux calls the script that looks at the user's machine.
const checkScript = "check.sh"

var setCmdRE = regexp.MustCompile(`(?m)^set "(system|dlls|driver|cards|gpu|page)=.*"$`)

// checkName is what a bundle calls its recipe's check script; empty: there is none.
func checkName(script string) string {
	if path.Ext(script) == ".sh" {
		return checkScript
	}
	return script
}

// Scripts returns the recipe's scripts by their names in the bundle, with what this
// bundle is in their settings.
func Scripts(repo *spec.Repo, rec spec.Recipe, i Info) (map[string][]byte, error) {
	out := map[string][]byte{}
	for key, name := range map[string]string{"bundle.check": rec.Bundle.Check, "bundle.start": rec.Bundle.Start} {
		if name == "" || i.DropIn != "" && key == "bundle.start" {
			continue
		}
		text, err := repo.Script(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if path.Ext(name) == ".cmd" {
			text, err = cmdScript(path.Join("recipes", name), text, i)
		} else {
			text = shScript(text, i.shSettings(rec))
		}
		if err != nil {
			return nil, err
		}
		out[checkName(name)] = text
	}
	return out, nil
}

// cmdScript sets a script for cmd.exe and gives it the line ends without which cmd
// misses labels. Of other letters than ASCII's each machine's cmd has its own idea.
func cmdScript(file string, text []byte, i Info) ([]byte, error) {
	text = lf(text)
	for n, line := range bytes.Split(text, []byte("\n")) {
		if bytes.ContainsFunc(line, func(r rune) bool { return r > '~' || r < ' ' }) {
			return nil, &spec.Error{File: file, Line: n + 1, Msg: "a script for cmd.exe must be plain ASCII without tabs"}
		}
	}
	values := i.Facts()
	if i.WebUI {
		values["page"] = "1"
	}
	text = setCmdRE.ReplaceAllFunc(text, func(line []byte) []byte {
		key := setCmdRE.FindSubmatch(line)[1]
		return fmt.Appendf(nil, "set \"%s=%s\"", key, values[string(key)])
	})
	return crlf(text), nil
}

// lf gives a text the line ends of Linux: an editor or a checkout on Windows may have
// given it others.
func lf(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

// crlf gives a text the line ends of Windows.
func crlf(text []byte) []byte { return bytes.ReplaceAll(lf(text), []byte("\n"), []byte("\r\n")) }
