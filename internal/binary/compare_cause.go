package binary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A section of up to maxWhole bytes is looked at in one, in which a name of another length
// moves what follows; a larger one in blocks at the same offsets, so that neither memory
// nor time grow with what two such sections have in common.
const (
	maxWhole = 16 << 20
	block    = 256 << 10
	maxCut   = 4 << 10 // how far before its end a block may be cut, where both have a zero
)

// compareParts compares a section of one file with the same one of the other.
func compareParts(ctx context.Context, a, b part) (SectionDiffers, error) {
	d := SectionDiffers{Name: a.name, Sizes: [2]int64{a.data.Size(), b.data.Size()}, Causes: []string{}}
	var err error
	if d.Bytes, d.First, err = countDiffering(a.data, b.data); err != nil || d.Bytes == 0 {
		return d, err
	}
	d.Left = d.Bytes
	if a.name == deviceCode || fatbinSection(a.name) {
		return d, d.fatbins(ctx, a.data, b.data)
	}
	if max(d.Sizes[0], d.Sizes[1]) > maxWhole {
		return d, d.inBlocks(ctx, a, b)
	}
	ta, err := all(a.data)
	if err != nil {
		return d, err
	}
	tb, err := all(b.data)
	if err != nil {
		return d, err
	}
	if len(a.zero)+len(b.zero) > 0 {
		blank(ta, a.zero)
		blank(tb, b.zero)
		if n, _ := differing(ta, tb); n < d.Left {
			d.Left = n
			d.Causes = append(d.Causes, linked)
		}
	}
	if a.name == ".comment" {
		d.Causes = append(d.Causes, fmt.Sprintf("other compilers: %s in A, %s in B", texts(ta), texts(tb)))
		d.Left = 0
		return d, nil
	}
	e := explanation{ctx: ctx}
	d.Left = e.explain(ta, tb)
	d.Causes = append(d.Causes, e.causes...)
	d.Text = e.text
	return d, ctx.Err()
}

// fatbinSection reports whether a section of that name holds device code; in PE files of
// Microsoft's linker a name has 8 bytes at most.
func fatbinSection(name string) bool {
	return strings.HasPrefix(name, ".nv_fatb") || strings.HasPrefix(name, "__nv_rel")
}

// inBlocks explains a large section block by block.
func (d *SectionDiffers) inBlocks(ctx context.Context, a, b part) error {
	e := explanation{ctx: ctx}
	timed := false
	d.Left = 0
	for at := int64(0); at < max(d.Sizes[0], d.Sizes[1]); {
		ta, err := piece(a.data, at)
		if err != nil {
			return err
		}
		tb, err := piece(b.data, at)
		if err != nil {
			return err
		}
		n := cut(ta, tb)
		ta, tb = ta[:min(n, len(ta))], tb[:min(n, len(tb))]
		if !bytes.Equal(ta, tb) {
			before, _ := differing(ta, tb)
			blankFrom(ta, a.zero, at)
			blankFrom(tb, b.zero, at)
			after, _ := differing(ta, tb)
			timed = timed || after < before
			d.Left += e.explain(ta, tb)
		}
		at += int64(n)
	}
	if timed {
		d.Causes = append(d.Causes, linked)
	}
	d.Causes = append(d.Causes, e.causes...)
	d.Text = e.text
	return ctx.Err()
}

func piece(r *io.SectionReader, at int64) ([]byte, error) {
	size := min(block, r.Size()-at)
	if size <= 0 {
		return nil, nil
	}
	return io.ReadAll(io.NewSectionReader(r, at, size))
}

// cut returns where to end a block so that no text is cut in two, if it can be told.
func cut(a, b []byte) int {
	n := max(len(a), len(b))
	for k := min(len(a), len(b)); n == block && k > block-maxCut; k-- {
		if a[k-1] == 0 && b[k-1] == 0 {
			return k
		}
	}
	return n
}

func blankFrom(b []byte, ranges [][2]int, at int64) {
	for _, r := range ranges {
		blank(b, [][2]int{{r[0] - int(at), r[1]}})
	}
}

// linked is the cause of a difference in what a linker writes of its time and its output.
const linked = "the time and the identity of the link"

func all(r *io.SectionReader) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
}

