package authenticode

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/llpatch/llpatch/internal/binary"
)

func inspect(t *testing.T, file string) *binary.File {
	t.Helper()
	f, err := binary.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// openssl runs it in a folder.
func openssl(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl %v: %v\n%s", args, err, out)
	}
}

// keys makes certificates to sign with: of an authority of its own (leaf.pem alone,
// chain.pem with the authority's), one that has expired, one that is for something else,
// and a PKCS#12 file with a password.
func keys(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("osslsigncode"); err != nil {
		t.Skip("no osslsigncode (sh scripts/setup win7): nothing was signed here")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("use", "extendedKeyUsage=codeSigning\n")
	write("password", "pass word\n")
	openssl(t, dir, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "30",
		"-subj", "/CN=Authority")
	openssl(t, dir, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "leaf.key", "-out", "leaf.csr", "-subj",
		"/CN=Makers, Inc")
	for name, args := range map[string][]string{
		"leaf.pem": {"-days", "20", "-extfile", "use"},
		"old.pem":  {"-days", "-1", "-extfile", "use"}, "web.pem": {"-days", "20"},
	} {
		openssl(t, dir, append([]string{
			"x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
			"-CAcreateserial", "-out", name,
		}, args...)...)
	}
	openssl(t, dir, "pkcs12", "-export", "-inkey", "leaf.key", "-in", "leaf.pem", "-certfile", "ca.pem", "-out",
		"leaf.p12", "-passout", "file:password")
	openssl(t, dir, "genrsa", "-out", "other.key", "2048")
	openssl(t, dir, "rsa", "-in", "leaf.key", "-aes256", "-passout", "file:password", "-out", "locked.key")
	var chain []byte
	for _, name := range []string{"leaf.pem", "ca.pem"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, data...)
	}
	write("chain.pem", string(chain))
	return dir
}

