package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/compat"
	"github.com/llpatch/llpatch/internal/env"
	"github.com/llpatch/llpatch/internal/evidence"
	"github.com/llpatch/llpatch/internal/gguf"
	"github.com/llpatch/llpatch/internal/leak"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/sim"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
)

// Exit codes, as docs/manual/output.md lists them.
const (
	exitUnexpected  = 1
	exitUsage       = 2
	exitDeclaration = 3
	exitConflict    = 4
	exitBuild       = 5
	exitSmoke       = 6
	exitNotRun      = 7
	exitSource      = 8
	exitInterrupted = 130
)

// goesOn names the commands that use what an interrupted run of theirs has done.
var goesOn = []string{"fetch", "build", "smoke", "bundle", "release", "create"}

// report prints an error with what to do next, and returns the exit code.
func (a *app) report(ctx context.Context, command string, err error) int {
	code, hint := classify(err)
	if ctx.Err() != nil {
		code, hint = exitInterrupted, a.interrupted
		if slices.Contains(goesOn, command) {
			hint = "run the same command again: it goes on where it stopped"
		}
		err = errInterrupted
	}
	if hint == "" {
		hint = a.elsewhere(err)
	}
	_, _ = fmt.Fprintf(a.stderr, "llpatch: error: %s\n", strings.TrimRight(err.Error(), "\n"))
	if hint != "" {
		_, _ = fmt.Fprintf(a.stderr, "llpatch: hint: %s\n", hint)
	}
	return code
}

// elsewhere says how to take another folder than one that cannot be used.
func (a *app) elsewhere(err error) string {
	p, ok := is[*fs.PathError](err)
	unusable := func(cause error) bool { return errors.Is(err, cause) }
	if !ok || !slices.ContainsFunc([]error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT}, unusable) {
		return ""
	}
	below := func(dir string, err error) bool {
		path, perr := filepath.Abs(p.Path)
		return err == nil && perr == nil && strings.HasPrefix(path+"/", dir+"/")
	}
	switch {
	case below(cacheDir()):
		return "LLPATCH_CACHE=DIR takes another folder for the cache"
	case below(filepath.Abs(a.out)):
		return "--out DIR takes another folder"
	// Not what a user has there: all of llpatch's is called so.
	case strings.HasPrefix(p.Path, filepath.Join(os.TempDir(), "llpatch-")):
		return "TMPDIR=DIR takes another folder for what is temporary"
	}
	return ""
}

// is reports whether err holds an error of type T.
func is[T error](err error) (T, bool) {
	var t T
	ok := errors.As(err, &t)
	return t, ok
}

