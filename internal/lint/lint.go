// Package lint checks that everything declared is true, beyond the form that spec.Load has checked.
package lint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/patch"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/spec"
)

// Options say what declarations are proven on.
type Options struct {
	Source   string // a local repository with upstream's tags and history; "": ranges and pins are not proven
	Upstream string // whose history that is; "": llama.cpp
	Cache    string // folder that keeps verdicts between runs; "": none are kept
	Log      *slog.Logger
	Progress func(what string, done, total int64) // may be nil
}

// Report counts what was checked and lists what is not as declared.
type Report struct {
	Fixes     int       `json:"fixes"`
	Variants  int       `json:"variants"`
	Patches   int       `json:"patches"` // patch files
	Recipes   int       `json:"recipes"`
	Known     int       `json:"advisories"` // security defects of recipes/advisories.toml
	Tags      int       `json:"tags"`       // pinned
	Revisions int       `json:"revisions"`  // recorded
	Findings  []Finding `json:"findings"`
	Proof     *Proof    `json:"proof,omitempty"` // with a source only
	Notes     []string  `json:"notes,omitempty"` // what could not be proven
	// Unproven are the fixes that no check shows to be of use, and why there is none.
	Unproven map[string]string `json:"unproven,omitempty"`

	errs []*spec.Error
}

// Finding is a declaration that is not true or not in its one form.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 1-based, 0: the whole file
	Col  int    `json:"col,omitempty"`
	Msg  string `json:"msg"`
}

// Err joins the findings, one *spec.Error each; nil where there is none.
func (r *Report) Err() error {
	var all []error
	for _, e := range r.errs {
		all = append(all, e)
	}
	return errors.Join(all...)
}

// Text is one line that says what was checked, and one for each reason why fixes have no proof;
// empty where there are findings.
func (r *Report) Text() string {
	if len(r.errs) > 0 {
		return ""
	}
	s := fmt.Sprintf("%s, %s, %s, %s, %s, %s", count(r.Fixes, "fix", "fixes"), count(r.Variants, "variant", "variants"),
		count(r.Patches, "patch file", "patch files"), count(r.Recipes, "recipe", "recipes"),
		count(r.Tags, "pinned tag", "pinned tags"), count(r.Revisions, "revision", "revisions"))
	if r.Known > 0 {
		s += ", " + count(r.Known, "advisory", "advisories")
	}
	if r.Proof != nil {
		s += fmt.Sprintf("; ranges proven on %s and %s, %s and %s of defects checked", count(r.Proof.Tags, "tag", "tags"),
			count(r.Proof.Commits, "commit", "commits"), count(r.Proof.Pins, "pin", "pins"),
			count(r.Proof.Defects, "commit", "commits"))
	}
	s += ": all as declared\n"
	alike := map[string][]string{} // fixes by the reason
	for _, id := range slices.Sorted(maps.Keys(r.Unproven)) {
		alike[r.Unproven[id]] = append(alike[r.Unproven[id]], id)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Unproven)) {
		switch ids := alike[r.Unproven[id]]; {
		case ids[0] != id:
		case len(ids) == 1:
			s += fmt.Sprintf("%s has no proof: %s\n", id, r.Unproven[id])
		default:
			s += fmt.Sprintf("%s have no proof: %s\n", strings.Join(ids, ", "), r.Unproven[id])
		}
	}
	return s
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// LoadFindings is the report for declarations that spec.Load refused: err is its
// error. It returns false where err is about something else.
func LoadFindings(err error) (*Report, bool) {
	r := &Report{}
	all := r.addAll(err)
	return r.sorted(), all
}

// Check judges all declarations. The findings are in the report; an error means that it could not
// be checked at all.
func Check(ctx context.Context, repo *spec.Repo, o Options) (*Report, error) {
	o.Upstream = cmp.Or(o.Upstream, spec.LlamaCpp)
	r := &Report{
		Fixes: len(repo.Fixes), Recipes: len(repo.Recipes), Known: len(repo.Advisories.All),
		Unproven: map[string]string{},
	}
	for _, f := range repo.Fixes {
		r.Variants += len(f.Variants)
		r.fix(repo, f)
	}
	r.recipes(repo)
	parsed, err := r.patches(repo)
	if err != nil {
		return nil, err
	}
	r.series(repo)
	lock := r.tagsLock(repo)
	r.pagesLock(repo)
	r.levelsLock(repo)
	switch {
	case o.Source == "":
	case parsed == nil:
		r.Notes = append(r.Notes, "ranges and pins are not proven: a patch file cannot be read")
	default:
		if err := r.prove(ctx, repo, lock, parsed, o); err != nil {
			return nil, err
		}
	}
	return r.sorted(), nil
}

