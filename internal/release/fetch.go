package release

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
func (p pending) record(ctx context.Context, o Options) error {
	for _, n := range p {
		if err := o.Records.Pin(ctx, o.Repo, n.upstream, n.tag, n.pin); err != nil {
			return fmt.Errorf("record %s in %s: %w", n.tag, spec.LockFile, err)
		}
		o.Log.Info("recorded in "+spec.LockFile, "tag", n.tag, "upstream", n.upstream)
	}
	return nil
}

// Fetch gives the verified tree of a tag, and records a tag that is new.
func (o Options) Fetch(ctx context.Context, upstream string, t tag.Tag) (*source.Tree, error) {
	var pins pending
	tree, err := o.fetch(ctx, upstream, t, &pins)
	if err != nil {
		return nil, err
	}
	if err := pins.record(ctx, o); err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	return tree, nil
}

// fetch gives the verified tree of a tag, proven to be of that upstream, and
// adds the pin of a tag that is new to pins.
func (o Options) fetch(ctx context.Context, upstream string, t tag.Tag, pins *pending) (*source.Tree, error) {
	if err := o.CheckTag(upstream, t); err != nil {
		return nil, err
	}
	var found pending
	so := o.source()
	so.Record = func(upstream string, t tag.Tag, p spec.Pin) error {
		found = append(found, pendingPin{upstream, t, p})
		return nil
	}
	tree, err := source.Fetch(ctx, so, upstream, t)
	if err != nil {
		return nil, err
	}
	if err := o.Repo.CheckTree(upstream, tree.Tag, tree.Has); err != nil {
		return nil, errors.Join(o.withRecord(err, upstream, tree.Tag.String()), tree.Close())
	}
	*pins = append(*pins, found...)
	return tree, nil
}

// CheckTag returns a *spec.WrongUpstream for a release of another upstream, with the
// line of recipes/tags.lock that makes it one.
func (o Options) CheckTag(upstream string, t tag.Tag) error {
	err := o.Repo.CheckTag(upstream, t)
	if wrong := new(spec.WrongUpstream); errors.As(err, &wrong) && len(wrong.Pinned) == 0 {
		return o.withRecord(err, wrong.Is, t.String())
	}
	return err
}

// withRecord tells a *spec.WrongUpstream where tags.lock has the entry. One that
// is inside llpatch itself is no line that anybody could remove.
func (o Options) withRecord(err error, upstream, name string) error {
	wrong := new(spec.WrongUpstream)
	if !errors.As(err, &wrong) {
		return err
	}
	file := filepath.Join(o.Records.Dir, spec.LockFile)
	data, rerr := os.ReadFile(file)
	if rerr != nil {
		return err
	}
	if line := spec.LockLine(data, upstream, name); line > 0 {
		wrong.Record = fmt.Sprintf("%s:%d", file, line)
	}
	return err
}