func blank(b []byte, ranges [][2]int) {
	for _, r := range ranges {
		if r[0] >= 0 && r[0]+r[1] <= len(b) {
			clear(b[r[0] : r[0]+r[1]])
		}
	}
}

// texts shows the strings of .comment.
func texts(b []byte) string {
	return strings.Join(strings.FieldsFunc(string(b), func(r rune) bool { return r == 0 }), ", ")
}

// What nvcc writes of its process.
const (
	nvccProcess   = "the number of nvcc's process, in the names of what is local to a file"
	nvccTemporary = "the number of nvcc's process, in names of its temporary files"
)

// stamps are what compilers write that differs from build to build although the source
// does not. Each is blanked; what is then equal differed in it alone.
var stamps = []struct {
	re    *regexp.Regexp
	what  string
	blank func(re *regexp.Regexp, b []byte) []byte
}{
	// Measured with nvcc 11.8 and 13.5: docs/adr/0010.
	{moduleRE, "nvcc's hash of the source's path, in the names of what is local to a file", zeroed},
	{moduleRE, nvccProcess, withoutProcess},
	{regexp.MustCompile(`tmpxft_[0-9a-f]{8}_[0-9a-f]{8}`), nvccTemporary, zeroed},
	// C11, 6.10.8.1: __DATE__ and __TIME__.
	{
		regexp.MustCompile(`(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 123][0-9] [12][0-9]{3}`),
		"the date of the build (__DATE__)", zeroed,
	},
	{regexp.MustCompile(`[0-2][0-9]:[0-5][0-9]:[0-6][0-9]`), "the time of the build (__TIME__)", zeroed},
}

// moduleRE is how nvcc begins the names of what is local to a file: a mark and the hash
// of the path. The file's name and another hash follow, and where the file has no
// function that others can call, the number of the process.
var moduleRE = regexp.MustCompile(`(?:_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_`)

var processRE = regexp.MustCompile(`_[0-9a-f]{8}_[0-9]+$`)

// withoutProcess cuts the second hash and the number off each name; how long it is stands
// before it, as in every mangled name, and is cut as well.
func withoutProcess(re *regexp.Regexp, b []byte) []byte {
	var out []byte
	done := 0
	for _, m := range re.FindAllIndex(b, -1) {
		digits := m[0]
		for digits > done && m[0]-digits < 3 && b[digits-1] >= '0' && b[digits-1] <= '9' {
			digits--
		}
		n, err := strconv.Atoi(string(b[digits:m[0]]))
		if err != nil || n > len(b)-m[0] || m[0] < done {
			continue
		}
		if at := processRE.FindIndex(b[m[0] : m[0]+n]); at != nil {
			out = append(append(out, b[done:digits]...), b[m[0]:m[0]+at[0]]...)
			done = m[0] + n
		}
	}
	return append(out, b[done:]...)
}

// explanation gathers the causes of differences.
type explanation struct {
	ctx    context.Context // ends the search
	causes []string
	text   []string // at the first difference that has none
}

func (e *explanation) add(cause string) {
	if !slices.Contains(e.causes, cause) {
		e.causes = append(e.causes, cause)
	}
}

// explain notes the causes, and returns how many bytes differ for none of them.
func (e *explanation) explain(a, b []byte) int64 {
	left, _ := differing(a, b)
	for _, s := range stamps {
		if left == 0 || e.ctx.Err() != nil {
			return left
		}
		za, zb := s.blank(s.re, a), s.blank(s.re, b)
		if n, _ := differing(za, zb); n < left {
			e.add(s.what)
			a, b, left = za, zb, n
		}
	}
	if left == 0 || e.ctx.Err() != nil {
		return left
	}
	for _, p := range otherPaths(a, b) {
		a = bytes.ReplaceAll(a, []byte(p[0]), []byte(p[1]))
		n, _ := differing(a, b)
		if n < left {
			e.add(fmt.Sprintf("a folder of the machine: %s in A, %s in B", p[0], p[1]))
			left = n
		}
	}
	if _, at := differing(a, b); at >= 0 && len(e.text) == 0 {
		if x, y := textAt(a, at), textAt(b, at); len(x) >= shortestText && len(y) >= shortestText {
			e.text = []string{x, y}
		}
	}
	return left
}

// shortestText is what the program strings takes for text too; textAround is how much
// of it is shown on either side.
const (
	shortestText = 4
	textAround   = 40
)

