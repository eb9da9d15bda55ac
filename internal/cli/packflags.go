package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
)

// packFlags are for a command that ends in an archive; check looks at its other flags.
func (a *app) packFlags(c *cobra.Command, check func() error) *cobra.Command {
	c.Flags().StringVar(&a.runtime, "bundle", "",
		"thin: the user's machine has the toolkit's libraries; full: they are inside (default: as the recipe says)")
	c.Flags().Int64Var(&a.partMiB, "part-size", bundle.DefaultPartMiB,
		"a larger archive is also given in parts of so many MiB")
	sign, key := signFlags(c), keyFlags(c, "key", "sign the release")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("without") && c.Flags().Changed("require-cures") {
			return usage("--without and --require-cures are mutually exclusive")
		}
		if a.runtime != "" && a.runtime != spec.Thin && a.runtime != spec.Full {
			return usage("--bundle is %s or %s, not %q", spec.Thin, spec.Full, a.runtime)
		}
		if a.partMiB < 1 || a.partMiB > bundle.MaxPartMiB {
			return usage("--part-size is %d; it must be 1 to %d", a.partMiB, bundle.MaxPartMiB)
		}
		err := check()
		if err == nil {
			a.sign, err = sign()
		}
		if err == nil {
			a.key, err = key()
		}
		return err
	}
	return c
}

// passwordEnv names the variable with the password of the key to sign with.
const passwordEnv = "LLPATCH_SIGN_PASSWORD"

// signFlags are those that sign programs for Windows; what it returns reads them, nil
// where nothing is to be signed.
func signFlags(c *cobra.Command) func() (*authenticode.Signer, error) {
	var s authenticode.Signer
	var file string
	c.Flags().StringVar(&s.Cert, "sign", "", "sign programs for Windows (Authenticode) with this certificate: a "+
		"PKCS#12 file (.p12, .pfx), or PEM with --sign-key")
	c.Flags().StringVar(&s.Key, "sign-key", "", "the PEM private key of the certificate")
	c.Flags().StringVar(&file, "sign-password-file", "",
		"file whose first line is the password of the key (default: the variable "+passwordEnv+")")
	c.Flags().StringVar(&s.Timestamp, "sign-timestamp", "",
		"URL of an RFC 3161 server that says when it was signed, so that the signature outlives the certificate")
	return func() (*authenticode.Signer, error) {
		if s.Cert == "" {
			for _, name := range []string{"sign-key", "sign-password-file", "sign-timestamp"} {
				if c.Flags().Changed(name) {
					return nil, usage("--%s goes with --sign", name)
				}
			}
			return nil, nil
		}
		pkcs12 := slices.Contains([]string{".p12", ".pfx"}, strings.ToLower(filepath.Ext(s.Cert)))
		if pkcs12 == (s.Key != "") {
			return nil, usage("--sign takes a .p12 or .pfx file, which has its key in it, or PEM certificates with --sign-key")
		}
		s.Password = []byte(os.Getenv(passwordEnv))
		if err := os.Unsetenv(passwordEnv); err != nil { // no program that is run gets it
			return nil, err
		}
		s.Env = os.Environ()
		if file != "" {
			line, err := firstLine(c.Context(), file)
			if err != nil {
				return nil, usage("--sign-password-file: %w", err)
			}
			s.Password = line
		}
		return &s, nil
	}
}

// maxLine bounds what firstLine reads, bytes.
const maxLine = 64 << 10

// firstLine reads the first line of a file, which may be a pipe: a shell's <(...) is one.
func firstLine(ctx context.Context, file string) ([]byte, error) {
	type result struct {
		line []byte
		err  error
	}
	came := make(chan result, 1)
	go func() { // nothing ends the opening of a pipe to which nobody writes
		f, err := os.Open(file)
		if err != nil {
			came <- result{err: err}
			return
		}
		defer func() { _ = f.Close() }() // only read from
		line, err := bufio.NewReader(io.LimitReader(f, maxLine)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err == nil && len(line) == maxLine {
			err = fmt.Errorf("the first line of %s has more than %d bytes", file, maxLine-1)
		}
		came <- result{bytes.TrimRight(line, "\r\n"), err}
	}()
	select {
	case r := <-came:
		return r.line, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