func classify(err error) (code int, hint string) {
	if u, ok := is[*usageError](err); ok {
		if u.help != "" {
			return exitUsage, "see " + u.help
		}
		return exitUsage, ""
	}
	if _, ok := is[*source.Foreign](err); ok {
		return exitUsage, ""
	}
	if _, ok := is[*spec.UnknownTarget](err); ok {
		return exitUsage, "llpatch targets tells what each of them is"
	}
	if _, ok := is[*chain.NoRuntime](err); ok {
		return exitUsage, "without --bundle, or with --bundle thin, it is made"
	}
	if _, ok := is[*spec.WrongUpstream](err); ok {
		return exitUsage, "llpatch targets tells which upstream each target builds"
	}
	if s, ok := is[*authenticode.CannotSign](err); ok {
		return exitUsage, s.Hint
	}
	if _, ok := is[*chain.BadOption](err); ok {
		return exitUsage, ""
	}
	if _, ok := is[*spec.OutOfRange](err); ok {
		return exitUsage, "llpatch targets tells which tags each target builds"
	}
	if _, ok := is[*gguf.Impossible](err); ok {
		return exitUsage, ""
	}
	if _, ok := is[*gguf.NoRoom](err); ok {
		return exitUnexpected, "name a file on another disk with -o, or make the model smaller; --type q4_0 has a quarter of F16's bytes"
	}
	if _, ok := is[*spec.Error](err); ok {
		return exitDeclaration, ""
	}
	if _, ok := is[*patch.ParseError](err); ok {
		return exitDeclaration, ""
	}
	if _, ok := is[*env.BadLock](err); ok {
		return exitDeclaration, ""
	}
	if _, ok := is[*patch.Conflict](err); ok {
		return exitConflict, "the tree is not what the fix was made for; nothing was written"
	}
	if _, ok := is[*compat.Broken](err); ok {
		return exitConflict, "a declared range must end where its patch does; llpatch blame-break FIX tells which commit broke it"
	}
	if _, ok := is[*build.BadFolder](err); ok {
		return exitUsage, "--out DIR takes another folder"
	}
	if _, ok := is[*chain.NoRoom](err); ok {
		return exitBuild, "--out DIR takes another disk"
	}
	if _, ok := is[*build.Failed](err); ok {
		return exitBuild, ""
	}
	if h, ok := is[*build.HostError](err); ok {
		return exitBuild, h.Hint()
	}
	if m, ok := is[*build.MissingTools](err); ok && !holds[*smoke.NotRun](err) { // wine is missing then
		hint := ""
		// What no package of Debian's brings is not in a root of them either.
		for role, env := range map[string]string{"nvcc": "cuda-11.8", "hipcc": "rocm"} {
			if m.Host == "" && slices.ContainsFunc(m.Tools, func(t build.MissingTool) bool { return t.Role == role && t.Debian != "" }) {
				hint = fmt.Sprintf("llpatch env create %s makes a root that has it, and --env %s builds in that", env, env)
			}
		}
		return exitBuild, hint
	}
	if b, ok := is[*build.BadToolkit](err); ok {
		return exitBuild, b.Next
	}
	if _, ok := is[*spec.UnknownEnv](err); ok {
		return exitUsage, "llpatch env list tells what each of them is"
	}
	if _, ok := is[*env.Unlocked](err); ok {
		return exitDeclaration, ""
	}
	for _, isEnv := range []func(error) bool{holds[*env.Missing], holds[*env.NotMade], holds[*env.InUse]} {
		if isEnv(err) {
			return exitBuild, ""
		}
	}
	if _, ok := is[*binary.Rejected](err); ok {
		return exitBuild, "the recipe's [verify] says what a binary may need"
	}
	if _, ok := is[*binary.NotSame](err); ok {
		return exitBuild, ""
	}
	if l, ok := is[*binary.Lacking](err); ok {
		return exitBuild, l.Hint()
	}
	if _, ok := is[*smoke.Failed](err); ok {
		return exitSmoke, ""
	}
	if m, ok := is[*sim.MissingTool](err); ok {
		return exitNotRun, m.Fix
	}
	if _, ok := is[*smoke.NotRun](err); ok {
		return exitNotRun, ""
	}
	if code, hint, ok := doctorExit(err); ok {
		return code, hint
	}
	if _, ok := is[*leak.Grew](err); ok {
		return exitSmoke, ""
	}
	if _, ok := is[*leak.NotRun](err); ok {
		return exitNotRun, ""
	}
	if _, ok := is[*evidence.Missing](err); ok {
		return exitSmoke, ""
	}
	if _, ok := is[*evidence.NotRun](err); ok {
		return exitNotRun, ""
	}
	if u, ok := is[*source.Unavailable](err); ok {
		if len(u.Nearest) > 0 {
			return exitSource, fmt.Sprintf("--nearest takes %s instead; --source takes a repository, bundle or tarball that you have", u.Nearest[0])
		}
		if len(u.Tried) == 1 && errors.Is(u, fs.ErrNotExist) {
			return exitSource, "--source names a path that is not there"
		}
		return exitSource, "--source takes a repository, bundle or tarball that you have"
	}
	for _, isSource := range []func(error) bool{
		holds[*source.Mismatch], holds[*source.NotLocked], holds[*source.Missing], holds[*source.Corrupt], holds[*build.NoPage], holds[*compat.NoHistory], holds[*source.NoHistory], holds[*source.TagsMoved], holds[*env.Unavailable], holds[*env.BadArchive],
	} {
		if isSource(err) {
			return exitSource, ""
		}
	}
	if errors.Is(err, source.ErrNotOwn) {
		return exitUsage, ""
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return exitUsage, "a file stands where a folder must be"
	}
	if errors.Is(err, syscall.ENAMETOOLONG) {
		return exitUsage, "the path is too long for this system: give a shorter one"
	}
	if p, ok := is[*fs.PathError](err); ok && p.Op == "mkdir" && errors.Is(p, fs.ErrExist) {
		return exitUsage, "a link that leads nowhere stands where a folder must be"
	}
	// cobra has no type for what it finds wrong with the command line itself.
	if strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage, "see llpatch --help"
	}
	return exitUnexpected, ""
}

func holds[T error](err error) bool {
	_, ok := is[T](err)
	return ok
}
