package build

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// Remote is another machine that a plan is built on, over OpenSSH.
type Remote struct {
	Name string   // as ssh takes it: box, me@box, me@[fe80::1]
	Dir  string   // folder there that llpatch may fill, from the user's own folder on, or absolute
	Env  []string // the whole environment of ssh and sftp here
}

// RemoteFact is where on another machine a plan is built.
type RemoteFact struct {
	Name string `json:"name"` // as ssh takes it
	Dir  string `json:"dir"`  // absolute folder there that holds src and build, with slashes
	OS   string `json:"os"`   // linux or windows
}

// remoteDir is the folder that ParseRemote takes where none is named.
const remoteDir = "llpatch"

// remoteDirRE is what a folder on another machine may be called: several programs there
// read it, each with rules of its own.
var remoteDirRE = regexp.MustCompile(`^([A-Za-z]:)?[A-Za-z0-9_./+@-]+$`)

// ParseRemote reads where to build: ssh:HOST or ssh:HOST:DIR. env is the environment of
// ssh and sftp.
func ParseRemote(text string, env []string) (Remote, error) {
	rest, ok := strings.CutPrefix(text, "ssh:")
	if !ok {
		return Remote{}, fmt.Errorf("%q: write ssh:HOST or ssh:HOST:DIR, as ssh:me@box:llpatch", text)
	}
	from := strings.LastIndexByte(rest, ']') + 1 // an address of IPv6 has colons
	name, dir := rest, remoteDir
	if i := strings.IndexByte(rest[from:], ':'); i >= 0 {
		name, dir = rest[:from+i], rest[from+i+1:]
	}
	if err := run.CheckDestination(name); err != nil {
		return Remote{}, err
	}
	dir = strings.TrimSuffix(dir, "/")
	if !remoteDirRE.MatchString(dir) || strings.HasPrefix(dir, "-") || path.Clean(dir) != dir || dir == "." ||
		dir == ".." || strings.HasPrefix(dir, "../") {
		return Remote{}, fmt.Errorf("%q: the folder %q must be a clean path of letters, digits and . _ + @ - / alone, "+
			"with slashes also on Windows", text, dir)
	}
	return Remote{Name: name, Dir: dir, Env: env}, nil
}

// RemoteError is another machine that could not be built on, though the build itself is
// not at fault.
type RemoteError struct {
	Remote string
	Why    string
	Lost   bool // it was reached before: the same command goes on
	Err    error

	Elsewhere bool // another folder there may do
}

// Error names the machine and the cause.
func (e *RemoteError) Error() string { return fmt.Sprintf("ssh:%s: %s", e.Remote, e.Why) }

// ExitCode is exit.Build.
func (e *RemoteError) ExitCode() int { return exit.Build }

// Hint says what to do next; empty where the cause says it.
func (e *RemoteError) Hint() string {
	switch {
	case e.Lost:
		return "run the same command again: it goes on where it stopped"
	case e.Elsewhere:
		return fmt.Sprintf("--on ssh:%s:DIR takes another folder there", e.Remote)
	case isSSHFault(e.Err):
		return fmt.Sprintf("ssh is let ask nothing: first make \"ssh -o BatchMode=yes %s\" get in by itself", e.Remote)
	}
	return ""
}

// Unwrap returns Err.
func (e *RemoteError) Unwrap() error { return e.Err }

// remoteSystem is how a plan is built on one kind of machine. Each method gives a command for
// ssh, which the user's shell there reads, whichever that is; dir is absolute but in hello.
// All of them end with remoteBusy where another llpatch is at work in dir.
type remoteSystem struct {
	os string
	// hello makes the folder and prints a line with what the machine is, and one with
	// the folder's absolute path.
	hello func(dir string) string
	// list prints what of the source and the script is there, as listing reads it.
	list func(dir string) string
	// room prints how many bytes are free below dir.
	room func(dir string) string
	// take puts the files of an archive that was copied into dir, and whose SHA-256 is
	// sum, in their places there, and removes those that it names. It is called
	// takeName(run)+archiveEnd.
	take func(dir, run, sum string) string
	// step runs a step of the script, until standard input ends. key says what the build
	// folder must have been configured for, compilers what its objects must be from;
	// where they are not, it is begun anew.
	step func(dir, name, key, compilers string, jobs int) string
	// outputs lists what is in the build folder's bin, as listing reads it.
	outputs func(dir string) string
	// give packs files of the build folder into the archive giveName(run)+archiveEnd in
	// dir, and prints its SHA-256.
	give func(dir, run string, names []string) string
	// tidy removes what an interrupted run left.
	tidy func(dir, run string) string
}

// takeName and giveName begin what a copy leaves in the folder for a moment. Each run has
// names of its own: another one may be in the folder, and archives travel without its lock.
func takeName(run string) string { return "take-" + run }
func giveName(run string) string { return "give-" + run }

const (
	archiveEnd = ".tgz"
	removeFile = ".llpatch-remove" // in an archive: NUL-separated paths that are to go
)

// helloWord begins the line in which a machine says what it is, and listWord is the line
// before a listing: a shell there may print something of its own before.
const (
	helloWord = "llpatch-host"
	listWord  = "llpatch-list"
)

// remoteBusy is the exit code of a command that another llpatch is in the way of
// (EX_TEMPFAIL of sysexits.h).
const remoteBusy = 75

// remoteNoFolder is that of hello where the folder cannot be made (EX_CANTCREAT).
const remoteNoFolder = "73"

// remoteSays is what hello printed.
type remoteSays struct {
	kind, arch string
	cores      int   // 0: not said
	memoryMiB  int64 // likewise
	dir        string
}

// boxFacts are those of a Windows machine, on which llpatch does not look around: the
// plan names the tools, and its script finds them and judges their versions.
func boxFacts(tc spec.Toolchain, says remoteSays) Facts {
	f := Facts{
		OS: tc.OS, Arch: tc.Arch, Cores: max(says.cores, 1), MemoryMiB: says.memoryMiB,
		Tools: map[string]ToolFact{}, Headers: map[string]bool{}, Env: map[string]string{},
	}
	for _, role := range roles(tc) {
		f.Tools[role] = ToolFact{Path: tc.Programs[role].Names[0]}
	}
	return f
}