// textAt returns the printable ASCII around a byte.
func textAt(b []byte, at int64) string {
	printable := func(i int64) bool { return i >= 0 && i < int64(len(b)) && b[i] >= ' ' && b[i] < 0x7f }
	if !printable(at) {
		return ""
	}
	from, to := at, at
	for at-from < textAround && printable(from-1) {
		from--
	}
	for to-at < textAround && printable(to) {
		to++
	}
	return string(b[from:to])
}

func zeroed(re *regexp.Regexp, b []byte) []byte {
	return re.ReplaceAllFunc(b, func(m []byte) []byte { return bytes.Repeat([]byte("0"), len(m)) })
}

var pathRE = regexp.MustCompile(`/[A-Za-z0-9_.+,@%=-]+(?:/[A-Za-z0-9_.+,@%=-]+)+`)

// maxPaths bounds how many paths of one section are looked at.
const maxPaths = 1 << 16

// otherPaths pairs folders that stand only in a with those that stand only in b, by the
// files that both have in them. The longest are first.
func otherPaths(a, b []byte) [][2]string {
	// By a set: to look for each path in all of y takes minutes for a large section.
	only := func(x, y []byte) []string {
		seen := map[string]bool{}
		for _, m := range pathRE.FindAll(y, -1) {
			seen[string(m)] = true
		}
		var out []string
		for _, m := range pathRE.FindAll(x, maxPaths) {
			if s := string(m); !seen[s] {
				seen[s] = true
				if out = append(out, s); len(out) == 64 {
					break
				}
			}
		}
		return out
	}
	inB := only(b, a)
	var pairs [][2]string
	for _, x := range only(a, b) {
		for _, y := range inB {
			if path.Base(x) != path.Base(y) {
				continue
			}
			for path.Base(x) == path.Base(y) && x != "/" && y != "/" {
				x, y = path.Dir(x), path.Dir(y)
			}
			if pair := [2]string{x, y}; x != "/" && y != "/" && !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
			break
		}
	}
	slices.SortStableFunc(pairs, func(p, q [2]string) int { return len(q[0]) - len(p[0]) })
	return pairs
}

// fatbins explains a section of device code, piece by piece: what is compressed shows
// nothing as it lies there.
func (d *SectionDiffers) fatbins(ctx context.Context, a, b *io.SectionReader) error {
	ea, err := listed(a)
	if err == nil {
		var eb []*entry
		if eb, err = listed(b); err == nil {
			return d.entries(ctx, ea, eb)
		}
	}
	d.Causes = append(d.Causes, "it cannot be read as device code: "+err.Error())
	return ctx.Err()
}

var errMany = fmt.Errorf("more than %d pieces", maxEntries)

func listed(r *io.SectionReader) ([]*entry, error) {
	var list []*entry
	_, err := readFatbins(io.NewSectionReader(r, 0, r.Size()), func(_ int, e *entry) error {
		if list = append(list, e); len(list) > maxEntries {
			return errMany
		}
		return nil
	})
	return list, err
}

func (d *SectionDiffers) entries(ctx context.Context, ea, eb []*entry) error {
	if len(ea) != len(eb) {
		d.Causes = append(d.Causes, fmt.Sprintf("%d pieces of device code in A, %d in B", len(ea), len(eb)))
		return nil
	}
	e := explanation{ctx: ctx}
	var left int64
	other := 0
	for i := range ea {
		if err := ctx.Err(); err != nil {
			return err
		}
		ca, errA := ea[i].content(maxCubin)
		cb, errB := eb[i].content(maxCubin)
		if errors.Is(errA, errTooLarge) || errors.Is(errB, errTooLarge) {
			return nil // nothing is known of it
		}
		if errA != nil || errB != nil {
			d.Causes = append(d.Causes, "it cannot be read as device code: "+errors.Join(errA, errB).Error())
			return nil
		}
		if n, _ := differing(ca, cb); n > 0 {
			other++
			left += e.explain(ca, cb)
		}
	}
	d.Causes = append(d.Causes, e.causes...)
	if other > 0 { // else it is their headers, or how they are compressed
		d.Causes = append(d.Causes, fmt.Sprintf("%d of %d pieces of device code differ", other, len(ea)))
		d.Left = left
	}
	return nil
}
