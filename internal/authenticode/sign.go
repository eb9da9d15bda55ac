// Package authenticode signs programs for Windows, with osslsigncode, and verifies what it
// signed. What a signature holds is read by package binary, which knows the tables of a PE file.
package authenticode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/disk"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/run"
)

// Signer says how the programs and DLLs of a bundle for Windows get an Authenticode
// signature.
type Signer struct {
	Cert      string   // PKCS#12 (.p12, .pfx), or PEM certificates: the signer's, then its issuers'
	Key       string   // the PEM private key; empty with PKCS#12
	Password  []byte   // of the key or the PKCS#12 file; nil: none
	Timestamp string   // URL of an RFC 3161 time-stamp server; empty: no time stamp
	Env       []string // KEY=VALUE; its PATH is where osslsigncode is looked for, else the program's own is
}

// CannotSign says why nothing can be signed.
type CannotSign struct {
	Cert string
	Why  string
	Next string // what to do, or empty
	Err  error  // nil where Why is the whole cause
}

// Error names the certificate and the cause.
func (e *CannotSign) Error() string { return fmt.Sprintf("sign with %s: %s", e.Cert, e.Why) }

// ExitCode is exit.Usage.
func (e *CannotSign) ExitCode() int { return exit.Usage }

// Hint says what to do.
func (e *CannotSign) Hint() string { return e.Next }

// Unwrap returns Err.
func (e *CannotSign) Unwrap() error { return e.Err }

func (s *Signer) cannot(why, hint string, err error) error {
	return &CannotSign{Cert: s.Cert, Why: why, Next: hint, Err: err}
}

// signRoom is more than a signature and the certificates of the system's authorities
// take, bytes: the first has some 10 KiB, the others 220.
const signRoom = 1 << 20

// signLimit bounds one run of osslsigncode: a time-stamp server may be slow.
const signLimit = 2 * time.Minute

// systemRoots are the certificates of authorities that Debian and its like, and Fedora
// and its like, have.
var systemRoots = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// Check signs a small program in a folder of its own, verifies it, and returns its
// signature: a missing tool, a wrong password, a certificate that has expired or is not
// for programs show before anything is built. The error is a *CannotSign.
func (s *Signer) Check(ctx context.Context) (*binary.Signature, error) {
	for _, file := range []string{s.Cert, s.Key} {
		if file == "" {
			continue
		}
		text, err := regular.ReadFile(file)
		if err != nil {
			return nil, s.cannot(err.Error(), "", err)
		}
		// osslsigncode would ask the terminal.
		if file == s.Key && len(s.Password) == 0 && encrypted(text) {
			return nil, s.cannot(file+" is encrypted and no password was given", passwordHint, nil)
		}
	}
	dir, err := os.MkdirTemp("", "llpatch-sign-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "trial.exe")
	if err := os.WriteFile(file, trialProgram(), 0o600); err != nil {
		return nil, err
	}
	return s.sign(ctx, file)
}

const passwordHint = "--sign-password-file FILE, or the variable LLPATCH_SIGN_PASSWORD, gives it"

// encrypted reports whether a PEM file holds a key that needs a password.
func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.Contains(block.Type, "ENCRYPTED") || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}

// sign gives a file a signature and verifies it. The file is replaced in one step.
func (s *Signer) sign(ctx context.Context, file string) (*binary.Signature, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	// Of a full disk osslsigncode says that it cannot read its input.
	if free, known := disk.Free(filepath.Dir(file)); known && free < st.Size()+signRoom {
		return nil, &fs.PathError{Op: "sign", Path: file, Err: syscall.ENOSPC}
	}
	to := file + ".signed"
	defer func() { _ = os.Remove(to) }()
	args := []string{"sign", "-h", "sha256", "-in", file, "-out", to}
	if s.Key == "" {
		args = append(args, "-pkcs12", s.Cert)
	} else {
		args = append(args, "-certs", s.Cert, "-key", s.Key)
	}
	if s.Timestamp != "" {
		args = append(args, "-ts", s.Timestamp)
	}
	// The password goes through a pipe: arguments are in the list of processes, and in logs.
	if len(s.Password) > 0 {
		args = append(args, "-readpass", "-")
	} else {
		args = append(args, "-pass", "")
	}
	if out, err := s.tool(ctx, args); err != nil {
		return nil, s.why(ctx, out, err)
	}
	if _, err := os.Stat(to); err != nil {
		return nil, s.cannot("osslsigncode ended as if it had signed "+filepath.Base(file)+", and wrote nothing", "", err)
	}
	sig, err := s.verify(ctx, to)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(to, st.Mode().Perm()); err != nil {
		return nil, err
	}
	return sig, os.Rename(to, file)
}

// maxSaid is how much of what osslsigncode says is kept, bytes.
const maxSaid = 64 << 10

// said keeps the beginning of what a program says.
type said struct{ bytes.Buffer }

// Write takes the next bytes; it never fails.
func (s *said) Write(p []byte) (int, error) {
	s.Buffer.Write(p[:min(len(p), maxSaid-s.Len())])
	return len(p), nil
}

// tool runs osslsigncode and returns what it says.
func (s *Signer) tool(ctx context.Context, args []string) (string, error) {
	path, ok := run.LookEnv(s.Env, "PATH")
	if !ok {
		path = os.Getenv("PATH")
	}
	tool, err := run.LookPath("osslsigncode", path)
	if err != nil {
		return "", s.cannot("osslsigncode is not installed", "apt-get install -y osslsigncode", err)
	}
	var out said
	err = run.Run(ctx, run.Cmd{
		Argv: append([]string{tool}, args...), Env: []string{"PATH=" + path, "LC_ALL=C"}, Stdin: bytes.NewReader(s.Password),
		Stdout: &out, Timeout: signLimit, Grace: -1,
	})
	return out.String(), err
}

