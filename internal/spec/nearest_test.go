package spec

import (
	"slices"
	"testing"

	"github.com/llpatch/llpatch/internal/tag"
)

// Of two variants as far away the older one is taken, in whatever order they stand.
func TestNearest(t *testing.T) {
	old := Variant{Range: tag.MustParseRange(">= 10, <= 20")}
	young := Variant{Range: tag.MustParseRange(">= 30, <= 40")}
	f := Fix{Variants: []Variant{old, young}}
	for range 2 {
		for n, want := range map[int]Variant{
			1: old, 10: old, 20: old, 24: old, 25: old, 26: young, 30: young, 40: young, 99: young,
		} {
			if got := f.nearest(n); got.Range.String() != want.Range.String() {
				t.Errorf("for %d: %s, want %s", n, got.Range, want.Range)
			}
		}
		slices.Reverse(f.Variants)
	}
}
