package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/llpatch/llpatch/internal/download"
	"github.com/llpatch/llpatch/internal/lint"
	"github.com/llpatch/llpatch/internal/spec"
)

func (a *app) lintCmd() *cobra.Command {
	var o lint.Options
	var draft string
	c := &cobra.Command{
		Use: "lint", Short: "Check that everything declared is true", Args: args(),
		Example: "  llpatch lint\n  llpatch lint --source llama.cpp.git     proves ranges and pins, too",
		RunE: func(c *cobra.Command, _ []string) error {
			repo, records, err := a.declarations()
			if report, ok := lint.LoadFindings(err); ok && err != nil {
				// --json shows the findings of either kind in the same form.
				return errors.Join(a.print(report, report.Text), err)
			}
			if err != nil {
				return err
			}
			if draft != "" {
				return a.draft(c.Context(), draft, repo.Advisories)
			}
			o.Cache, o.Log, o.Progress = records.Cache, a.log, a.progress.update
			report, err := lint.Check(c.Context(), repo, o)
			if err != nil {
				return err
			}
			for _, note := range report.Notes {
				a.log.Warn(note)
			}
			return errors.Join(a.print(report, report.Text), report.Err())
		},
	}
	c.Flags().StringVar(&o.Source, "source", "",
		"a local repository with upstream's tags and history: prove the ranges and the pins on it")
	c.Flags().StringVar(&draft, "draft", "", "instead, print the beginning of an entry of recipes/advisories.toml for "+
		"this record: a file or URL in OSV's format or CVE's")
	exclusive(c, "draft source", "draft json")
	addUpstream(c, &o.Upstream, "whose history that is")
	return c
}

// maxFeed is more than any record has.
const maxFeed = 4 << 20

// draft prints what a public record of a defect says, as an entry that is to be written.
func (a *app) draft(ctx context.Context, name string, known spec.Advisories) error {
	file := name
	if u, err := url.Parse(name); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		dir, err := os.MkdirTemp("", "llpatch-draft-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file = filepath.Join(dir, "record.json")
		if _, err := (download.File{
			Client: http.DefaultClient, URL: u, Name: file, Most: maxFeed,
			Stall: time.Minute,
		}).Get(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFeed {
		return &lint.NotFeed{File: name, Why: "is no file of a record's size"}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := lint.Draft(name, data, known)
	if err == nil {
		_, err = a.stdout.Write(text)
	}
	return err
}
