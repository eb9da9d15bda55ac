package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/llpatch/llpatch/internal/atomicfile"
	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/trust"
)

// The variables that give a key, and its password, where there is no file: in CI.
const (
	keyEnv          = "LLPATCH_KEY"
	keyPasswordEnv  = "LLPATCH_KEY_PASSWORD"
	keyPasswordFlag = "key-password-file"
)

// secret reads a variable, and takes it away so that no program that is run gets it.
func secret(name string) ([]byte, error) {
	text := os.Getenv(name)
	return []byte(text), os.Unsetenv(name)
}

// forgetKeys takes the variables of keys away from a command that does not sign: one that does
// reads them before it runs a program, and any other may run programs that they are none of the
// business of.
func forgetKeys(root *cobra.Command, args []string) error {
	if c, _, err := root.Find(args); err == nil && c.Flags().Lookup(keyPasswordFlag) != nil {
		return nil
	}
	return errors.Join(os.Unsetenv(keyEnv), os.Unsetenv(keyPasswordEnv))
}

// keyFlags are those that sign; what it returns reads them, nil where nothing signs.
func keyFlags(c *cobra.Command, name, help string) func() (*trust.Key, error) {
	var file, passwordFile string
	c.Flags().StringVar(&file, name, "", help+
		" with this key, as llpatch key new makes it (default: the text in the variable "+keyEnv+", if any)")
	passwordFlag(c, &passwordFile)
	return func() (*trust.Key, error) {
		text, err := secret(keyEnv)
		if err != nil {
			return nil, err
		}
		password, err := keyPassword(c.Context(), passwordFile)
		switch {
		case err != nil:
			return nil, err
		case file == "" && len(bytes.TrimSpace(text)) == 0:
			if passwordFile != "" {
				return nil, usage("--key-password-file goes with --%s", name)
			}
			return nil, nil
		case file == "":
			k, err := trust.ReadKey(text, password)
			return &k, named(err, "the variable "+keyEnv)
		}
		k, err := readKey(file, password)
		return &k, err
	}
}

func passwordFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, keyPasswordFlag, "", "file whose first line is the key's password (default: the variable "+
		keyPasswordEnv+", else a question)")
}

// keyPassword is the password that a file or the variable gives, empty where neither does.
func keyPassword(ctx context.Context, file string) ([]byte, error) {
	password, err := secret(keyPasswordEnv)
	if err == nil && file != "" {
		if password, err = firstLine(ctx, file); err != nil {
			return nil, usage("--key-password-file: %w", err)
		}
	}
	return password, err
}

// readKey reads a key file, and asks the terminal for a password that is needed and not given.
func readKey(file string, password []byte) (trust.Key, error) {
	text, err := regular.ReadFile(file)
	if err != nil {
		return trust.Key{}, usage("%w", err)
	}
	k, err := trust.ReadKey(text, password)
	if err != nil && len(password) == 0 && trust.Locked(text) && term.IsTerminal(int(os.Stdin.Fd())) {
		if password, err = ask("password of " + patch.Printable(file)); err == nil {
			k, err = trust.ReadKey(text, password)
		}
	}
	return k, named(err, file)
}

// named gives an unusable key the name that the user knows it by.
func named(err error, file string) error {
	if bad := new(trust.BadKey); errors.As(err, &bad) {
		bad.File = file
	}
	return err
}

// ask reads a line from the terminal and does not show it.
func ask(what string) ([]byte, error) {
	fmt.Fprintf(os.Stderr, "%s: ", what)
	line, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	return line, err
}

func (a *app) keyCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "Make and show the key that signs releases",
		Long: "A key is an Ed25519 key in minisign's form. Its file is secret; FILE.pub beside\nit is for everybody, who " +
			"verifies with it: llpatch verify, or minisign -V.",
	}
	c.AddCommand(a.keyNewCmd(), a.keyPublicCmd(), a.keyRotateCmd())
	return c
}

// newKeyFlags are how a new key is locked; what it returns gives the password, nil for none.
func newKeyFlags(c *cobra.Command) func() ([]byte, error) {
	var file string
	var bare bool
	passwordFlag(c, &file)
	c.Flags().BoolVar(&bare, "no-password", false, "write the key without a password: whoever can read the file can sign")
	return func() ([]byte, error) {
		password, err := keyPassword(c.Context(), file)
		switch {
		case err != nil || bare && len(password) == 0:
			return nil, err
		case bare:
			return nil, usage("--no-password, and a password was given")
		case len(password) > 0:
			return password, nil
		case !term.IsTerminal(int(os.Stdin.Fd())):
			return nil, usage("a key has a password: give --key-password-file FILE or the variable " + keyPasswordEnv +
				", or say --no-password")
		}
		first, err := ask("password")
		if err != nil {
			return nil, err
		}
		again, err := ask("once more")
		if err == nil && !bytes.Equal(first, again) {
			err = usage("the two passwords differ; no key was made")
		}
		if err == nil && len(first) == 0 {
			err = usage("the password is empty; --no-password makes a key without one")
		}
		return first, err
	}
}

