package cli

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/publish"
	"github.com/llpatch/llpatch/internal/verify"
)

// tokens reads what hosts know the user by, and takes it out of the environment.
func tokens() (t publish.Tokens, err error) {
	for _, v := range []struct {
		name string
		to   *string
	}{
		{"GH_TOKEN", &t.GitHub},
		{"GITHUB_TOKEN", &t.GitHub},
		{"GITHUB_ENTERPRISE_TOKEN", &t.Enterprise},
		{"GH_ENTERPRISE_TOKEN", &t.Enterprise},
		{"GITEA_TOKEN", &t.Gitea},
	} {
		text, err := secret(v.name)
		if err != nil {
			return t, err
		}
		if word := strings.TrimSpace(string(text)); word != "" {
			*v.to = word
		}
	}
	return t, nil
}

func (a *app) publishCmd() *cobra.Command {
	var to, key, tag, withdraw, why string
	c := &cobra.Command{
		Use: "publish DIR...", Short: "Publish releases, or withdraw one, with an index",
		Long: "Verify the folders that release left, send their files to a draft, compare each\n" +
			"where it arrived, and make the draft public when all are right. After a cut run\n" +
			"the same command again. What is public is never changed. An index of all\n" +
			"releases is kept there, with which.sh and which.cmd, that tell a user the one\n" +
			"file for his machine. --withdraw marks a release; its files stay.\n\n" +
			"The token is taken from GITHUB_TOKEN, GITEA_TOKEN, or GH_ENTERPRISE_TOKEN.",
		Example: "  llpatch publish dist/b8833/linux-cpu --key release.key.pub \\\n    --to https://github.com/OWNER/REPO\n" +
			"  llpatch publish dist/b8833/linux-cpu dist/b8833/linux-cuda \\\n    --key release.key.pub --to /srv/www/llama\n" +
			"  llpatch publish --withdraw b8833-llp1 --why \"It crashes on start.\" \\\n    --to https://github.com/OWNER/REPO",
		Annotations: map[string]string{interrupted: goesOn},
		Args: func(_ *cobra.Command, got []string) error {
			switch {
			case withdraw != "" && len(got) > 0:
				return usage("--withdraw takes no folder")
			case withdraw == "" && len(got) == 0:
				return usage("DIR is missing")
			}
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "where: https://github.com/OWNER/REPO, a Gitea's page of a repository, or a "+
		"folder (its path, or file:///DIR)")
	c.Flags().StringVar(&key, "key", "", "the public key that must have signed the releases: its file, or its one line")
	c.Flags().StringVar(&tag, "tag", "", "the release's name (default: tag and revision, such as b8833-llp1)")
	c.Flags().StringVar(&withdraw, "withdraw", "", "mark this release as withdrawn, in the index and on its page")
	c.Flags().StringVar(&why, "why", "", "the reason for --withdraw, for its users: a sentence")
	c.RunE = func(c *cobra.Command, got []string) error {
		t, err := tokens()
		if err != nil {
			return err
		}
		switch {
		case to == "":
			return usage("--to is missing")
		case (withdraw == "") != (why == ""):
			return usage("--withdraw and --why go together")
		case withdraw != "" && tag != "":
			return usage("--withdraw and --tag are mutually exclusive")
		case tag != "" && !publish.PlainName(tag):
			return usage("--tag %q is no plain name: letters, digits, dot, dash and underscore", tag)
		}
		o := publish.Options{Now: time.Now(), Progress: a.progress.update}
		var sets []*publish.Set
		if withdraw == "" {
			if sets, err = a.readSets(c, got, tag, key); err != nil {
				return err
			}
		}
		at, err := publish.Open(c.Context(), to, t, withdraw != "")
		if err != nil {
			return err
		}
		var all []publish.Done
		if withdraw != "" {
			var d publish.Done
			if d, err = publish.Withdraw(c.Context(), at, withdraw, why, o); err == nil {
				all = append(all, d)
			}
		}
		for _, s := range sets {
			var d publish.Done
			if d, err = publish.Publish(c.Context(), at, s, o); err != nil {
				break
			}
			all = append(all, d)
		}
		if err != nil && len(all) == 0 {
			return err
		}
		return errors.Join(a.print(all, func() string { // also where another one failed: what is public stays so
			var b strings.Builder
			for _, d := range all {
				b.WriteString(d.Text())
			}
			return b.String()
		}), err)
	}
	return c
}

// readSets verifies the folders of releases.
func (a *app) readSets(c *cobra.Command, dirs []string, tag, key string) ([]*publish.Set, error) {
	e, err := a.workspace()
	if err != nil {
		return nil, err
	}
	o := verify.Options{Version: version(), Advisories: e.Repo.Advisories}
	if o.Key, err = publicKey("--key", key); err != nil {
		return nil, err
	}
	sets, err := publish.Read(c.Context(), dirs, tag, o)
	if p := new(fs.PathError); errors.As(err, &p) && errors.Is(err, fs.ErrNotExist) {
		return nil, &usageError{err, missingOr(p.Path, "llpatch release TAG TARGET --key KEY leaves such a folder")}
	}
	return sets, err
}
