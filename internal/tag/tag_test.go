package tag_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/tag"
)

func TestParse(t *testing.T) {
	const commit = "45cac7ca703fb9085eae62b9121fca01d20177f6"
	for s, want := range map[string]struct {
		kind  tag.Kind
		build int
	}{
		"b8833":   {tag.Build, 8833},
		"b1":      {tag.Build, 1},
		"v0.5.0":  {tag.Version, 0},
		"v10.0.1": {tag.Version, 0},
		commit:    {tag.Commit, 0},
	} {
		got, err := tag.Parse(s)
		if err != nil {
			t.Errorf("Parse(%q): %v", s, err)
			continue
		}
		n, ok := got.Build()
		if got.Kind() != want.kind || n != want.build || ok != (want.kind == tag.Build) || got.String() != s {
			t.Errorf("Parse(%q) = %v %v build %d %v", s, got, got.Kind(), n, ok)
		}
	}
	for _, s := range []string{
		"", "b", "8833", "B8833", "b08833", "b0", "b8833-dirty", "b8833 ", " b8833", "b8833\n", "b-1", "b99999999",
		"v0.5", "v0.5.0-dev", "v01.5.0", "0.5.0", "v0.5.0+llp1",
		commit[:39], commit + "0", strings.ToUpper(commit), "45cac7ca", "refs/tags/b8833", "../b8833", "master", "HEAD",
	} {
		if got, err := tag.Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, got)
		}
	}
}

func TestShort(t *testing.T) {
	if got := tag.MustParse("45cac7ca703fb9085eae62b9121fca01d20177f6").Short(); got != "45cac7ca703f" {
		t.Errorf("Short = %q", got)
	}
	if got := tag.MustParse("v0.5.0").Short(); got != "v0.5.0" {
		t.Errorf("Short = %q", got)
	}
}

func TestRange(t *testing.T) {
	for s, want := range map[string]struct {
		lo, hi  int
		open    bool
		in, out []int
	}{
		">= 8832, < 8863": {8832, 8862, false, []int{8832, 8833, 8862}, []int{8831, 8863, 1, 0, -5, 88330}},
		"=8390":           {8390, 8390, false, []int{8390}, []int{8389, 8391}},
		"> 10, <= 12":     {11, 12, false, []int{11, 12}, []int{10, 13}},
		">= 4080":         {4080, 1<<31 - 1, true, []int{4080, 99999}, []int{4079}},
		"< 3":             {1, 2, false, []int{1, 2}, []int{0, -1, 3}},
		"< 5, >= 2, < 4":  {2, 3, false, []int{2, 3}, []int{1, 4}},
	} {
		r, err := tag.ParseRange(s)
		if err != nil {
			t.Errorf("ParseRange(%q): %v", s, err)
			continue
		}
		lo, hi := r.Bounds()
		if lo != want.lo || hi != want.hi || r.Open() != want.open || r.String() != s {
			t.Errorf("%q: bounds %d %d open %v text %q", s, lo, hi, r.Open(), r)
		}
		for _, n := range want.in {
			if !r.Contains(n) {
				t.Errorf("%q does not contain %d", s, n)
			}
		}
		for _, n := range want.out {
			if r.Contains(n) {
				t.Errorf("%q contains %d", s, n)
			}
		}
	}
	for _, s := range []string{
		"", ",", ">= 1,", "~> 8000", "!= 5", ">= b8832", ">= 1.2", ">= 8100-dirty", "8832", ">= -1", "=> 5",
		">= 5, < 5", "> 5, < 6", "< 1", ">= 99999999", ">= 1 || < 5",
	} {
		if r, err := tag.ParseRange(s); err == nil {
			t.Errorf("ParseRange(%q) = %v, want an error", s, r)
		}
	}
	var zero tag.Range
	if zero.Contains(1) || zero.Overlaps(tag.MustParseRange(">= 1")) || !zero.IsZero() {
		t.Error("the zero range holds something")
	}
}

// The range's own bounds and go-version must never disagree.
func TestRangeAgreesWithBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ops := []string{"=", ">=", ">", "<=", "<"}
	tried := 0
	for range 5000 {
		var parts []string
		for range 1 + rng.IntN(3) {
			parts = append(parts, ops[rng.IntN(len(ops))]+" "+string(rune('0'+rng.IntN(10)))+string(rune('0'+rng.IntN(10))))
		}
		r, err := tag.ParseRange(strings.Join(parts, ", "))
		if err != nil {
			continue
		}
		tried++
		lo, hi := r.Bounds()
		for n := 1; n < 110; n++ {
			if got, want := r.Contains(n), n >= lo && n <= hi; got != want {
				t.Fatalf("%q: Contains(%d) = %v, bounds say %v", r, n, got, want)
			}
		}
	}
	if tried < 500 {
		t.Fatalf("only %d ranges were valid", tried)
	}
}

func TestOverlaps(t *testing.T) {
	rs := []tag.Range{
		tag.MustParseRange(">= 10, < 20"), tag.MustParseRange(">= 20, < 30"),
		tag.MustParseRange("= 19"), tag.MustParseRange(">= 5"),
	}
	for i, a := range rs {
		for j, b := range rs {
			want := false
			for n := 1; n < 60; n++ {
				want = want || a.Contains(n) && b.Contains(n)
			}
			if got := a.Overlaps(b); got != want {
				t.Errorf("range %d overlaps %d = %v, want %v", i, j, got, want)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"b8833", "v0.5.0", "45cac7ca703fb9085eae62b9121fca01d20177f6", "b2034", "v1.2.3.4",
		"b\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tag.Parse(s)
		if err != nil {
			return
		}
		text, err := got.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back tag.Tag
		if err := back.UnmarshalText(text); err != nil || back != got || got.String() != s {
			t.Fatalf("%q reads back as %v: %v", s, back, err)
		}
		if strings.ContainsAny(got.Short(), "/\\ \n\x00") {
			t.Fatalf("%q is not fit for a file name", got.Short())
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{">= 8832, < 8863", "= 1", "~> 8000", "> 1, > 2,<= 9", ">=1,<2"} {
		f.Add(s, 8833)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		r, err := tag.ParseRange(s)
		if err != nil {
			return
		}
		lo, hi := r.Bounds()
		if lo > hi || !r.Contains(lo) || r.Contains(lo-1) && lo > 1 {
			t.Fatalf("%q: bounds %d %d", s, lo, hi)
		}
		if n > 0 && n < 1<<31 && r.Contains(n) != (n >= lo && n <= hi) {
			t.Fatalf("%q: Contains(%d) = %v", s, n, r.Contains(n))
		}
	})
}
