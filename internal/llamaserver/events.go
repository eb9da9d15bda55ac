package llamaserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Events reads a streamed answer and passes on the data of each event. A stream
// that is cut in the middle of one is an error, and so is an error that the
// server sends.
func Events(r io.Reader, each func(data []byte) error) error {
	lines := bufio.NewReader(io.LimitReader(r, MaxAnswer))
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("cut in the middle of %s: %w", Quote(line), err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || line[0] == ':' { // the end of an event, a comment
			continue
		}
		// How older servers tell of an error in a stream.
		if said, ok := bytes.CutPrefix(line, []byte("error:")); ok {
			return fmt.Errorf("the server says %s", Quote(bytes.TrimSpace(said)))
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			return fmt.Errorf("a line that is no data: %s", Quote(line))
		}
		data = bytes.TrimSpace(data)
		// The OpenAI way to end a stream, which some versions send here too.
		if string(data) == "[DONE]" {
			continue
		}
		if err := each(data); err != nil {
			return err
		}
	}
}
