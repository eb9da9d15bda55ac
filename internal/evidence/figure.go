package evidence

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/memory"
)

// Figure is one figure of a record, made anew from the record's runs, and how a page may
// write it.
type Figure struct {
	Numbers []Number `json:"numbers"`        // in the order in which a page writes them
	Says    []string `json:"says,omitempty"` // words of which a page must write one
	Not     []string `json:"not,omitempty"`  // words that it must not write
	Aims    []Check  `json:"aims,omitempty"` // of the record, on this figure

	text string
}

// Number is one number of a Figure.
type Number struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"` // "MiB", "t/s", "pairs" and the like
	Must  bool    `json:"must"`           // a page may not leave it out
}

// Source is a file of which figures are taken: a record, one of the older form, or a text.
type Source struct {
	res  *Result
	data []byte // of the other two
	text bool
}

// ReadSource reads a file of docs/evidence. A record that contradicts itself is an error.
func ReadSource(file string) (*Source, error) {
	data, err := readFile(file, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if filepath.Ext(file) != ".json" {
		return &Source{data: data, text: true}, nil
	}
	res, err := Parse(data)
	if errors.Is(err, errOlder) {
		return &Source{data: data}, nil
	}
	return &Source{res: res}, err
}

// Figure makes one figure anew. The key of what llpatch evidence run wrote is RUN/BUILD/MEASURE
// (docs/evidence/README.md), of an older record NAME/FIELD, of a text the words that lead to
// a line. An error says what there is instead.
func (s *Source) Figure(key string) (*Figure, error) {
	switch {
	case s.text:
		return textFigure(string(s.data), key)
	case s.res == nil:
		return olderFigure(s.data, key)
	}
	return s.res.figure(key)
}

// String is the figure as a page may write it, and the aims that it did not reach.
func (f *Figure) String() string {
	s := f.text
	for _, c := range f.Aims {
		if c.State != Passed {
			s += fmt.Sprintf("; %s: %s", c.State, c.Aim)
		}
	}
	return squeeze(s)
}

func (r *Result) figure(key string) (*Figure, error) {
	part := strings.SplitN(key, "/", 4)
	if len(part) < 3 {
		return nil, fmt.Errorf("%q is no RUN/BUILD/MEASURE", key)
	}
	i := slices.IndexFunc(r.Summary, func(s Summary) bool { return s.Run == part[0] && s.Build == part[1] })
	if i < 0 {
		var have []string
		for _, s := range r.Summary {
			have = append(have, s.Run+"/"+s.Build)
		}
		return nil, fmt.Errorf("%q: the record has %s", part[0]+"/"+part[1], strings.Join(have, ", "))
	}
	s := &r.Summary[i]
	var runs []*Run
	for i := range r.Runs {
		if x := &r.Runs[i]; x.Name == s.Run && x.Build == s.Build && x.Pair > 0 {
			runs = append(runs, x)
		}
	}
	m := part[2]
	if (m == "line") != (len(part) == 4) {
		return nil, fmt.Errorf("%q: only line/WORDS has a fourth part", key)
	}
	if m == "line" {
		return lineOf(s, runs, words(part[3]))
	}
	measure := measures[m]
	if measure == nil {
		return nil, fmt.Errorf("%q is no measure", m)
	}
	f := measure(s, runs)
	if f == nil {
		return nil, fmt.Errorf("%q: the record does not know it", key)
	}
	for _, c := range s.Aims {
		if p := aimsOn[m]; p != "" && strings.Contains(c.Aim, p) {
			f.Aims = append(f.Aims, c)
		}
	}
	return f, nil
}

// aimsOn is what the aims on a measure are called.
var aimsOn = map[string]string{
	"pp-ratio": "prefill speed", "pp-ratios": "prefill speed", "tg-ratio": "decode speed", "tg-ratios": "decode speed",
	"vram": "peak VRAM", "rss": "peak RSS", "host": "memory on the host flat", "device": "VRAM flat",
	"tokens": "tokens as", "requests": "every request", "exit": "exit code",
}

var measures = map[string]func(s *Summary, runs []*Run) *Figure{
	"pp":        func(s *Summary, _ []*Run) *Figure { return of(s.PP, "t/s", s) },
	"tg":        func(s *Summary, _ []*Run) *Figure { return of(s.TG, "t/s", s) },
	"vram":      func(s *Summary, _ []*Run) *Figure { return of(float(s.PeakVRAM), "MiB", s) },
	"rss":       func(s *Summary, _ []*Run) *Figure { return of(float(s.RSS), "MiB", s) },
	"pp-ratio":  func(s *Summary, _ []*Run) *Figure { return s.PPRatio.figure() },
	"tg-ratio":  func(s *Summary, _ []*Run) *Figure { return s.TGRatio.figure() },
	"pp-ratios": func(s *Summary, _ []*Run) *Figure { return s.PPRatio.spread() },
	"tg-ratios": func(s *Summary, _ []*Run) *Figure { return s.TGRatio.spread() },
	"host":      func(_ *Summary, runs []*Run) *Figure { return growth(runs, memory.Anon) },
	"device":    func(_ *Summary, runs []*Run) *Figure { return growth(runs, memory.VRAM) },
	"seconds": func(s *Summary, runs []*Run) *Figure {
		var all []float64
		for _, r := range runs {
			all = append(all, r.Seconds)
		}
		return of(median(all), "s", s)
	},
	"exit": func(_ *Summary, runs []*Run) *Figure {
		var how []string
		for _, r := range runs {
			switch {
			case r.Timeout:
				how = append(how, "time limit")
			case r.Signal != "":
				how = append(how, r.Signal)
			case r.RC >= 0:
				how = append(how, strconv.Itoa(r.RC))
			}
		}
		if how = slices.Compact(how); len(how) != 1 {
			return nil
		}
		if rc, err := strconv.ParseFloat(how[0], 64); err == nil {
			return &Figure{Numbers: []Number{{rc, "", true}}, text: "exit code " + how[0]}
		}
		return &Figure{Says: how, text: how[0]}
	},
	"requests": func(_ *Summary, runs []*Run) *Figure {
		answered, all := int64(0), int64(0)
		for _, r := range runs {
			if r.Served != nil {
				answered, all = answered+r.Requests, all+r.Requests+r.Failed
			}
		}
		if all == 0 {
			return nil
		}
		return &Figure{
			Numbers: []Number{{float64(answered), "", true}, {float64(all), "requests", true}},
			text:    fmt.Sprintf("%d of %d requests", answered, all),
		}
	},
	"tokens": func(s *Summary, _ []*Run) *Figure {
		var equal, all int
		if _, err := fmt.Sscanf(s.Tokens, "equal in %d of %d", &equal, &all); err != nil {
			return nil
		}
		f := &Figure{Numbers: []Number{{float64(equal), "", false}, {float64(all), "", false}}, text: "tokens " + s.Tokens}
		switch equal {
		case all:
			f.Says, f.Not, f.text = []string{"equal"}, []string{"differ", "not equal"}, "tokens equal"
		case 0:
			f.Says, f.text = []string{"differ"}, "tokens differ"
		default:
			f.Says, f.Numbers[0].Must, f.Numbers[1].Must = []string{"equal"}, true, true
		}
		return f
	},
}

func float(v *int64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}

// of is a figure of so many runs.
func of(v *float64, unit string, s *Summary) *Figure {
	if v == nil {
		return nil
	}
	text := strconv.FormatFloat(*v, 'f', 0, 64)
	if *v < 100 && unit != "MiB" {
		text = fmt.Sprintf("%.1f", *v)
	}
	return &Figure{Numbers: []Number{{*v, unit, true}, {float64(s.Runs), "runs", false}}, text: text + " " + unit}
}

func (r *Ratio) figure() *Figure {
	if r == nil {
		return nil
	}
	f := &Figure{Numbers: []Number{{r.Median, "", true}}}
	if r.Low != nil && r.High != nil {
		f.Numbers = append(f.Numbers, Number{*r.Low, "", true}, Number{*r.High, "", true})
	}
	f.Numbers = append(f.Numbers, Number{float64(len(r.Values)), "pairs", true})
	f.text = r.String() + ", " + pairs(len(r.Values))
	return f
}

func (r *Ratio) spread() *Figure {
	if r == nil {
		return nil
	}
	low, high := slices.Min(r.Values), slices.Max(r.Values)
	return &Figure{
		Numbers: []Number{{low, "", true}, {high, "", true}, {float64(len(r.Values)), "pairs", true}},
		text:    fmt.Sprintf("%.2f to %.2f, %s", low, high, pairs(len(r.Values))),
	}
}

func pairs(n int) string {
	if n == 1 {
		return "1 pair"
	}
	return fmt.Sprintf("%d pairs", n)
}

// growth is what the judge of memory said of a server's load.
func growth(runs []*Run, k memory.Kind) *Figure {
	if len(runs) != 1 {
		return nil
	}
	i := slices.IndexFunc(runs[0].Memory, func(v memory.Verdict) bool { return v.Kind == k })
	if i < 0 {
		return nil
	}
	v := runs[0].Memory[i]
	state := map[memory.State]string{
		memory.Flat: "flat", memory.Bounded: "settled", memory.Grows: "grows",
		memory.Unclear: "unclear",
	}
	f := &Figure{Numbers: numbers(v.String()), Says: []string{state[v.State]}, text: v.String()}
	if v.State == memory.Unclear {
		f.text = "unclear: " + v.Reason
	}
	for s, word := range state {
		if s != v.State && !strings.Contains(f.text, word) { // a reason may say "whether it has settled"
			f.Not = append(f.Not, word)
		}
	}
	slices.Sort(f.Not)
	switch {
	case v.State != memory.Bounded:
	case len(f.Numbers) < 3: // one is below 0
		return nil
	default: // from where, to where, after how many
		f.Numbers[0].Must, f.Numbers[1].Must, f.Numbers[2].Must = true, true, true
		f.Numbers = slices.Insert(f.Numbers, 3, Number{float64(runs[0].Requests), "requests", false})
	}
	return f
}
