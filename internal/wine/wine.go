// Package wine makes a Windows out of wine for a while: a folder of its own, and one of
// wine's programs that stays, so that the others find wine's server and services running.
// It stands for a Windows and is none.
package wine

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llpatch/llpatch/internal/run"
	"github.com/llpatch/llpatch/internal/spec"
)

// versions are what cmd's ver says of each version that wine can be here.
var versions = map[string]string{spec.Win7: "6.1.7601"}

// startLimit bounds the making of wine's folder and each of its own programs: 13 s
// on a busy machine with 2 processors.
const startLimit = 3 * time.Minute

// Options is which wine to start, and where.
type Options struct {
	// Program is wine's absolute path.
	Program string
	// Version is the Windows that it is to be: spec.Win7.
	Version string
	// Dir is a folder that is there. In it come wine's own, which is made anew, and
	// the logs of wine's programs.
	Dir string
	// Env is what wine's own programs get beside Windows.Env, as KEY=VALUE.
	Env []string
	// Debug is WINEDEBUG; empty: "-all".
	Debug string
	// Grace is the time between SIGTERM and SIGKILL for wine's programs; zero: run.DefaultGrace.
	Grace time.Duration
	// Hold are files that stay open until the last of wine's processes is gone.
	Hold []*os.File
}

// Windows is a wine that runs.
type Windows struct {
	// Says is what its cmd says of the version.
	Says string

	o      Options
	prefix string
	stays  *run.Process
	input  *os.File // the program that stays ends when it is closed
}

// Find returns the path of this machine's wine. Debian's wine64 has it off the PATH.
func Find() (program string, found bool) {
	for _, name := range []string{"wine64", "wine", "/usr/lib/wine/wine64"} {
		if p, err := run.LookPath(name, os.Getenv("PATH")); err == nil {
			return p, true
		}
	}
	return "", false
}

// Argv is the command by which wine, a path as of Find, runs a program for Windows.
//
// Every process of wine has the page 0x7ffe0000, which Windows has there too, and does not
// start where that is taken. Without wine's preloader, which is a package of its own in
// Debian, Linux puts the heap of wine's loader at random behind 0x7d000000, since 6.9 within
// 1 GiB: one process in 2,000 then does not start. The cmd that started it goes on without
// what it would have printed. So addresses are not chosen at random, where that is allowed.
func Argv(wine string, args ...string) []string {
	argv := append([]string{wine}, args...)
	if _, err := run.LookPath(wine, os.Getenv("PATH")); err != nil {
		return argv // whoever runs it says better than setarch what is wrong
	}
	return slices.Concat(steady(), argv)
}

// steady begins a command whose addresses are not chosen at random. It is empty where
// setarch is missing, or is refused that, as in a container with Docker's rules.
var steady = sync.OnceValue(func() []string {
	setarch, err := run.LookPath("setarch", os.Getenv("PATH"))
	if err != nil {
		return nil
	}
	argv := []string{setarch, "x86_64", "-R"} // old ones want the architecture named
	ctx, stop := context.WithTimeout(context.Background(), startLimit)
	defer stop()
	if err := run.Run(ctx, run.Cmd{Argv: slices.Concat(argv, []string{setarch, "--version"})}); err != nil {
		return nil
	}
	return argv
})

// Start makes wine's folder and returns when its services run and it says that it is
// the Windows of o. The services keep what the program that started them writes to. So
// they are started here, and a pipe of a later program ends with that program.
func Start(ctx context.Context, o Options) (*Windows, error) {
	w := &Windows{o: o, prefix: filepath.Join(o.Dir, "wine")}
	if err := w.reset(); err != nil {
		return nil, err
	}
	err := w.start(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", o.Program, err)
	} else if _, err = w.own(ctx, "winecfg", "-v", o.Version); err == nil {
		w.Says, err = w.own(ctx, "cmd", "/c", "ver")
	}
	if err == nil && !strings.Contains(w.Says, versions[o.Version]) {
		err = fmt.Errorf("%s is to be %s (%s), and says: %s", o.Program, o.Version, versions[o.Version], w.Says)
	}
	if err != nil {
		return nil, errors.Join(err, w.Stop(ctx))
	}
	return w, nil
}

func (w *Windows) reset() error {
	if err := os.RemoveAll(w.prefix); err != nil {
		return fmt.Errorf("wine's folder: %w", err)
	}
	if err := os.MkdirAll(w.prefix, 0o755); err != nil {
		return fmt.Errorf("wine's folder: %w", err)
	}
	return nil
}

