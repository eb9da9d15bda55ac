package spec

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// position is a place in a file, both numbers 1-based.
type position struct{ line, col int }

// positions maps every key of a TOML document to where it stands, so that a
// rule about a value can point at it: "summary", "cmake.GGML_NATIVE",
// "variant[1].range", "run[0].server.seed".
func positions(data []byte) map[string]position {
	at := map[string]position{}
	counts := map[string]int{}
	prefix := ""
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		var parts []string
		pos := position{}
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if pos.line == 0 {
				s := p.Shape(n.Raw).Start
				pos = position{s.Line, s.Column}
			}
			parts = append(parts, string(n.Data))
		}
		key := strings.Join(parts, ".")
		if e.Kind != unstable.KeyValue {
			// A table below one of a list belongs to the last of it.
			for n := len(parts) - 1; n > 0; n-- {
				if list := strings.Join(parts[:n], "."); counts[list] > 0 {
					key = fmt.Sprintf("%s[%d].%s", list, counts[list]-1, strings.Join(parts[n:], "."))
					break
				}
			}
		}
		switch e.Kind {
		case unstable.Table:
			prefix = key + "."
			at[key] = pos
		case unstable.ArrayTable:
			indexed := fmt.Sprintf("%s[%d]", key, counts[key])
			counts[key]++
			prefix = indexed + "."
			at[indexed] = pos
		case unstable.KeyValue:
			at[prefix+key] = pos
		}
	}
	return at
}