// why turns what osslsigncode says into a cause: it ends in openssl's own lines, and
// its exit code is the same for all.
func (s *Signer) why(ctx context.Context, out string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c := new(CannotSign); errors.As(err, &c) {
		return err
	}
	has := func(text string) bool { return strings.Contains(out, text) }
	switch {
	case has("Wrong password"), has("Failed to read password"):
		if len(s.Password) == 0 {
			return s.cannot("a password is needed", passwordHint, err)
		}
		return s.cannot("the password is wrong, or the file is none that osslsigncode reads", passwordHint, err)
	case has("consistency of a private key"):
		return s.cannot(fmt.Sprintf("%s is not the key of that certificate", s.Key), "", err)
	case has("timestamping failed"):
		return s.cannot(fmt.Sprintf("the time-stamp server %s gave no time stamp", s.Timestamp),
			"without --sign-timestamp there is none, and the signature ends with the certificate", err)
	}
	var lines []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, ":error:") && line != "Failed" {
			lines = append(lines, line)
		}
	}
	words := strings.Join(lines, "; ")
	if len(s.Password) > 0 { // one that prints it is not osslsigncode
		words = strings.ReplaceAll(words, string(s.Password), "(the password)")
	}
	return s.cannot("osslsigncode: "+cmp.Or(words, err.Error()), "", err)
}

// verify reads the signature of a file, judges its certificate, and lets osslsigncode
// verify it. What goes with the signature, and what the system trusts, counts as
// trusted: whose certificates a user trusts is that user's to say.
func (s *Signer) verify(ctx context.Context, file string) (*binary.Signature, error) {
	sig, err := binary.ReadSignature(ctx, file)
	if err != nil {
		return nil, s.cannot(err.Error(), "", err)
	}
	const another = "sign with a certificate that is for programs and valid"
	now := time.Now()
	switch {
	case now.After(sig.Until):
		return nil, s.cannot(fmt.Sprintf("the certificate of %s expired on %s", sig.Signer,
			sig.Until.UTC().Format(time.DateOnly)), another, nil)
	case now.Before(sig.From):
		return nil, s.cannot(fmt.Sprintf("the certificate of %s is valid from %s on", sig.Signer,
			sig.From.UTC().Format(time.DateOnly)), another, nil)
	case !sig.CodeSigning():
		return nil, s.cannot(fmt.Sprintf("the certificate of %s is not for the signing of programs (extended key usage "+
			"codeSigning)", sig.Signer), another, nil)
	case sig.Fault != "":
		return nil, s.cannot(sig.Fault, "", nil)
	}
	roots := file + ".roots"
	defer func() { _ = os.Remove(roots) }()
	if err := os.WriteFile(roots, trusted(sig), 0o600); err != nil {
		return nil, err
	}
	out, err := s.tool(ctx, []string{
		"verify", "-ignore-crl", "-ignore-cdp", "-CAfile", roots, "-TSA-CAfile", roots,
		"-in", file,
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil || !strings.Contains(out, "Signature verification: ok") {
		return nil, s.cannot(fmt.Sprintf("osslsigncode does not verify what it signed, a certificate of %s issued by %s",
			sig.Signer, sig.Issuer), "put the issuer's certificates, up to the root, behind the signer's", err)
	}
	return sig, nil
}

// trusted are the certificates of a signature and of the system's authorities, as PEM.
func trusted(sig *binary.Signature) []byte {
	var b bytes.Buffer
	for _, c := range sig.Certificates {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // into memory
	}
	for _, file := range systemRoots {
		if f, err := os.Open(file); err == nil {
			_, _ = io.Copy(&b, f)
			_ = f.Close()
			break
		}
	}
	return b.Bytes()
}

// ID tells one way of signing from another; of nil, nothing is signed, it is empty.
func (s *Signer) ID() (string, error) {
	if s == nil {
		return "", nil
	}
	sum, err := build.SumFile(s.Cert)
	return sum + " " + s.Timestamp, err
}

// Signed are the digests of files as they were before they were signed, by name.
type Signed struct {
	Signer   string            `json:"signer,omitempty"`
	Unsigned map[string]string `json:"unsigned,omitempty"`
}

// SignAll signs those of the files in the folder top that are programs and DLLs of
// Windows without a signature, and says so in each; progress, which may be nil, is told of
// each. Of a nil Signer nothing is signed.
func (s *Signer) SignAll(ctx context.Context, top string, files []*binary.File,
	progress func(what string, done, total int64),
) (Signed, error) {
	if s == nil {
		return Signed{}, nil
	}
	out := Signed{Unsigned: map[string]string{}}
	unsigned := slices.DeleteFunc(slices.Clone(files), func(f *binary.File) bool { return f.PE == nil || f.PE.Signed })
	for n, f := range unsigned {
		if progress != nil {
			progress("signing", int64(n), int64(len(unsigned)))
		}
		path := filepath.Join(top, filepath.FromSlash(f.Name))
		var err error
		if out.Unsigned[f.Name], err = build.SumFile(path); err != nil {
			return Signed{}, err
		}
		sig, err := s.sign(ctx, path)
		if err != nil {
			return Signed{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		f.PE.Signed, out.Signer = true, sig.Signer
	}
	return out, nil
}