// start starts the program that stays: a cmd that waits for its input. It greets
// when wine has made its folder and started its services.
func (w *Windows) start(ctx context.Context) error {
	in, keep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	hello := &greeting{came: make(chan struct{})}
	w.stays, err = run.Start(ctx, run.Cmd{
		Argv: Argv(w.o.Program, "cmd"), Env: w.Environ(), Dir: w.o.Dir, Stdin: in,
		Stdout: hello, Log: w.log("start"), Grace: w.o.Grace, Hold: w.o.Hold,
	})
	if err != nil {
		return errors.Join(err, keep.Close())
	}
	w.input = keep
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-hello.came:
		return nil
	case <-w.stays.Done():
		return fmt.Errorf("it does not start: %w", errors.Join(w.stays.Wait(),
			errors.New(strings.Join(w.stays.Tail(), "; "))))
	case <-limit.C:
		return fmt.Errorf("it does not start within %v; its log is %s", startLimit, w.log("start"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *Windows) log(name string) string { return filepath.Join(w.o.Dir, "wine-"+name+".log") }

// Environ is Options.Env and Env: the whole environment of a program that gets no more.
func (w *Windows) Environ() []string { return append(w.o.Env[:len(w.o.Env):len(w.o.Env)], w.Env()...) }

// own runs one of wine's own programs to its end and returns what it says.
func (w *Windows) own(ctx context.Context, argv ...string) (string, error) {
	out, err := run.Output(ctx, run.Cmd{
		Argv: Argv(w.o.Program, argv...), Env: w.Environ(), Dir: w.o.Dir,
		Log: w.log(argv[0]), Timeout: startLimit, Grace: w.o.Grace, Hold: w.o.Hold,
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("wine's %s: %w", argv[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Trust puts an authority's certificate, in DER, among those that this Windows trusts for
// every user (the store ROOT), until it is stopped. Windows keeps them in the registry, by the
// SHA-1 of the certificate, as a list of properties; number 32 is the certificate itself
// (CERT_CERT_PROP_ID of wincrypt.h).
func (w *Windows) Trust(ctx context.Context, der []byte) error {
	blob := binary.LittleEndian.AppendUint32(nil, 32)
	blob = binary.LittleEndian.AppendUint32(blob, 1)
	blob = binary.LittleEndian.AppendUint32(blob, uint32(len(der)))
	blob = append(blob, der...)
	key := fmt.Sprintf(`HKLM\Software\Microsoft\SystemCertificates\ROOT\Certificates\%X`, sha1.Sum(der))
	_, err := w.own(ctx, "reg", "add", key, "/v", "Blob", "/t", "REG_BINARY", "/d", hex.EncodeToString(blob), "/f")
	return err
}

// Stop ends wine's server and services and removes its folder. The error is of what is left.
func (w *Windows) Stop(ctx context.Context) error {
	var errs []error
	if w.stays != nil {
		if err := errors.Join(w.input.Close(), w.stays.Stop(ctx)); err != nil {
			errs = append(errs, fmt.Errorf("wine did not end as it should: %w; its log is %s", err, w.log("start")))
		}
	}
	if err := os.RemoveAll(w.prefix); err != nil {
		errs = append(errs, fmt.Errorf("wine's folder cannot be removed: %w", err))
	}
	return errors.Join(errs...)
}

// Pid is the process that stays; wine's server and services are its siblings.
func (w *Windows) Pid() int { return w.stays.Pid() }

// Env is what a program needs to find this wine, as KEY=VALUE: no add-on is asked for.
// Variables with other letters than ASCII's come through in UTF-8 alone. Some builds of
// wine have an nvcuda.dll of their own, which leads to this machine's card.
func (w *Windows) Env() []string {
	debug := cmp.Or(w.o.Debug, "-all")
	return []string{
		"WINEPREFIX=" + w.prefix, "WINEARCH=win64", "WINEDEBUG=" + debug, "LC_ALL=C.UTF-8",
		"WINEDLLOVERRIDES=mscoree=;mshtml=;winemenubuilder.exe=;nvcuda=n",
	}
}

// greeting notes that something was written.
type greeting struct {
	once sync.Once
	came chan struct{}
}

// Write takes the next bytes; it never fails.
func (g *greeting) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.came) })
	return len(p), nil
}
