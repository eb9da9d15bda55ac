package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/spec"
)

// InfoFile is the page of a bundle that says how it was made.
const InfoFile = "BUILD_INFO.json"

// maxValues is more values than the BUILD_INFO.json of any bundle has: one of some hundred files has a few thousand.
const maxValues = 200_000

// ReadInfo reads a BUILD_INFO.json, which may be anybody's. The error says what is wrong with it.
func ReadInfo(text []byte) (i Info, err error) {
	if values(text) > maxValues { // each takes many times the memory that it takes in the text
		return i, errors.New("it lists more than that of any bundle")
	}
	if json.Unmarshal(text, &i) != nil || i.Series == nil || i.Tag == "" || slices.Contains(i.Files, nil) {
		return i, errors.New("it is none of llpatch's")
	}
	if i.Revision == 0 { // as it was called before
		var old struct {
			Level int `json:"level"`
		}
		err = json.Unmarshal(text, &old)
		i.Revision = old.Level
	}
	return i, err
}

// values is how many values a text of JSON has, or some more.
func values(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case '{', '[', ',':
			if !quoted {
				n++
			}
		}
	}
	return n
}

// Identity is what programs were built from, as far as it tells their defects.
type Identity struct {
	Upstream string            `json:"upstream"`
	Build    int               `json:"build"`
	Series   *spec.Series      `json:"series"` // nil: not known to have any fix
	DropIn   string            `json:"drop_in"`
	Options  map[string]string `json:"options"`
	Files    []named           `json:"files"` // none: not known
}

type named struct {
	Name string `json:"name"`
}

// Identify takes what BUILD_INFO.json says, where data holds that, or else what a program says
// of itself, nil where it says nothing. It reports false where neither tells a build.
func Identify(data []byte, l *binary.Llama) (Identity, bool) {
	var id Identity
	if values(data) <= maxValues && json.Unmarshal(data, &id) == nil && id.Upstream != "" && id.Build > 0 {
		return id, true
	}
	if l == nil || l.Build == 0 {
		return Identity{}, false
	}
	id = Identity{Upstream: spec.LlamaCpp, Build: l.Build}
	if l.Ik {
		id.Upstream = spec.IkLlamaCpp
	}
	return id, true
}

// Known is what is known of the defects of such a build.
func (id Identity) Known(all spec.Advisories) *spec.Known {
	c := spec.Contents{DropIn: id.DropIn, Options: id.Options}
	for _, f := range id.Files {
		c.Files = append(c.Files, f.Name)
	}
	k := all.Of(id.Upstream, id.Build, id.Series, c)
	return &k
}

// OtherLlpatch says that another version of llpatch made an archive than the one that is here, and how to have it.
func OtherLlpatch(made, here string) string {
	text := fmt.Sprintf("llpatch %s made it, and this is %s: take that one", made, here)
	if versionRE.MatchString(made) {
		text += " (go install github.com/llpatch/llpatch/cmd/llpatch@" + made + ")"
	}
	return text
}

// versionRE is what a version of Go's is called, and nothing that a shell takes for more.
var versionRE = regexp.MustCompile(`^v[0-9][0-9A-Za-z.+-]*$`)

// MayDiffer is a part of the programs that two builds of one plan need not have alike.
type MayDiffer struct {
	What string `json:"what"` // DeviceCode or Signature
	Why  string `json:"why"`
}

// What may differ.
const (
	DeviceCode = "device code"
	Signature  = "signature"
)

// May reports whether such a part may differ.
func (i Info) May(what string) bool {
	return slices.ContainsFunc(i.MayDiffer, func(m MayDiffer) bool { return m.What == what })
}

// CheckInfo is the verdict of one smoke check.
type CheckInfo struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Place   string `json:"place"`
}

// Options are a plan's, without what is this machine's: folders and programs decide
// nothing, and would make two builds of the same plan differ.
func Options(p build.Plan) map[string]string {
	all := map[string]string{}
	neutral := strings.NewReplacer(p.Dir, "BUILD", p.Source, "SOURCE", build.InsideDir, "BUILD", build.InsideSource,
		"SOURCE")
	for _, o := range p.Options {
		switch {
		case strings.HasSuffix(o.Name, "_COMPILER_LAUNCHER"):
		case strings.HasSuffix(o.Name, "_COMPILER") || o.Name == "CUDAToolkit_ROOT":
			all[o.Name] = path.Base(o.Value)
		case strings.HasSuffix(o.Name, "_FLAGS"):
			// Quotes are there only for folders with odd letters.
			all[o.Name] = strings.ReplaceAll(neutral.Replace(o.Value), `"`, "")
		default:
			all[o.Name] = neutral.Replace(o.Value)
		}
	}
	return all
}
