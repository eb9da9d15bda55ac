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
	"strings"

	"github.com/llpatch/llpatch/internal/atomicfile"
)

// stateFile marks a folder as a build folder of llpatch's and says how far its
// configuring went.
const stateFile = ".llpatch-build"

type state struct {
	Key        string `json:"key"`       // of the configure step
	Compilers  string `json:"compilers"` // what made the objects that are here
	Configured bool   `json:"configured"`
	Left       string `json:"left,omitempty"` // digest of what configuring left
}

// configuration are the files that CMake writes for Ninja and for itself. Ninja
// takes them as they are, whoever changed them.
var configuration = []string{"CMakeCache.txt", "build.ninja", "CMakeFiles/rules.ninja"}

// left is the digest of what stands in the configuration now; a file that is not
// there has a digest too.
func (p Plan) left() (string, error) {
	var sums []string
	for _, name := range configuration {
		sum, err := SumFile(filepath.Join(p.Dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		sums = append(sums, name+" "+sum)
	}
	return sha256Hex([]byte(strings.Join(sums, "\n"))), nil
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// state is what the folder is to have: the key changes with everything that
// configuring depends on, paths and revision included.
func (p Plan) state() (state, error) {
	compilers := p.Tools["cc"].Banner + "\n" + p.Tools["cxx"].Banner
	if nvcc, ok := p.Tools["nvcc"]; ok {
		compilers += "\n" + nvcc.Banner
	}
	text, err := json.Marshal([]any{
		p.Steps[0].Argv, p.Digest, compilers, p.Tools["cmake"].Banner,
		p.Tools["ninja"].Banner, p.rootDigest(),
	})
	return state{Key: sha256Hex(text), Compilers: compilers}, err
}

// rootDigest is what the plan's commands run in; empty is this machine itself.
func (p Plan) rootDigest() string {
	if p.Root == nil {
		return ""
	}
	return p.Root.Digest
}

// openDir makes the build folder, and returns the state that it is to have and
// the one that it has. A folder that holds anything and is not llpatch's is
// refused: configuring removes files.
func (p Plan) openDir() (want, have state, err error) {
	if want, err = p.state(); err != nil {
		return want, have, err
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, stateFile))
	if err == nil {
		if json.Unmarshal(text, &have) != nil {
			have = state{} // cut short: nothing here is known
		}
		if _, err := os.Stat(filepath.Join(p.Dir, "build.ninja")); err != nil {
			have.Configured = false
		}
		if ahead, err := p.ahead(); err != nil || ahead {
			have = state{} // Ninja goes by times alone, so no object is kept
			return want, have, err
		}
		return want, have, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return want, have, err
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return want, have, err
	}
	entries, err := os.ReadDir(p.Dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), atomicfile.Prefix(stateFile)) { // of a run that was killed at its first step
			return want, have, &BadFolder{p.Dir, fmt.Sprintf(
				"holds files that are not llpatch's, such as %s; name an empty one", e.Name())}
		}
		if err := os.Remove(filepath.Join(p.Dir, e.Name())); err != nil {
			return want, have, err
		}
	}
	return want, have, err
}

// ahead reports whether the last build lies in the future: the clock has gone back
// since, and a source that is written now is older than the objects made of it. The
// file system's own clock counts, for it may be another machine's.
func (p Plan) ahead() (bool, error) {
	last, err := os.Stat(filepath.Join(p.Dir, ".ninja_log"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := os.CreateTemp(p.Dir, atomicfile.Prefix(stateFile))
	if err != nil {
		return false, err
	}
	now, err := f.Stat()
	if err := errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return false, err
	}
	return last.ModTime().After(now.ModTime()), nil
}

// clear makes CMake start afresh: options that the plan no longer has would
// live on in its cache, and what an interrupted run left is not trusted. The
// objects below stay, for Ninja knows which of them are still right, unless
// another compiler made them: that Ninja does not see.
func (p Plan) clear(want, have state) error {
	if err := p.writeState(state{Compilers: have.Compilers}); err != nil {
		return err
	}
	names := []string{"CMakeCache.txt", "CMakeFiles", "build.ninja", fetched}
	if have.Compilers != want.Compilers {
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Name() != stateFile {
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	// Only now: a run that is killed here must find the old objects to be old.
	return p.writeState(state{Compilers: want.Compilers})
}

func (p Plan) writeState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(p.Dir, stateFile), append(text, '\n'), 0o644)
}
