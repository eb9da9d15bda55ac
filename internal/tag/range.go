package tag

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
)

// Range is a set of build numbers, written as constraints joined by commas:
// ">= 8832, < 8863". The zero value holds no number.
type Range struct {
	text   string
	limits version.Constraints
	lo, hi int // the numbers lo..hi, both in the range
}

// go-version also accepts ~>, !=, pre-releases and dotted versions; for commit
// counts they mean nothing or mislead ("~> 8000" admits 9999), so only plain
// comparisons of whole numbers reach it.
var limitRE = regexp.MustCompile(`^(=|>=|>|<=|<)\s*([0-9]{1,7})$`)

// ParseRange reads a range. It refuses a range that no number satisfies.
func ParseRange(s string) (Range, error) {
	lo, hi := 1, math.MaxInt32
	for part := range strings.SplitSeq(s, ",") {
		m := limitRE.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return Range{}, fmt.Errorf("range %q: %q is not one of = >= > <= < followed by a build number", s,
				strings.TrimSpace(part))
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return Range{}, fmt.Errorf("range %q: %w", s, err)
		}
		switch m[1] {
		case "=":
			lo, hi = max(lo, n), min(hi, n)
		case ">=":
			lo = max(lo, n)
		case ">":
			lo = max(lo, n+1)
		case "<=":
			hi = min(hi, n)
		case "<":
			hi = min(hi, n-1)
		}
	}
	if lo > hi {
		return Range{}, fmt.Errorf("range %q holds no build number", s)
	}
	limits, err := version.NewConstraint(s)
	if err != nil {
		return Range{}, fmt.Errorf("range %q: %w", s, err)
	}
	return Range{text: s, limits: limits, lo: lo, hi: hi}, nil
}

// MustParseRange is ParseRange for ranges that stand in source code; it panics on an error.
func MustParseRange(s string) Range {
	r, err := ParseRange(s)
	if err != nil {
		panic(err)
	}
	return r
}

// Contains reports whether build number n is in r.
func (r Range) Contains(n int) bool {
	if r.IsZero() || n < 1 {
		return false
	}
	v, err := version.NewVersion(strconv.Itoa(n))
	return err == nil && r.limits.Check(v)
}

// Bounds returns the lowest and the highest build number of r, both included;
// a range without an upper limit ends at math.MaxInt32.
func (r Range) Bounds() (lo, hi int) { return r.lo, r.hi }

// Open reports whether r has no upper limit.
func (r Range) Open() bool { return r.hi == math.MaxInt32 }

// Overlaps reports whether a build number is in both ranges.
func (r Range) Overlaps(o Range) bool {
	return !r.IsZero() && !o.IsZero() && r.lo <= o.hi && o.lo <= r.hi
}

// IsZero reports whether r was never parsed.
func (r Range) IsZero() bool { return r.text == "" }

// String returns the range as it was written.
func (r Range) String() string { return r.text }

// MarshalText writes the range as it was written.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// UnmarshalText reads a range as ParseRange does.
func (r *Range) UnmarshalText(b []byte) error {
	p, err := ParseRange(string(b))
	if err != nil {
		return err
	}
	*r = p
	return nil
}
