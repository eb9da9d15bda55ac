package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bears is nil where a text says what the figure is and nothing else: each of its numbers,
// in their order, rounded as it rounds them, and none that must be there left out.
func (f *Figure) Bears(text string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%q: %s; the record gives %s", text, fmt.Sprintf(format, args...), f.text)
	}
	i := 0
	for _, m := range numberRE.FindAllStringSubmatch(text, -1) {
		for ; i < len(f.Numbers) && !f.Numbers[i].isWritten(m[1], m[2]); i++ {
			if f.Numbers[i].Must {
				return wrong("%s is wrong", m[1])
			}
		}
		if i == len(f.Numbers) {
			return wrong("%s is wrong", m[1])
		}
		i++
	}
	for ; i < len(f.Numbers); i++ {
		if f.Numbers[i].Must {
			return wrong("%s is missing", strings.TrimSpace(fmt.Sprintf("%.6g %s", f.Numbers[i].Value, f.Numbers[i].Unit)))
		}
	}
	has := func(word string) bool { return strings.Contains(text, word) }
	if len(f.Says) > 0 && !slices.ContainsFunc(f.Says, has) || slices.ContainsFunc(f.Not, has) {
		return wrong("it does not say %s", strings.Join(f.Says, " or "))
	}
	return nil
}

// kib is how many KiB a unit has.
var kib = map[string]float64{"B": 1. / 1024, "KiB": 1, "MiB": 1 << 10, "GiB": 1 << 20}

// isWritten says whether digits, with a unit or none, are the number as far as they go.
func (n Number) isWritten(digits, unit string) bool {
	v := n.Value
	switch from, to := kib[n.Unit], kib[unit]; {
	case from > 0 && to > 0:
		v *= from / to
	case unit != "" && strings.TrimSuffix(unit, "s") != strings.TrimSuffix(n.Unit, "s"):
		return false
	}
	digits = strings.ReplaceAll(strings.TrimRight(digits, ","), ",", "")
	_, decimals, _ := strings.Cut(digits, ".")
	return strconv.FormatFloat(v, 'f', len(decimals), 64) == digits
}

// lineOf is a line that a run printed: what the plan keeps, what an aim looked for, or the
// last ones.
func lineOf(s *Summary, runs []*Run, lead string) (*Figure, error) {
	found := ""
	for i, r := range runs {
		lines := slices.Concat(r.Tail, r.Kept)
		for _, c := range r.Checks {
			if strings.HasPrefix(c.Aim, "prints ") {
				lines = append(lines, c.Got)
			}
		}
		own := ""
		for _, l := range lines {
			if _, after, ok := strings.Cut(squeeze(l), lead); ok {
				own = after
			}
		}
		if own == "" || i > 0 && own != found {
			return nil, fmt.Errorf("no line with %q was kept of each run of %s/%s, the same in all", lead, s.Run, s.Build)
		}
		found = own
	}
	f := &Figure{Numbers: numbers(found), text: strings.TrimSpace(found)}
	if len(f.Numbers) == 0 {
		return nil, fmt.Errorf("the line with %q has no figure after it", lead)
	}
	f.Numbers[0].Must = true
	for _, c := range s.Aims {
		if strings.HasPrefix(c.Aim, "prints ") && strings.Contains(c.Aim, strings.TrimRight(lead, ":= ")) {
			f.Aims = append(f.Aims, c)
		}
	}
	return f, nil
}

// textFigure is a line of a text: each part of the key is looked for below the line of
// the part before it, and the figures follow the last.
func textFigure(text, key string) (*Figure, error) {
	after := ""
	rest := strings.Split(text, "\n")
	for _, lead := range strings.Split(key, "/") {
		lead = words(lead)
		i := slices.IndexFunc(rest, func(l string) bool { return strings.Contains(squeeze(l), lead) })
		if i < 0 || lead == "" {
			return nil, fmt.Errorf("%q: no line with %q", key, lead)
		}
		_, after, _ = strings.Cut(squeeze(rest[i]), lead)
		rest = rest[i+1:]
	}
	f := &Figure{Numbers: numbers(after), text: strings.TrimSpace(after)}
	if len(f.Numbers) == 0 {
		return nil, fmt.Errorf("%q: the line has no figure after it", key)
	}
	f.Numbers[0].Must = true
	return f, nil
}

// olderFigure is a figure of a record that llpatch did not write: NAME/FIELD is the
// highest of all runs of that name, NAME:BASE/FIELD-ratio the ratios of the first, second
// and further runs of the two, and FIELD-ratios their lowest and highest.
func olderFigure(data []byte, key string) (*Figure, error) {
	var rec struct {
		Runs []map[string]any `json:"runs"`
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, err
	}
	name, field, _ := strings.Cut(key, "/")
	var last string
	values := func(name, field string) (out []float64) {
		for _, r := range rec.Runs {
			if r["name"] != name {
				continue
			}
			switch v := r[field].(type) {
			case float64:
				out = append(out, v)
			case string:
				lines := strings.Split(strings.TrimSpace(v), "\n")
				last = squeeze(lines[len(lines)-1])
			}
		}
		return out
	}
	if own, base, ok := strings.Cut(name, ":"); ok {
		field, spread := strings.CutSuffix(field, "-ratios")
		field = strings.TrimSuffix(field, "-ratio")
		a, b := values(own, field), values(base, field)
		if len(a) == 0 || len(a) != len(b) {
			return nil, fmt.Errorf("%q: %d and %d runs have %s", key, len(a), len(b), field)
		}
		for i := range a {
			r := a[i] / b[i]
			if math.IsNaN(r) || math.IsInf(r, 0) {
				return nil, fmt.Errorf("%q: %g by %g is no ratio", key, a[i], b[i])
			}
			a[i] = r
		}
		if spread {
			return ratioOf(a, len(a)).spread(), nil
		}
		return ratioOf(a, len(a)).figure(), nil
	}
	all := values(name, field)
	switch {
	case len(all) > 0:
		unit := map[string]string{"peak_vram_mib": "MiB", "pp_tps": "t/s", "tg_tps": "t/s", "seconds": "s"}[field]
		v := slices.Max(all)
		return &Figure{Numbers: []Number{{v, unit, true}}, text: strings.TrimSpace(fmt.Sprintf("%g %s", v, unit))}, nil
	case len(numbers(last)) > 0:
		f := &Figure{Numbers: numbers(last), text: last}
		f.Numbers[0].Must = true
		return f, nil
	}
	return nil, fmt.Errorf("%q: no run of that name has such a field", key)
}

// words are those of a key, in which a blank is written +.
func words(s string) string { return squeeze(strings.ReplaceAll(s, "+", " ")) }

var numberRE = regexp.MustCompile(`(?:^|[^\pL\pN_.,-])(\d[\d,]*(?:\.\d+)?)(?:[\s\x{a0}]*(KiB|MiB|GiB|B|t/s|ms|s|pairs?|runs?|requests?)\b)?`)

// numbers are those of a text, each with its unit.
func numbers(text string) []Number {
	var out []Number
	for _, m := range numberRE.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(m[1], ","), ",", ""), 64)
		if err == nil && !math.IsInf(v, 0) {
			out = append(out, Number{Value: v, Unit: m[2]})
		}
	}
	return out
}
