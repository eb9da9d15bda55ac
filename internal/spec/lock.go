package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/tag"
)

func (l *loader) lock() Lock {
	data, ok := l.read(LockFile)
	if !ok {
		return nil
	}
	lock, err := ParseLock(LockFile, data)
	if err != nil {
		l.fail(err)
	}
	return lock
}

// ParseLock reads the text of a tags.lock; name is what errors call the file.
func ParseLock(name string, data []byte) (Lock, error) {
	lock := Lock{}
	if err := decodeJSON(name, data, &lock); err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, &Error{File: name, Line: 1, Col: 1, Text: "null", Msg: "is null; an empty lock is {}"}
	}
	var errs []error
	for _, upstream := range sortedKeys(lock) {
		pins := lock[upstream]
		if upstream != LlamaCpp && upstream != IkLlamaCpp {
			errs = append(errs, &Error{File: name, Msg: fmt.Sprintf("%q is no upstream; there are %s and %s", upstream,
				LlamaCpp, IkLlamaCpp)})
		}
		for _, key := range sortedKeys(pins) {
			if err := pins[key].Check(key); err != nil {
				errs = append(errs, errorAt(name, data, find(data, `"`+key+`"`), "%s %s: %v", upstream, key, err))
			} else if t := tag.MustParse(key); !Names(upstream, t) {
				errs = append(errs, errorAt(name, data, find(data, `"`+key+`"`),
					"%s %s: %s has no releases of such names; its commits are pinned by their full ids", upstream, key, upstream))
			}
		}
	}
	return lock, errors.Join(errs...)
}

// Check reports what is wrong with the pin as the entry of the tag called name,
// nil where nothing is: a lock that holds it could not be read again.
func (p Pin) Check(name string) error {
	t, err := tag.Parse(name)
	switch {
	case err != nil:
		return err
	case p.Tree == "" && t.Kind() != tag.Version:
		return errors.New("tree is missing: only of a version tag may it be unknown")
	case p.Tree != "" && !commitRE.MatchString(p.Tree):
		return fmt.Errorf("tree %q is not a full tree id of 40 hex digits", p.Tree)
	case p.Commit != "" && !commitRE.MatchString(p.Commit):
		return fmt.Errorf("commit %q is not a full commit id of 40 hex digits", p.Commit)
	case p.Build < 1:
		return fmt.Errorf("build number %d is not positive", p.Build)
	case p.Max != 0 && p.Max <= p.Build:
		return fmt.Errorf("build_max %d is not above build %d", p.Max, p.Build)
	case p.Max != 0 && t.Kind() != tag.Version:
		return errors.New("build_max is for version tags: of others the number can be known")
	case p.Tree == "" && !p.Time.IsZero():
		return errors.New("time is that of a commit whose tree is not given")
	case p.Tree != "" && p.Time.Unix() <= 0:
		return errors.New("time is missing: the commit time, which builds take as SOURCE_DATE_EPOCH")
	}
	if n, ok := t.Build(); ok && n != p.Build {
		return fmt.Errorf("build number is %d, but the tag says %d", p.Build, n)
	}
	if t.Kind() == tag.Commit && p.Commit != name {
		return fmt.Errorf("commit is %q, but the entry is for another", p.Commit)
	}
	return nil
}

// Encode writes the lock as sorted, indented JSON, one tag a line, so that a
// new tag is a one-line change.
func (k Lock) Encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	for i, upstream := range sortedKeys(k) {
		fmt.Fprintf(&b, "%s\n  %q: {", comma(i), upstream)
		pins := k[upstream]
		names := sortedKeys(pins)
		slices.SortStableFunc(names, func(x, y string) int { return pins[x].Build - pins[y].Build })
		for j, name := range names {
			p := pins[name]
			p.Time = p.Time.UTC()
			text, err := json.Marshal(p)
			if err != nil {
				return nil, fmt.Errorf("encode %s %s: %w", upstream, name, err)
			}
			fmt.Fprintf(&b, "%s\n    %q: %s", comma(j), name, text)
		}
		b.WriteString("\n  }")
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

// JSON writes a value as indented JSON with a line end, and leaves <, > and &
// as they are: ranges are full of them, and nothing here is put into a page.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

func comma(i int) string {
	if i > 0 {
		return ","
	}
	return ""
}

// decodeJSON reads data into v, refuses unknown keys and text behind the
// value, and says where a fault stands.
func decodeJSON(name string, data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if d.More() {
			return errorAt(name, data, place(data, d.InputOffset()), "text after the end of the document")
		}
		return nil
	}
	off := d.InputOffset()
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		off = syntax.Offset - 1
	case errors.As(err, &typ):
		off = typ.Offset - 1
	case strings.Contains(err.Error(), "unknown field"):
		_, field, _ := strings.Cut(err.Error(), "unknown field ")
		return errorAt(name, data, find(data, field), "unknown key %s", field)
	}
	return errorAt(name, data, place(data, off), "%s", strings.TrimPrefix(err.Error(), "json: "))
}

