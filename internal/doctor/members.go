package doctor

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
)

// surplus says that an archive has ended before the part of that number, from 0.
type surplus int

// Error names no file: the caller knows the parts.
func (s surplus) Error() string { return fmt.Sprintf("the archive ends before part %d", int(s)+1) }

// members reads a gzip file of one or more members and knows where in its parts it is.
type members struct {
	in     *counted
	br     *bufio.Reader
	gz     *gzip.Reader
	starts []int64 // where the second and later parts begin
	done   bool    // what was packed has ended
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func newMembers(r io.Reader, starts []int64) (*members, error) {
	m := &members{in: &counted{r: r}, starts: starts}
	m.br = bufio.NewReader(m.in)
	var err error
	if m.gz, err = gzip.NewReader(m.br); err != nil {
		return nil, err
	}
	m.gz.Multistream(false)
	return m, nil
}

// Read goes on to the next member, unless it begins with a part where the archive has
// ended already.
func (m *members) Read(p []byte) (int, error) {
	n, err := m.gz.Read(p)
	if err != io.EOF { //nolint:errorlint // gzip returns it as it is
		return n, err
	}
	next, err := m.br.Peek(2)
	if len(next) == 0 {
		return n, err
	}
	part := slices.Index(m.starts, m.in.n-int64(m.br.Buffered()))
	if part >= 0 && (m.done || !bytes.HasPrefix(next, []byte{0x1f, 0x8b})) {
		return n, surplus(part + 1)
	}
	if err := m.gz.Reset(m.br); err != nil {
		return n, err
	}
	m.gz.Multistream(false)
	return n, nil
}