// newKey is what a command that makes a key tells.
type newKey struct {
	File   string `json:"file"`
	Public string `json:"public"` // the line of the public key
	ID     string `json:"id"`
}

// writeKey writes a key and its public half, over nothing that is there.
func writeKey(k trust.Key, file string, password []byte) (newKey, error) {
	for _, name := range []string{file, file + trust.PublicSuffix} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return newKey{}, usage("%s is there already, and a key is never written over; give another name", name)
		}
	}
	text, err := k.Text(password)
	if err != nil {
		return newKey{}, err
	}
	if err := atomicfile.WriteFile(file, text, 0o600); err != nil {
		return newKey{}, err
	}
	if err := atomicfile.WriteFile(file+trust.PublicSuffix, k.Public().Text(), 0o644); err != nil {
		return newKey{}, errors.Join(err, os.Remove(file))
	}
	return newKey{file, k.Public().String(), k.Public().Name()}, nil
}

func (n newKey) text() string {
	file := patch.Printable(n.File)
	return fmt.Sprintf("%s  keep it, and a copy elsewhere; it signs\n%s%s  give it to everybody; key %s\n", file,
		file, trust.PublicSuffix, n.ID)
}

func (a *app) keyNewCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "new FILE", Short: "Make a key, and FILE.pub for who verifies",
		Args:    args("FILE"),
		Example: "  llpatch key new release.key",
	}
	password := newKeyFlags(c)
	c.RunE = func(_ *cobra.Command, got []string) error {
		locked, err := password()
		if err != nil {
			return err
		}
		k, err := trust.NewKey()
		if err != nil {
			return err
		}
		made, err := writeKey(k, got[0], locked)
		if err != nil {
			return err
		}
		return a.print(made, made.text)
	}
	return c
}

func (a *app) keyPublicCmd() *cobra.Command {
	var passwordFile string
	c := &cobra.Command{
		Use: "public FILE", Short: "Show the public half of a key",
		Args:    args("FILE"),
		Example: "  llpatch key public release.key",
	}
	passwordFlag(c, &passwordFile)
	c.RunE = func(c *cobra.Command, got []string) error {
		password, err := keyPassword(c.Context(), passwordFile)
		if err != nil {
			return err
		}
		k, err := readKey(got[0], password)
		if err != nil {
			return err
		}
		p := k.Public()
		return a.print(newKey{got[0], p.String(), p.Name()}, func() string { return string(p.Text()) })
	}
	return c
}

func (a *app) keyRotateCmd() *cobra.Command {
	var oldPasswordFile string
	c := &cobra.Command{
		Use: "rotate OLD NEW", Short: "Make a key that takes the place of another, which signs it",
		Long: "Make the key NEW, and sign NEW.pub with OLD: NEW.pub.minisig. Laid beside a\n" +
			"release, both let those who have OLD.pub verify what NEW signed.",
		Args:    args("OLD", "NEW"),
		Example: "  llpatch key rotate release.key release-2.key",
	}
	c.Flags().StringVar(&oldPasswordFile, "old-password-file", "",
		"file whose first line is OLD's password (default: a question)")
	password := newKeyFlags(c)
	c.RunE = func(c *cobra.Command, got []string) error {
		var oldPassword []byte
		if oldPasswordFile != "" {
			var err error
			if oldPassword, err = firstLine(c.Context(), oldPasswordFile); err != nil {
				return usage("--old-password-file: %w", err)
			}
		}
		old, err := readKey(got[0], oldPassword)
		if bad := new(trust.BadKey); errors.As(err, &bad) && bad.Locked {
			return &usageError{err, "give its password: --old-password-file FILE"}
		}
		if err != nil {
			return err
		}
		locked, err := password()
		if err != nil {
			return err
		}
		k, err := trust.NewKey()
		if err != nil {
			return err
		}
		succession, err := old.Succeed(k.Public())
		if err != nil {
			return err
		}
		if _, err := os.Lstat(got[1] + trust.PublicSuffix + trust.SignatureSuffix); !errors.Is(err, fs.ErrNotExist) {
			return usage("%s is there already; give another name", got[1]+trust.PublicSuffix+trust.SignatureSuffix)
		}
		made, err := writeKey(k, got[1], locked)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteFile(got[1]+trust.PublicSuffix+trust.SignatureSuffix, succession, 0o644); err != nil {
			return err
		}
		return a.print(made, func() string {
			public := patch.Printable(got[1]) + trust.PublicSuffix
			return fmt.Sprintf("%s%s%s  lay it and %s beside each release\n", made.text(), public, trust.SignatureSuffix, public)
		})
	}
	return c
}