// place turns a byte offset into a line and a column.
func place(data []byte, off int64) position {
	before := data[:min(max(off, 0), int64(len(data)))]
	return position{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

func find(data []byte, text string) position {
	if i := bytes.Index(data, []byte(text)); i >= 0 {
		return place(data, int64(i))
	}
	return position{}
}

// LockLine returns the line, from 1, of a tag's entry in the text of a tags.lock;
// 0 where it has none.
func LockLine(data []byte, upstream, name string) int {
	d := json.NewDecoder(bytes.NewReader(data))
	var keys [2]string // of the objects being read
	depth, key := 0, true
	for {
		token, err := d.Token()
		if err != nil {
			return 0
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			key = true
			continue
		case string:
			if key && depth >= 1 && depth <= 2 {
				keys[depth-1] = v
				if depth == 2 && keys == [2]string{upstream, name} {
					return place(data, d.InputOffset()).line
				}
			}
		}
		key = !key
	}
}

// Revisions is patches/llpatch.lock: upstream -> tag -> target -> what was
// released, in the order of their numbers.
type Revisions map[string]map[string]map[string][]Revision

// Revision records one released state of a tag and a target. N is the n of
// -llp<n>: it rises when the patched tree or the plan changes.
type Revision struct {
	N     int     `json:"n"`
	Tree  string  `json:"tree"` // git tree id of the patched tree
	Plan  string  `json:"plan"` // digest of the build plan
	Fixes []InFix `json:"fixes"`
}

// InFix is a variant as a revision holds it.
type InFix struct {
	Fix    string `json:"fix"`
	Patch  string `json:"patch"`
	SHA256 string `json:"sha256"` // of the patch file
}

func (l *loader) levels() Revisions {
	data, err := readFile(l.fsys, RevisionsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Revisions{} // nothing was released yet
	}
	if err != nil {
		l.fail(&Error{File: RevisionsFile, Msg: "cannot be read: " + cause(err)})
		return nil
	}
	levels, err := ParseRevisions(RevisionsFile, data)
	if err != nil {
		l.fail(err)
	}
	return levels
}

// ParseRevisions reads the text of an llpatch.lock; name is what errors call the file.
func ParseRevisions(name string, data []byte) (Revisions, error) {
	levels := Revisions{}
	if err := decodeJSON(name, data, &levels); err != nil {
		return nil, err
	}
	if levels == nil {
		return nil, &Error{File: name, Line: 1, Col: 1, Text: "null", Msg: "is null; an empty lock is {}"}
	}
	for _, upstream := range sortedKeys(levels) {
		for _, t := range sortedKeys(levels[upstream]) {
			for _, target := range sortedKeys(levels[upstream][t]) {
				for i, lv := range levels[upstream][t][target] {
					if lv.N != i+1 {
						return nil, &Error{File: name, Msg: fmt.Sprintf(
							"%s %s %s: revision %d stands where %d belongs; restore the file from git", upstream, t, target, lv.N, i+1)}
					}
				}
			}
		}
	}
	return levels, nil
}

// Find returns the number of the revision that has this tree and plan. Where
// there is none, it returns the next number and false.
func (v Revisions) Find(upstream, tagName, target, tree, plan string) (int, bool) {
	list := v[upstream][tagName][target]
	for _, lv := range list {
		if lv.Tree == tree && lv.Plan == plan {
			return lv.N, true
		}
	}
	return len(list) + 1, false
}

// Add records a revision.
func (v Revisions) Add(upstream, tagName, target string, lv Revision) {
	v.Set(upstream, tagName, target, append(slices.Clip(v[upstream][tagName][target]), lv))
}

// Set replaces the levels of a tag and a target.
func (v Revisions) Set(upstream, tagName, target string, list []Revision) {
	if v[upstream] == nil {
		v[upstream] = map[string]map[string][]Revision{}
	}
	if v[upstream][tagName] == nil {
		v[upstream][tagName] = map[string][]Revision{}
	}
	v[upstream][tagName][target] = list
}

// Encode writes the levels as sorted, indented JSON.
func (v Revisions) Encode() ([]byte, error) {
	text, err := JSON(v)
	if err != nil {
		return nil, fmt.Errorf("encode levels: %w", err)
	}
	return text, nil
}
