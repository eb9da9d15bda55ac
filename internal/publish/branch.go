package publish

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/google/go-github/v88/github"
)

// indexBranch is where a host keeps the index: a release's own files are never replaced, and the
// branch's history shows what an index said before.
const indexBranch = "llpatch-index"

func (h *host) home() string {
	if h.gitea {
		return h.web.String() + "/src/branch/" + indexBranch
	}
	return h.web.String() + "/tree/" + indexBranch
}

func gone(err error) bool {
	said := new(github.ErrorResponse)
	return errors.As(err, &said) && said.Response.StatusCode == http.StatusNotFound
}

// ask asks a host for a path below the repository.
func (h *host) ask(ctx context.Context, method, path, accept string, body, into any) error {
	req, err := h.c.NewRequest(ctx, method, fmt.Sprintf("repos/%s/%s/%s", h.owner, h.repo, path), body)
	if err != nil {
		return err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	_, err = h.c.Do(req, into)
	return err
}

func (h *host) index(ctx context.Context) (data []byte, err error) {
	h.head, h.tree = "", ""
	err = h.try(ctx, nil, func(ctx context.Context) error {
		if h.gitea {
			var file struct {
				SHA     string `json:"sha"`
				Content []byte `json:"content"`
			}
			err := h.ask(ctx, http.MethodGet, "contents/"+indexFile+"?ref="+indexBranch, "", nil, &file)
			h.head, data = file.SHA, file.Content
			return err
		}
		ref, _, err := h.c.Git.GetRef(ctx, h.owner, h.repo, "heads/"+indexBranch)
		if err != nil {
			return err
		}
		h.head = ref.GetObject().GetSHA()
		commit, _, err := h.c.Git.GetCommit(ctx, h.owner, h.repo, h.head)
		if err != nil {
			return err
		}
		h.tree = commit.GetTree().GetSHA()
		var b bytes.Buffer
		err = h.ask(ctx, http.MethodGet, "contents/"+indexFile+"?ref="+h.head, "application/vnd.github.raw+json", nil,
			io.Writer(&b))
		data = b.Bytes()
		return err
	})
	if refused := new(Refused); errors.As(err, &refused) && gone(refused.cause) {
		return nil, nil // there is no such branch or file; where it is the repository that is not there, look says so
	}
	return data, err
}

// setIndex writes the files as one commit on what index read. Where somebody else published
// meanwhile, the host refuses it.
func (h *host) setIndex(ctx context.Context, files map[string][]byte, why string) error {
	return h.try(ctx, nil, func(ctx context.Context) error {
		if h.gitea {
			return h.changeFiles(ctx, files, why)
		}
		var entries []*github.TreeEntry
		for _, name := range slices.Sorted(maps.Keys(files)) {
			entries = append(entries, &github.TreeEntry{
				Path: &name, Mode: github.Ptr("100644"), Type: github.Ptr("blob"),
				Content: github.Ptr(string(files[name])),
			})
		}
		tree, _, err := h.c.Git.CreateTree(ctx, h.owner, h.repo, h.tree, entries)
		if err != nil {
			return err
		}
		commit := github.Commit{Message: &why, Tree: tree}
		if h.head != "" {
			commit.Parents = []*github.Commit{{SHA: &h.head}}
		}
		made, _, err := h.c.Git.CreateCommit(ctx, h.owner, h.repo, commit, nil)
		if err != nil {
			return err
		}
		if h.head == "" {
			_, _, err = h.c.Git.CreateRef(ctx, h.owner, h.repo, github.CreateRef{
				Ref: "refs/heads/" + indexBranch,
				SHA: made.GetSHA(),
			})
		} else {
			_, _, err = h.c.Git.UpdateRef(ctx, h.owner, h.repo, "heads/"+indexBranch,
				github.UpdateRef{SHA: made.GetSHA(), Force: github.Ptr(false)})
		}
		return err
	})
}

// changeFiles is a commit as Gitea makes one. A first one makes the branch, from the default one.
func (h *host) changeFiles(ctx context.Context, files map[string][]byte, why string) error {
	type change struct {
		Operation string `json:"operation"`
		Path      string `json:"path"`
		Content   string `json:"content"`
		SHA       string `json:"sha,omitempty"`
	}
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c := change{"upload", name, base64.StdEncoding.EncodeToString(files[name]), ""}
		if name == indexFile && h.head != "" {
			c.Operation, c.SHA = "update", h.head
		}
		changes = append(changes, c)
	}
	body := map[string]any{"message": why, "files": changes}
	if err := h.ask(ctx, http.MethodGet, "branches/"+indexBranch, "", nil, nil); gone(err) {
		body["new_branch"] = indexBranch
	} else if err != nil {
		return err
	} else {
		body["branch"] = indexBranch
	}
	return h.ask(ctx, http.MethodPost, "contents", "", body, nil)
}
