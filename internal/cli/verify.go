package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/chain"
	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/trust"
	"github.com/llpatch/llpatch/internal/verify"
)

func (a *app) verifyCmd() *cobra.Command {
	var key, expect, index string
	var builders []string
	var again rebuild
	var host attestation
	c := &cobra.Command{
		Use: "verify ARCHIVE-or-FOLDER", Short: "Say what can be proven of an archive, offline",
		Long: "Say whose word stands for an archive, that nothing in it was changed, and that\n" +
			"it is what it says it is. It runs nothing and asks no network. It ends with 0\n" +
			"where all is proven by the key, with 6 where something is wrong, and with 7\n" +
			"where nothing is wrong and not all of it proven, as without a key.\n\n" +
			"--rebuild builds it again, with the tools, the buildenv and the options that its\n" +
			"BUILD_INFO.json names, and compares every file, section by section where bits\n" +
			"differ. Where that cannot be done here it says so before it builds, and ends\n" +
			"with 7 (8: the source is not to be had). --sign-as signs a statement of what\n" +
			"came out, for the publisher to lay beside the archive.\n\n" +
			"--attestation reads what GitHub states of an archive of upstream's, as its API\n" +
			"or `gh attestation download` gives it, with the authorities of Sigstore that\n" +
			"--trusted-root names, as `gh attestation trusted-root` prints them.",
		Args: args("ARCHIVE-or-FOLDER"),
		Example: "  llpatch verify llama-b8833-llp1-bin-linux-cpu-x64.tar.gz --key release.key.pub\n" +
			"  llpatch verify dist/b8833/linux-cpu --key release.key.pub --expect b8833\n" +
			"  llpatch verify llama-b8833-llp1-bin-linux-cpu-x64.tar.gz --rebuild",
	}
	c.Flags().StringVar(&key, "key", "", "the public key of whom you trust: its file, or its one line")
	c.Flags().StringVar(&expect, "expect", "", "the tag that it must be of: an older release, though signed, is not it")
	c.Flags().StringVar(&index, "index", "",
		"index.json of where it was published: a withdrawn release, or an older one that is not expected, is not it")
	c.Flags().StringArrayVar(&builders, "builder", nil,
		"the public key of a second builder whom you trust, its file or its one line; may be repeated")
	again.flags(a, c)
	host.flags(c)
	c.RunE = func(c *cobra.Command, got []string) error {
		e, err := a.workspace()
		if err != nil {
			return err
		}
		if err := again.check(a, c, got[0]); err != nil {
			return err
		}
		o := verify.Options{
			Expect: expect, Version: version(), Advisories: e.Repo.Advisories,
			Commit: e.Repo.Lock[spec.LlamaCpp][expect].Commit,
		}
		if o.Key, err = publicKey("--key", key); err != nil {
			return err
		}
		for _, builder := range builders {
			p, err := publicKey("--builder", builder)
			if err != nil {
				return err
			}
			if p != nil {
				o.Builders = append(o.Builders, *p)
			}
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
		if o.Attestation, err = host.read(); err != nil {
			return err
		}
		reports, err := verify.Path(c.Context(), got[0], o)
		if errors.Is(err, fs.ErrNotExist) {
			return &usageError{err, missingOr(got[0], exit.Hint(&verify.NotArchive{}))}
		}
		if err != nil {
			return err
		}
		var errs []error
		for _, r := range reports {
			err := r.Err()
			if again.wanted {
				// A second build that did not come about says more than what was not proven; something
				// wrong says more than that.
				if failed := again.build(c.Context(), a, e, r); failed == nil {
					err = r.Err()
				} else if !errors.As(err, new(*verify.Failed)) {
					err = failed
				} else {
					err = errors.Join(err, failed)
				}
			}
			errs = append(errs, err)
		}
		return errors.Join(a.print(reports, func() string {
			var texts []string
			for _, r := range reports {
				texts = append(texts, rebuiltText(r.Rebuilt)+r.Text())
			}
			return strings.Join(texts, "\n")
		}), errors.Join(errs...))
	}
	return c
}

// publicKey reads the public key that a flag gives: its file, or its one line; nil where it gives none.
func publicKey(flag, key string) (*trust.PublicKey, error) {
	if key == "" {
		return nil, nil
	}
	text, name := []byte(key), "the key given by "+flag
	if file, err := regular.ReadFile(key); err == nil {
		text, name = file, key
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, usage("%s: %w", flag, err)
	}
	p, err := trust.ReadPublicKey(text)
	if err != nil && name != key && !lineRE.MatchString(key) { // it was meant for a file
		return nil, &usageError{
			fmt.Errorf("%s: %s is not there, and is no public key itself", flag, key),
			missingOr(key, publicHint),
		}
	}
	if err != nil {
		return nil, &usageError{named(err, name), publicHint}
	}
	return &p, nil
}

const publicHint = "it takes FILE.pub, as llpatch key new makes it beside FILE, or the line in it that begins with RW"

// lineRE is what a public key looks like, and a path hardly.
var lineRE = regexp.MustCompile(`^RW[A-Za-z0-9+/=]{40,}$`)

// rebuild is what the flags of verify say of a second build.
type rebuild struct {
	wanted bool
	key    func() (*trust.Key, error)
	signer *trust.Key
}

// rebuildDir is the folder of --out in which archives are built again: never in that of a release.
const rebuildDir = "rebuild"

func (r *rebuild) flags(a *app, c *cobra.Command) {
	c.Flags().BoolVar(&r.wanted, "rebuild", false, "build it again below --out, and compare")
	a.exactSourceFlags(c)
	r.key = keyFlags(c, "sign-as", "sign a statement of what --rebuild came to")
}

// check reads the key, and refuses flags that go with --rebuild alone.
func (r *rebuild) check(a *app, c *cobra.Command, name string) (err error) {
	for _, flag := range []string{"source", "locked", "offline", "sign-as", "key-password-file"} {
		if c.Flags().Changed(flag) && !r.wanted {
			return usage("--%s goes with --rebuild", flag)
		}
	}
	if !r.wanted {
		return nil
	}
	if err := checkOut(a.out); err != nil {
		return err
	}
	own, err := filepath.Abs(filepath.Join(a.out, rebuildDir))
	if err != nil {
		return err
	}
	if name, err = filepath.Abs(name); err != nil {
		return err
	}
	if below, err := filepath.Rel(own, name); err == nil && filepath.IsLocal(below) {
		return usage("%s is where --rebuild builds: what lies there was not made by anybody else; copy it elsewhere, or "+
			"give another --out", own)
	}
	r.signer, err = r.key()
	return err
}

// build builds one archive again.
func (r *rebuild) build(ctx context.Context, a *app, e chain.Workspace, report *verify.Report) error {
	if err := report.CanRebuild(); err != nil {
		return err
	}
	e.Out = filepath.Join(a.out, rebuildDir)
	order, err := chain.Again(e, report.Manifest())
	machine := chain.Machine{Builds: true}
	if name := report.Manifest().Buildenv; err == nil && name != "" {
		if machine.Root, machine.Libraries, err = a.buildenvs(e, name); err != nil {
			err = chain.Unless(ctx, order, err)
		}
	}
	if err == nil {
		err = report.Rebuild(ctx, e, order, machine, r.signer)
	}
	if err == nil && report.Rebuilt.Statement != "" {
		a.log.Info("stated", "file", report.Rebuilt.Statement)
	}
	return err
}

// rebuiltText is where the given archive (A) and the second one (B) differ, empty where they do not.
func rebuiltText(b *verify.Rebuild) string {
	if b == nil || len(b.Allowed)+len(b.Differ) == 0 {
		return ""
	}
	text := fmt.Sprintf("A is what was given, B is %s\n", shown(b.Archive))
	for _, a := range b.Allowed {
		text += fmt.Sprintf("%s: may differ: %s\n", shown(a.Path), printable(a.Why))
	}
	return text + compareText(&binary.Comparison{Same: b.Same, Differ: b.Differ})
}

// attestation is what the flags of verify say of a host's statement.
type attestation struct{ file, root, repository string }

func (h *attestation) flags(c *cobra.Command) {
	c.Flags().StringVar(&h.file, "attestation", "",
		"Sigstore bundles of the archive, as GitHub gives them; needs --trusted-root")
	c.Flags().StringVar(&h.root, "trusted-root", "", "whom --attestation is checked by: trusted roots of Sigstore")
	c.Flags().StringVar(&h.repository, "repository", verify.UpstreamRepository,
		"the OWNER/REPO on GitHub whose workflow must have made it")
}

func (h *attestation) read() (*verify.Attestation, error) {
	switch {
	case h.file == "" && h.root == "":
		return nil, nil
	case h.file == "":
		return nil, usage("--trusted-root goes with --attestation")
	case h.root == "":
		return nil, usage("--attestation needs --trusted-root FILE: gh attestation trusted-root prints one")
	}
	bundles, err := regular.ReadFile(h.file)
	if err != nil {
		return nil, usage("--attestation: %w", err)
	}
	roots, err := regular.ReadFile(h.root)
	if err != nil {
		return nil, usage("--trusted-root: %w", err)
	}
	a, err := verify.ReadAttestation(bundles, roots, h.repository)
	if err != nil {
		return nil, usage("%s, %s: %w", h.file, h.root, err)
	}
	return a, nil
}
