package evidence

import (
	"fmt"
	"io"

	"github.com/llpatch/llpatch/internal/regular"
)

const (
	maxPlan   = 4 << 20
	maxRecord = 64 << 20 // an hour of a server at the finest looks is below 1 MiB a run
)

// ReadRecord reads a record that Record has written.
func ReadRecord(file string) (*Result, error) {
	data, err := readFile(file, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	res, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return res, nil
}

// readFile reads a file of at most so many bytes. A pipe or a device could keep
// its reader for ever.
func readFile(name string, most int64) ([]byte, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return data, err
}