// Each way to give a key, and each thing that can be wrong with one, before anything
// is built.
func TestSigning(t *testing.T) {
	dir := keys(t)
	at := func(name string) string {
		if name == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	for name, c := range map[string]struct {
		cert, key, password, timestamp, want, hint string
	}{
		"PKCS#12":                  {cert: "leaf.p12", password: "pass word"},
		"PEM":                      {cert: "chain.pem", key: "leaf.key"},
		"PEM and an encrypted key": {cert: "chain.pem", key: "locked.key", password: "pass word"},
		"a wrong password": {
			cert: "leaf.p12", password: "pass", want: "the password is wrong",
			hint: "LLPATCH_SIGN_PASSWORD",
		},
		"no password":            {cert: "leaf.p12", want: "a password is needed", hint: "--sign-password-file"},
		"a wrong key's password": {cert: "chain.pem", key: "locked.key", password: "pass", want: "the password is wrong"},
		"no key's password": {
			cert: "chain.pem", key: "locked.key",
			want: "locked.key is encrypted and no password was given",
		},
		"another key":      {cert: "chain.pem", key: "other.key", want: "other.key is not the key of that certificate"},
		"expired":          {cert: "old.pem", key: "leaf.key", want: "the certificate of Makers, Inc expired on 20"},
		"not for programs": {cert: "web.pem", key: "leaf.key", want: "is not for the signing of programs"},
		"no issuer": {
			cert: "leaf.pem", key: "leaf.key", want: "a certificate of Makers, Inc issued by Authority",
			hint: "up to the root",
		},
		"no file":        {cert: "none.p12", want: "no such file"},
		"no certificate": {cert: "leaf.key", key: "leaf.key", want: "osslsigncode: "},
		"no time stamp": {
			cert: "chain.pem", key: "leaf.key", timestamp: "http://127.0.0.1:9/",
			want: "the time-stamp server http://127.0.0.1:9/ gave no time stamp", hint: "without --sign-timestamp",
		},
	} {
		s := &Signer{
			Cert: at(c.cert), Key: at(c.key), Password: []byte(c.password), Timestamp: c.timestamp,
			Env: os.Environ(),
		}
		sig, err := s.Check(t.Context())
		if c.want == "" {
			if err != nil || sig.Signer != "Makers, Inc" {
				t.Errorf("%s: %+v, %v", name, sig, err)
			}
			continue
		}
		var cannot *CannotSign
		if !errors.As(err, &cannot) || !strings.Contains(err.Error(), c.want) || !strings.Contains(cannot.Next, c.hint) {
			t.Errorf("%s: %v (hint %v), want %q", name, err, cannot, c.want)
		}
		if err != nil && c.password != "" && strings.Contains(err.Error(), c.password+"\n") {
			t.Errorf("%s: the password is in the error", name)
		}
	}
	s := &Signer{Cert: at("leaf.p12"), Password: []byte("pass word"), Env: []string{"PATH=" + t.TempDir()}}
	var cannot *CannotSign
	if _, err := s.Check(t.Context()); !errors.As(err, &cannot) || cannot.Next != "apt-get install -y osslsigncode" ||
		!strings.Contains(err.Error(), "osslsigncode is not installed") {
		t.Errorf("no osslsigncode: %v", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	s.Env = os.Environ()
	if _, err := s.Check(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("stopped: %v", err)
	}
}

// The password of a key is in no argument of a program, where every user could read it.
func TestSigningPassword(t *testing.T) {
	dir, tools := keys(t), t.TempDir()
	real, err := exec.LookPath("osslsigncode")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(tools, "log")
	if err := os.WriteFile(filepath.Join(tools, "osslsigncode"),
		[]byte("#!/bin/sh\n{ echo \"$@\"; env; } >>"+log+"\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Signer{
		Cert: filepath.Join(dir, "leaf.p12"), Password: []byte("pass word"),
		Env: []string{"LLPATCH_SIGN_PASSWORD=pass word", "PATH=" + tools + ":/usr/bin:/bin"},
	}
	if _, err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "leaf.p12") || strings.Contains(string(text), "pass word") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// A tool that lies, fails, prints the password or does not end its text is said to be at
// fault, in few words, and nothing is left.
func TestBadSigner(t *testing.T) {
	dir := keys(t)
	t.Setenv("TMPDIR", t.TempDir())
	for script, want := range map[string]string{
		`exit 0`:                           "ended as if it had signed trial.exe, and wrote nothing",
		`read -r p; echo "got $p"; exit 1`: "osslsigncode: got (the password)",
		`for i; do [ "$o" = -out ] && echo half >"$i"; o=$i; done`: "trial.exe.signed",
		`yes a-line-of-it | head -c 200000000; exit 1`:             "a-line-of-it",
	} {
		tools := t.TempDir()
		if err := os.WriteFile(filepath.Join(tools, "osslsigncode"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := &Signer{
			Cert: filepath.Join(dir, "leaf.p12"), Password: []byte("pass word"),
			Env: []string{"PATH=" + tools + ":/usr/bin:/bin"},
		}
		_, err := s.Check(t.Context())
		if cannot := new(CannotSign); !errors.As(err, &cannot) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "pass word") || len(err.Error()) > 2*maxSaid {
			t.Errorf("%s: %.300v", script, err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	pipe := filepath.Join(dir, "pipe.p12")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Signer{{Cert: pipe}, {Cert: filepath.Join(dir, "chain.pem"), Key: pipe}} {
		if _, err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(),
			"pipe.p12: it is not a regular file") {
			t.Errorf("a pipe: %v", err)
		}
	}
}

// A disk without room for a signed copy is called full, and the file stays as it was.
func TestSignFullDisk(t *testing.T) {
	dir, disk := keys(t), filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: no small disk can be made here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	file := filepath.Join(disk, "app.exe")
	if err := os.WriteFile(file, trialProgram(), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Signer{Cert: filepath.Join(dir, "chain.pem"), Key: filepath.Join(dir, "leaf.key"), Env: os.Environ()}
	if _, err := s.sign(t.Context(), file); !errors.Is(err, syscall.ENOSPC) ||
		!strings.Contains(err.Error(), "app.exe: no space left on device") {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(trialProgram()) {
		t.Errorf("the file was changed: %v", err)
	}
}

// Signed files are the same but for their signature, which the digest tells; what has
// a signature keeps it.
func TestSignAll(t *testing.T) {
	dir, top := keys(t), t.TempDir()
	s := &Signer{Cert: filepath.Join(dir, "chain.pem"), Key: filepath.Join(dir, "leaf.key"), Env: os.Environ()}
	var files []*binary.File
	for _, name := range []string{"app.exe", "helper.dll"} {
		data, err := os.ReadFile(filepath.Join("../binary/testdata/pe", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
		files = append(files, inspect(t, filepath.Join(top, name)))
	}
	if err := os.WriteFile(filepath.Join(top, "theirs.exe"), trialProgram(), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.sign(t.Context(), filepath.Join(top, "theirs.exe")); err != nil {
		t.Fatal(err)
	}
	files = append(files, inspect(t, filepath.Join(top, "theirs.exe")), &binary.File{Name: "README.md"})
	before, err := os.ReadFile(filepath.Join(top, "theirs.exe"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.SignAll(t.Context(), top, files, nil)
	if err != nil || got.Signer != "Makers, Inc" || len(got.Unsigned) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, f := range files[:3] {
		sig, err := binary.ReadSignature(t.Context(), filepath.Join(top, f.Name))
		if err != nil || sig.Fault != "" || !f.PE.Signed {
			t.Errorf("%s: %+v, %v", f.Name, sig, err)
		}
		if st, err := os.Stat(filepath.Join(top, f.Name)); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", f.Name, st, err)
		}
	}
	if after, err := os.ReadFile(filepath.Join(top, "theirs.exe")); err != nil || string(after) != string(before) {
		t.Errorf("a signed file was signed again: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(top, "*.signed*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
