package chain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// pending are the pins of tags that recipes/tags.lock does not have, until the
// command has come far enough to know that they are right: a line that is wrong
// stays wrong for every later command.
type pending []pendingPin

type pendingPin struct {
	upstream string
	tag      tag.Tag
	pin      spec.Pin
}

// record writes them into recipes/tags.lock.
func (p pending) record(ctx context.Context, e Workspace) error {
	for _, n := range p {
		if err := e.Records.Pin(ctx, e.Repo, n.upstream, n.tag, n.pin); err != nil {
			return fmt.Errorf("record %s in %s: %w", n.tag, spec.LockFile, err)
		}
		e.Log.Info("recorded in "+spec.LockFile, "tag", n.tag, "upstream", n.upstream)
	}
	return nil
}

// Sources says where trees and history come from.
func (e Workspace) Sources() source.Options {
	return source.Options{
		Cache: e.Cache, Sources: e.Repo.Sources, Lock: e.Repo.Lock, Override: e.Source,
		Locked: e.Locked, Offline: e.Offline, Nearest: e.Nearest, Log: e.Log, Progress: e.Progress,
	}
}

// Fetch gives the verified tree of a tag, and records a tag that is new.
func (e Workspace) Fetch(ctx context.Context, upstream string, t tag.Tag) (*source.Tree, error) {
	var pins pending
	tree, err := e.fetch(ctx, upstream, t, &pins)
	if err != nil {
		return nil, err
	}
	if err := pins.record(ctx, e); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// fetch gives the verified tree of a tag, proven to be of that upstream, and
// adds the pin of a tag that is new to pins.
func (e Workspace) fetch(ctx context.Context, upstream string, t tag.Tag, pins *pending) (*source.Tree, error) {
	if err := e.CheckTag(upstream, t); err != nil {
		return nil, err
	}
	var found pending
	so := e.Sources()
	so.Record = func(upstream string, t tag.Tag, p spec.Pin) error {
		found = append(found, pendingPin{upstream, t, p})
		return nil
	}
	tree, err := source.Fetch(ctx, so, upstream, t)
	if err != nil {
		return nil, err
	}
	if err := e.Repo.CheckTree(upstream, tree.Tag, tree.Has); err != nil {
		return nil, errors.Join(e.withRecord(err, upstream, tree.Tag.String()), tree.Close())
	}
	*pins = append(*pins, found...)
	return tree, nil
}

// CheckTag returns a *spec.WrongUpstream for a release of another upstream, with the
// line of recipes/tags.lock that makes it one.
func (e Workspace) CheckTag(upstream string, t tag.Tag) error {
	err := e.Repo.CheckTag(upstream, t)
	if wrong := new(spec.WrongUpstream); errors.As(err, &wrong) && len(wrong.Pinned) == 0 {
		return e.withRecord(err, wrong.Is, t.String())
	}
	return err
}

// withRecord tells a *spec.WrongUpstream where tags.lock has the entry. One that
// is inside llpatch itself is no line that anybody could remove.
func (e Workspace) withRecord(err error, upstream, name string) error {
	wrong := new(spec.WrongUpstream)
	if !errors.As(err, &wrong) {
		return err
	}
	file := filepath.Join(e.Records.Dir, spec.LockFile)
	data, rerr := os.ReadFile(file)
	if rerr != nil {
		return err
	}
	if line := spec.LockLine(data, upstream, name); line > 0 {
		wrong.Record = fmt.Sprintf("%s:%d", file, line)
	}
	return err
}

// Explain chooses the series of a tag for a target, without fetching anything where the tag's
// build number is known from its name or the lock.
func (e Workspace) Explain(ctx context.Context, t tag.Tag, target string, with,
	without []string,
) (*spec.Series, error) {
	rec, err := e.recipe(target, with, without)
	if err != nil {
		return nil, err
	}
	t = e.Repo.Lock.Named(rec.Upstream, t)
	if err := e.CheckTag(rec.Upstream, t); err != nil {
		return nil, err
	}
	pin, known := e.numbered(rec, t)
	var pins pending
	if !known {
		tree, err := e.fetch(ctx, rec.Upstream, t, &pins)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tree.Close() }()
		pin = tree.Pin
	} else if err := source.CheckGiven(e.Source, rec.Upstream, t); err != nil {
		return nil, err
	}
	s, err := e.Repo.Choose(rec, t.String(), pin)
	if err != nil {
		return nil, err
	}
	return s, pins.record(ctx, e)
}
