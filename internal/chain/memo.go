package chain

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/llpatch/llpatch/internal/records"
	"github.com/llpatch/llpatch/internal/spec"
)

// Memo is the one place for "what is done already is not done again": it returns the value
// that the record file keeps, where that has the same key and is still valid, and else what
// do makes, which it records. T is a struct without a field "key". While do works, and where
// it fails, there is no record.
func Memo[T any](file, key string, valid func(T) bool, do func() (T, error)) (T, error) {
	var old struct {
		Key string `json:"key"`
	}
	var value T
	if records.Read(file, &old) && old.Key == key && records.Read(file, &value) && valid(value) {
		return value, nil
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return value, err
	}
	value, err := do()
	if err != nil {
		return value, err
	}
	text, err := spec.JSON(value)
	if err != nil {
		return value, err
	}
	return value, records.Write(file, json.RawMessage(fmt.Sprintf(`{"key":%q,%s`, key, text[1:])))
}

// digest is a key of Memo: all that decides what is made.
func digest(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}
