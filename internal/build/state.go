package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// stateFile marks a folder as a build folder of llpatch's and says how far its
// configuring went.
const stateFile = ".llpatch-build"

type state struct {
	Key        string `json:"key"` // of the configure step
	Configured bool   `json:"configured"`
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// key changes with everything that configuring depends on, paths and level included.
func (p Plan) key() (string, error) {
	text, err := json.Marshal([]any{p.Steps[0], p.Digest})
	return sha256Hex(text), err
}

// openDir makes the build folder, and reports whether it is configured for
// this plan. A folder that holds anything and is not llpatch's is refused:
// configuring removes files.
func (p Plan) openDir() (key string, configured bool, err error) {
	if key, err = p.key(); err != nil {
		return "", false, err
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(p.Dir, 0o755); err != nil {
			return "", false, err
		}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			return "", false, err
		}
		if len(entries) > 0 {
			return "", false, fmt.Errorf("build folder %s holds files that are not llpatch's, such as %s; name an empty one", p.Dir, entries[0].Name())
		}
		return key, false, nil
	case err != nil:
		return "", false, err
	}
	var s state
	if json.Unmarshal(text, &s) != nil || !s.Configured || s.Key != key {
		return key, false, nil // an unreadable state is one that was cut short
	}
	_, err = os.Stat(filepath.Join(p.Dir, "build.ninja"))
	return key, err == nil, nil
}

// clear makes CMake start afresh: options that the plan no longer has would
// live on in its cache, and what an interrupted run left is not trusted. The
// objects below stay; Ninja knows which of them are still right.
func (p Plan) clear(key string) error {
	if err := p.writeState(state{Key: key}); err != nil {
		return err
	}
	for _, name := range []string{"CMakeCache.txt", "CMakeFiles", "build.ninja"} {
		if err := os.RemoveAll(filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) writeState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(p.Dir, stateFile), append(text, '\n'), 0o644)
}
