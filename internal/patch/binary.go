package patch

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's blob ids are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Bounds on what a patch may make: a few bytes of a compressed or copying patch
// can ask for any size.
const (
	maxResult = 256 << 20 // bytes of one patched file
	maxSeries = 1 << 30   // bytes that a series writes in all
)

// binaryData is a binary change and the blobs that it leads from and to.
type binaryData struct {
	fragment     *gitdiff.BinaryFragment
	oldID, newID string
}

// newBinary prepares a binary change. back, the way from the new file to the old, may be
// nil; it is not used, but damage to it is damage to the patch.
func newBinary(c *change, f, back *gitdiff.BinaryFragment) (*binaryData, error) {
	if !isFullID(c.oldID) || !isFullID(c.newID) {
		return nil, errors.New("binary change without full blob ids in its index line: make the patch with --full-index " +
			"or --binary")
	}
	if f.Size > maxResult {
		return nil, fmt.Errorf("refused: binary change of %d MiB, more than %d", f.Size>>20, maxResult>>20)
	}
	if back != nil {
		n, err := io.Copy(io.Discard, io.LimitReader(back.Data(), min(back.Size, maxResult)+1))
		if err != nil || n != back.Size {
			return nil, errors.New("binary data of the way back is damaged")
		}
	}
	return &binaryData{fragment: f, oldID: c.oldID, newID: c.newID}, nil
}

// apply returns the new content. What it starts from and what comes out must be
// the blobs that the patch names: a binary change has no context to go by.
func (b *binaryData) apply(src []byte) ([]byte, error) {
	if id := blobID(src); !isZeroID(b.oldID) && id != b.oldID {
		return nil, fmt.Errorf("it was made from blob %s, and the file is %s", b.oldID, id)
	}
	var out bytes.Buffer
	file := &gitdiff.File{IsBinary: true, BinaryFragment: b.fragment}
	if err := gitdiff.Apply(&out, bytes.NewReader(src), file, gitdiff.WithMaxBinaryFragmentBytes(maxResult)); err != nil {
		return nil, fmt.Errorf("its data is damaged: %w", err)
	}
	if id := blobID(out.Bytes()); !isZeroID(b.newID) && id != b.newID {
		return nil, fmt.Errorf("it should give blob %s, and gives %s", b.newID, id)
	}
	return out.Bytes(), nil
}

// blobID returns git's id of a file's content.
func blobID(data []byte) string {
	h := sha1.New() //nolint:gosec // git's blob ids are SHA-1
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func isFullID(id string) bool {
	_, err := hex.DecodeString(id)
	return len(id) == 2*sha1.Size && err == nil
}

func isZeroID(id string) bool { return strings.Trim(id, "0") == "" }

// sameBlob reports whether a blob id of an index line, maybe shortened, is that
// of a file. Fewer than 7 digits, git's least, prove nothing.
func sameBlob(short, full string) bool {
	return len(short) >= 7 && strings.HasPrefix(full, short)
}
