package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/trust"
	"github.com/llpatch/llpatch/internal/verify"
)

func (a *app) verifyCmd() *cobra.Command {
	var key, expect, index string
	c := &cobra.Command{
		Use: "verify ARCHIVE-or-FOLDER", Short: "Say what can be proven of an archive, offline",
		Long: "Say whose word stands for an archive, that nothing in it was changed, and that\n" +
			"it is what it says it is. It runs nothing and asks no network. It ends with 0\n" +
			"where all is proven by the key, with 6 where something is wrong, and with 7\n" +
			"where nothing is wrong and not all of it proven, as without a key.",
		Args: args("ARCHIVE-or-FOLDER"),
		Example: "  llpatch verify llama-b8833-llp1-bin-linux-cpu-x64.tar.gz --key release.key.pub\n" +
			"  llpatch verify dist/b8833/linux-cpu --key release.key.pub --expect b8833",
	}
	c.Flags().StringVar(&key, "key", "", "the public key of whom you trust: its file, or its one line")
	c.Flags().StringVar(&expect, "expect", "", "the tag that it must be of: an older release, though signed, is not it")
	c.Flags().StringVar(&index, "index", "", "index.json of where it was published: a withdrawn release, or an older one that is not expected, is not it")
	c.RunE = func(c *cobra.Command, got []string) error {
		e, err := a.workspace()
		if err != nil {
			return err
		}
		o := verify.Options{Expect: expect, Version: version(), Advisories: e.Repo.Advisories}
		if o.Key, err = publicKey(key); err != nil {
			return err
		}
		if index != "" {
			data, err := regular.ReadFile(index)
			if err != nil {
				return usage("--index: %w", err)
			}
			x, err := bundle.ReadIndex(data)
			if err != nil {
				return usage("--index: %s cannot be used: %w", index, err)
			}
			o.Index = &x
		}
		reports, err := verify.Path(c.Context(), got[0], o)
		if errors.Is(err, fs.ErrNotExist) {
			return &usageError{err, missing(got[0])}
		}
		if err != nil {
			return err
		}
		var errs []error
		for _, r := range reports {
			errs = append(errs, r.Err())
		}
		return errors.Join(a.print(reports, func() string {
			var texts []string
			for _, r := range reports {
				texts = append(texts, r.Text())
			}
			return strings.Join(texts, "\n")
		}), errors.Join(errs...))
	}
	return c
}

// publicKey reads what --key gives of whom the user trusts: a file or a line, nil where it is empty.
func publicKey(key string) (*trust.PublicKey, error) {
	if key == "" {
		return nil, nil
	}
	text, name := []byte(key), "the key given by --key"
	if file, err := regular.ReadFile(key); err == nil {
		text, name = file, key
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, usage("--key: %w", err)
	}
	p, err := trust.ReadPublicKey(text)
	return &p, named(err, name)
}
