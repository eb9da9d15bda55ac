package patch

import (
	"bytes"
	"hash/maphash"
)

// seed of the line hashes. Results do not depend on its value, because equal
// hashes are always followed by a comparison of the bytes.
var seed = maphash.MakeSeed()

func hashString(s string) uint64 { return maphash.String(seed, s) }

// text is a file cut into lines. The index of its lines is made when the first
// hunk has to be searched for; most stand where they say.
type text struct {
	data []byte
	ends []int // offset behind each line; the last may lack its newline
	hash []uint64
	// A chain of lines for each bucket, in rising order: -1 ends it.
	head, next []int32
	found      map[string][]int // the places of preimages that stand in several
	quiet      bool             // nearest need not search: nobody reads its message
}

func newText(data []byte) *text {
	t := &text{data: data, ends: make([]int, 0, bytes.Count(data, []byte("\n"))+1)}
	for pos := 0; pos < len(data); {
		pos = lineEnd(data, pos)
		t.ends = append(t.ends, pos)
	}
	return t
}

func (t *text) count() int { return len(t.ends) }

// offset returns where the 0-based line i begins; i may be count.
func (t *text) offset(i int) int {
	if i == 0 {
		return 0
	}
	return t.ends[i-1]
}

func (t *text) line(i int) []byte { return t.data[t.offset(i):t.ends[i]] }

// lines returns a copy of the n lines from i on, as far as there are any.
func (t *text) lines(i, n int) []string {
	var out []string
	for ; n > 0 && i < t.count(); i, n = i+1, n-1 {
		out = append(out, string(t.line(i)))
	}
	return out
}

// at reports whether the hunk's whole preimage stands at line i, byte for byte.
func (t *text) at(h *hunk, i int) bool { return t.stands(h.oldText, len(h.old), i) }

// stands reports whether the n lines of s stand at line i, byte for byte.
func (t *text) stands(s string, n, i int) bool {
	if i < 0 || i+n > t.count() {
		return false
	}
	start := t.offset(i)
	end := start + len(s)
	// The end must be a line's end too: a last line without newline in the
	// patch is not the beginning of a longer one.
	return end == t.offset(i+n) && string(t.data[start:end]) == s
}

func (t *text) index() {
	if t.head != nil {
		return
	}
	size := 16
	for size < t.count() {
		size *= 2
	}
	t.head = make([]int32, size)
	for i := range t.head {
		t.head[i] = -1
	}
	t.next = make([]int32, t.count())
	t.hash = make([]uint64, t.count())
	for i := t.count() - 1; i >= 0; i-- {
		h := maphash.Bytes(seed, t.line(i))
		b := h & uint64(size-1)
		t.hash[i], t.next[i], t.head[b] = h, t.head[b], int32(i)
	}
}

// withHash calls f for each line of that hash, in rising order, until it
// returns false.
func (t *text) withHash(h uint64, f func(i int) bool) {
	for i := t.head[h&uint64(len(t.head)-1)]; i >= 0; i = t.next[i] {
		if t.hash[i] == h && !f(int(i)) {
			return
		}
	}
}

// maxPlaces bounds the places of a hunk that are told.
const maxPlaces = 100

// find returns the lines at which the hunk's whole preimage stands, in rising
// order. It looks around the occurrences of the
// preimage's rarest line only. The slice is the text's: a patch may have a preimage
// ten thousand times.
func (t *text) find(h *hunk) []int {
	if len(h.old) == 0 {
		return nil
	}
	if places, ok := t.found[h.oldText]; ok {
		return places
	}
	t.index()
	rarest, fewest := 0, t.count()+1
	for k, hash := range h.hash {
		n := 0
		t.withHash(hash, func(int) bool {
			n++
			return n < fewest
		})
		if n == 0 {
			return nil
		}
		if n < fewest {
			rarest, fewest = k, n
		}
	}
	var places []int
	t.withHash(h.hash[rarest], func(i int) bool {
		if t.at(h, i-rarest) {
			places = append(places, i-rarest)
		}
		return true
	})
	if len(places) > 1 {
		if t.found == nil {
			t.found = map[string][]int{}
		}
		t.found[h.oldText] = places
	}
	return places
}

// nearest returns the line at which most of the hunk's preimage stands, for a
// message, and how many of its lines stand there: the diagonal with the most
// equal lines, and of those the one closest to want.
func (t *text) nearest(h *hunk, want int) (line, equal int) {
	if t.quiet {
		return 0, 0
	}
	t.index()
	// Votes for a diagonal, counted from that at which only the hunk's last line
	// is in the file.
	votes := make([]int32, t.count()+len(h.hash))
	for k, hash := range h.hash {
		n := 0
		t.withHash(hash, func(i int) bool {
			votes[i-k+len(h.hash)]++
			n++
			// A line that stands everywhere says nothing about the place.
			return n < 200
		})
	}
	line = min(max(want, 0), t.count())
	for v, votes := range votes {
		at, n := v-len(h.hash), int(votes)
		if n == 0 {
			continue
		}
		d, best := abs(at-want), abs(line-want)
		if n > equal || n == equal && (d < best || d == best && at < line) {
			line, equal = at, n
		}
	}
	return max(line, 0), equal
}

func abs(n int) int { return max(n, -n) }