func (r *Report) add(e *spec.Error) { r.errs = append(r.errs, e) }

// addAll takes every *spec.Error out of a joined error. It reports whether that
// was all there is in it.
func (r *Report) addAll(err error) bool {
	var joined interface{ Unwrap() []error }
	var e *spec.Error
	switch {
	case errors.As(err, &joined):
		all := true
		for _, sub := range joined.Unwrap() {
			all = r.addAll(sub) && all
		}
		return all
	case errors.As(err, &e):
		r.add(e)
		return true
	}
	return false
}

// sorted puts the findings into the order of files and lines.
func (r *Report) sorted() *Report {
	slices.SortStableFunc(r.errs, func(a, b *spec.Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	r.Findings = []Finding{}
	for _, e := range r.errs {
		r.Findings = append(r.Findings, Finding{e.File, e.Line, e.Col, e.Msg})
	}
	return r
}

func (r *Report) fix(repo *spec.Repo, f spec.Fix) {
	name := path.Join("patches", f.ID, "fix.toml")
	at := func(key, format string, args ...any) { r.add(spec.ErrorAt(repo.FS, name, key, format, args...)) }
	if len(f.Reports) == 0 {
		at("reports", "reports is empty: name at least one place where the defect was reported or described")
	}
	for _, report := range f.Reports {
		if u, err := url.Parse(report); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			at("reports", "report %q is not the address of a page", report)
		}
	}
	for _, upstream := range f.Upstreams() {
		if f.Defect(upstream).Since == 0 && f.Group != spec.Security {
			at("", "there is no [[defect]] for %s: say since which build it has the defect, and by which commit", upstream)
		}
	}
	if f.Proof != "build" && !slices.Contains(smoke.Proofs(), f.Proof) {
		at("proof", "proof is %q, which is no check that shows a fault; it must be \"build\" or one of %s", f.Proof,
			strings.Join(smoke.Proofs(), ", "))
	}
	if f.Proof == smoke.Malformed && len(smoke.MalformedChecks(f.Cures)) == 0 {
		at("proof", "proof is %q, and there is no malformed input for what the fix cures", f.Proof)
	}
	switch reason := strings.TrimSpace(f.Unproven); {
	case f.Proof == "build" && (reason == "" || !strings.HasSuffix(reason, ".")):
		at("proof", "proof is \"build\", so that nothing shows that the fix works: name a check that fails without it, or "+
			"say in unproven = \"...\", a sentence, why there is none")
	case f.Proof == "build":
		r.Unproven[f.ID] = reason
	case f.Unproven != "":
		at("unproven", "unproven is for a fix whose proof is \"build\"; this one has the proof %q", f.Proof)
	}
}

func (r *Report) recipes(repo *spec.Repo) {
	for _, rec := range repo.Recipes {
		for i, c := range rec.Smoke {
			if err := smoke.Validate([]spec.Check{c}); err != nil {
				r.add(spec.ErrorAt(repo.FS, path.Join("recipes", rec.Name+".toml"), fmt.Sprintf("smoke[%d]", i), "%v", err))
			}
		}
	}
}

// patches checks the patch files below patches/, the declared and the others. It
// returns the declared ones by path, nil where one of them cannot be read.
func (r *Report) patches(repo *spec.Repo) (map[string][]patch.Patch, error) {
	status := map[string]string{} // declared file -> its fix's status
	fixOf := map[string]string{}
	for _, f := range repo.Fixes {
		for _, v := range f.Variants {
			if v.Patch != "" {
				file := path.Join("patches", f.ID, v.Patch)
				status[file], fixOf[file] = f.Status, f.ID
			}
		}
	}
	parsed, readable := map[string][]patch.Patch{}, true
	same := map[[sha256.Size]byte]string{}
	err := fs.WalkDir(repo.FS, "patches", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fix, declared := fixOf[file]
		if !declared && path.Ext(file) != ".patch" {
			return nil
		}
		data, err := fs.ReadFile(repo.FS, file)
		if err != nil {
			return err
		}
		r.Patches++
		if !declared {
			r.add(&spec.Error{File: file, Msg: "no variant names this patch file; declare it in fix.toml beside it, " +
				"or remove it"})
		}
		sum := sha256.Sum256(data)
		if first, ok := same[sum]; ok {
			r.add(&spec.Error{File: file, Msg: fmt.Sprintf("has the same content as %s; keep one, several variants may name it",
				first)})
		} else {
			same[sum] = file
		}
		if declared {
			parsed[file] = r.patchFile(file, fix, status[file], data)
			readable = readable && parsed[file] != nil
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read patch files: %w", err)
	}
	if !readable {
		return nil, nil
	}
	return parsed, nil
}

// series checks the one form of patches/series: an id or a # comment a line.
func (r *Report) series(repo *spec.Repo) {
	data, err := fs.ReadFile(repo.FS, spec.SeriesFile)
	if err != nil {
		r.add(&spec.Error{File: spec.SeriesFile, Msg: err.Error()})
		return
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text, ended := strings.CutSuffix(string(line), "\n")
		bad := func(format string, args ...any) { r.add(spec.ErrorOn(spec.SeriesFile, data, n, format, args...)) }
		switch {
		case !ended:
			bad("the last line has no line end")
		case strings.HasSuffix(text, "\r"):
			bad("the line ends in CR LF; it must end in LF")
		case strings.TrimSpace(text) == "":
			bad("the line is blank")
		case text != strings.TrimSpace(text):
			bad("there is white space around the line")
		case strings.Contains(text[1:], "#") && text[0] != '#':
			bad("a comment must stand on a line of its own")
		}
	}
}

// tagsLock checks that tags.lock is as llpatch writes it, and returns what it
// says, without what was recorded on this machine only.
func (r *Report) tagsLock(repo *spec.Repo) spec.Lock {
	data, err := fs.ReadFile(repo.FS, spec.LockFile)
	if err != nil {
		r.add(&spec.Error{File: spec.LockFile, Msg: err.Error()})
		return nil
	}
	lock, err := spec.ParseLock(spec.LockFile, data)
	if err != nil {
		if !r.addAll(err) {
			r.add(&spec.Error{File: spec.LockFile, Msg: err.Error()})
		}
		return nil
	}
	for _, pins := range lock {
		for _, pin := range pins {
			if pin.Tree != "" {
				r.Tags++
			}
		}
	}
	want, err := lock.Encode()
	r.canonical(spec.LockFile, data, want, err)
	return lock
}

// pagesLock checks that pages.lock, where there is one, is as llpatch writes it.
func (r *Report) pagesLock(repo *spec.Repo) {
	if data, err := fs.ReadFile(repo.FS, spec.PageLockFile); err == nil {
		want, err := spec.JSON(repo.PageLock)
		r.canonical(spec.PageLockFile, data, want, err)
	}
}

// levelsLock checks that llpatch.lock is as llpatch writes it and names only
// fixes and targets that there are.
func (r *Report) levelsLock(repo *spec.Repo) {
	data, err := fs.ReadFile(repo.FS, spec.RevisionsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return // nothing was released yet
	}
	if err != nil {
		r.add(&spec.Error{File: spec.RevisionsFile, Msg: err.Error()})
		return
	}
	levels, err := spec.ParseRevisions(spec.RevisionsFile, data)
	if err != nil {
		if !r.addAll(err) {
			r.add(&spec.Error{File: spec.RevisionsFile, Msg: err.Error()})
		}
		return
	}
	want, err := levels.Encode()
	r.canonical(spec.RevisionsFile, data, want, err)
	for upstream, tags := range levels {
		for tag, targets := range tags {
			for target, list := range targets {
				r.Revisions += len(list)
				for _, lv := range list {
					r.level(repo, data, fmt.Sprintf("%s %s %s revision %d", upstream, tag, target, lv.N), lv)
				}
			}
		}
	}
}

func (r *Report) level(repo *spec.Repo, data []byte, where string, lv spec.Revision) {
	for _, in := range lv.Fixes {
		if !slices.ContainsFunc(repo.Fixes, func(f spec.Fix) bool { return f.ID == in.Fix }) {
			line := lineOf(data, fmt.Sprintf("%q", in.Fix))
			e := spec.ErrorOn(spec.RevisionsFile, data, line, "%s: fix %q is not in %s", where, in.Fix, spec.SeriesFile)
			r.add(e)
		}
	}
}

// canonical adds a finding at the first line that is not as llpatch writes it.
func (r *Report) canonical(file string, data, want []byte, err error) {
	if err != nil {
		r.add(&spec.Error{File: file, Msg: err.Error()})
		return
	}
	if bytes.Equal(data, want) {
		return
	}
	got, wanted := bytes.Split(data, []byte("\n")), bytes.Split(want, []byte("\n"))
	n := 0
	for n < len(got)-1 && n < len(wanted) && bytes.Equal(got[n], wanted[n]) {
		n++
	}
	text := "the end of the file"
	if n < len(wanted) && len(wanted[n]) > 0 {
		text = string(wanted[n])
	}
	r.add(spec.ErrorOn(file, data, n+1, "is not as llpatch writes it; here stands: %s", strings.TrimSpace(text)))
}

// lineOf returns the 1-based line on which text first stands, 0 where it does not.
func lineOf(data []byte, text string) int {
	i := bytes.Index(data, []byte(text))
	if i < 0 {
		return 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1
}
