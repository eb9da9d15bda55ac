package compat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/tag"
)

// provable is a history of builds 1 to 9 with tags on 3, 6 and 8. Line 5 of a.c
// is there in builds 2 to 6.
func provable(t *testing.T) (*history, string) {
	t.Helper()
	h := newHistory(t)
	with := numbered("line", 1, 9)
	without := strings.Replace(with, "line 5\n", "", 1)
	h.commit("one", map[string]string{"a.c": without})
	h.commit("two", map[string]string{"a.c": with})
	h.commit("three", map[string]string{"b.c": "3\n"})
	h.tag()
	h.commit("four", map[string]string{"b.c": "4\n"})
	h.commit("five", map[string]string{"b.c": "5\n"})
	h.commit("six", map[string]string{"b.c": "6\n"})
	h.tag()
	h.commit("seven", map[string]string{"a.c": without})
	h.commit("eight", map[string]string{"b.c": "8\n"})
	h.tag()
	h.commit("nine", map[string]string{"b.c": "9\n"})
	return h, diffOf(t, "mend", map[string]string{"a.c": with},
		map[string]string{"a.c": strings.Replace(with, "line 5", "mended", 1)})
}

func stackOf(t *testing.T, diff string, ranges ...string) Stack {
	t.Helper()
	dir := writeFiles(t, map[string]string{"fix.patch": diff})
	s, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Foreign = false
	patches := s.Fixes[0].Variants[0].Patches
	s.Fixes[0].Variants = nil
	for _, r := range ranges {
		s.Fixes[0].Variants = append(s.Fixes[0].Variants, Variant{
			Range: tag.MustParseRange(r), File: "fix.patch",
			Patches: patches,
		})
	}
	return s
}

func TestProve(t *testing.T) {
	made, diff := provable(t)
	h := open(t, made.write())
	for name, c := range map[string]struct {
		ranges        []string
		tags, commits int
		faults, notes []string
	}{
		"true":                  {[]string{">= 2, < 7"}, 2, 1, nil, nil},
		"both ends tagged":      {[]string{">= 3, <= 6"}, 2, 0, nil, nil},
		"one build":             {[]string{"= 4"}, 0, 1, nil, nil},
		"begins too early":      {[]string{">= 1, < 7"}, 2, 1, []string{"build 1: conflict"}, nil},
		"ends too late, no tag": {[]string{">= 2, < 8"}, 2, 2, []string{"build 7: conflict"}, nil},
		"ends too late, at tag": {[]string{">= 2, < 9"}, 3, 1, []string{"b8: conflict"}, nil},
		"beyond the newest tag": {
			[]string{">= 3, < 7", ">= 9, < 20"},
			2, 0, nil,
			[]string{"it begins at build 9, behind b8"},
		},
		"reaches beyond": {
			[]string{">= 2, < 20"},
			3, 1,
			[]string{"b8: conflict"},
			[]string{"it ends at build 19, and PATH at b8"},
		},
		"open": {
			[]string{">= 3"},
			3, 0,
			[]string{"b8: conflict"},
			[]string{"it has no end, and PATH ends at b8"},
		},
		"the same patch twice":   {[]string{">= 2, < 4", ">= 4, < 8"}, 2, 3, []string{"build 7: conflict"}, nil},
		"wrong from end to end":  {[]string{">= 7, < 9"}, 1, 1, []string{"build 7: conflict", "b8: conflict"}, nil},
		"before the first build": {[]string{"< 2"}, 0, 1, []string{"build 1: conflict"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			proofs, err := h.Prove(t.Context(), Options{}, stackOf(t, diff, c.ranges...))
			if err != nil {
				t.Fatal(err)
			}
			tags, commits := 0, 0
			var faults, notes []string
			for i, p := range proofs {
				if p.Range != c.ranges[i] || p.Variant != i || p.Fix != "fix" {
					t.Errorf("proof %d is of %q", i, p.Range)
				}
				tags += p.Tags
				commits += p.Commits
				for _, f := range p.Faults {
					where, commit, _ := strings.Cut(f.Where, " (commit ")
					if strings.HasPrefix(where, "build") != (len(commit) == 13) || f.Why == "" {
						t.Errorf("fault at %q: %q", f.Where, f.Why)
					}
					faults = append(faults, fmt.Sprintf("%s: %s", where, f.Verdict))
				}
				for _, n := range p.Notes {
					notes = append(notes, strings.ReplaceAll(n, h.Path, "PATH"))
				}
			}
			if tags != c.tags || commits != c.commits {
				t.Errorf("%d tags, %d commits, want %d and %d", tags, commits, c.tags, c.commits)
			}
			if diff := cmp.Diff(c.faults, faults); diff != "" {
				t.Error(diff)
			}
			if len(notes) != len(c.notes) || !slices.EqualFunc(notes, c.notes, strings.HasPrefix) {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
		})
	}
}

// Where upstream took the change in, nothing is broken; the range may end there.
func TestProveLanded(t *testing.T) {
	h := newHistory(t)
	text := numbered("line", 1, 9)
	mended := strings.Replace(text, "line 5", "mended", 1)
	h.commit("one", map[string]string{"a.c": text})
	h.tag()
	h.commit("two", map[string]string{"a.c": mended})
	h.tag()
	diff := diffOf(t, "mend", map[string]string{"a.c": text}, map[string]string{"a.c": mended})
	proofs, err := open(t, h.write()).Prove(t.Context(), Options{}, stackOf(t, diff, ">= 1, < 3"))
	if err != nil {
		t.Fatal(err)
	}
	if p := proofs[0]; len(p.Faults) != 0 || p.Tags != 2 || len(p.Notes) != 1 ||
		p.Notes[0] != "upstream has it on b2: the range may end there" {
		t.Errorf("%+v", p)
	}
}

// A variant that is an upstream commit is proven like a patch file.
func TestProveCommit(t *testing.T) {
	h := newHistory(t)
	text := numbered("line", 1, 9)
	h.commit("one", map[string]string{"a.c": strings.Replace(text, "line 5", "another", 1)})
	h.tag()
	h.commit("two", map[string]string{"a.c": text})
	h.tag()
	h.commit("mend", map[string]string{"a.c": strings.Replace(text, "line 5", "mended", 1)})
	h.tag()
	path := h.write()
	v := Variant{
		Range: tag.MustParseRange(">= 1, < 3"), File: "mend",
		Commit: strings.TrimSpace(git(t, path, "rev-parse", "b3")),
	}
	proofs, err := open(t, path).Prove(t.Context(), Options{}, Stack{
		Name:  "x",
		Fixes: []Fix{{ID: "fix", Variants: []Variant{v}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := proofs[0]; p.Tags != 2 || len(p.Notes) != 0 || len(p.Faults) != 1 || p.Faults[0].Where != "b1" ||
		p.Faults[0].Verdict != Conflict {
		t.Errorf("%+v", p)
	}
	v.Commit = strings.Repeat("12", 20)
	proofs, err = open(t, path).Prove(t.Context(), Options{}, Stack{
		Name:  "x",
		Fixes: []Fix{{ID: "fix", Variants: []Variant{v}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := proofs[0]; p.Tags != 0 || len(p.Faults) != 0 || len(p.Notes) != 1 ||
		!strings.HasPrefix(p.Notes[0], "not judged on b1..b2: ") {
		t.Errorf("%+v", p)
	}
}

// A merge counts every commit that it brings in, as git rev-list --count does.
func TestMainline(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
	}
	do := func(args ...string) string {
		t.Helper()
		out, err := tryGit(t, dir, env, "", args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	commit := func(subject string) { do("commit", "-q", "--allow-empty", "-m", subject) }
	do("init", "-q", "-b", "master")
	commit("1")
	do("branch", "side")
	commit("2")
	do("checkout", "-q", "side")
	commit("side 1")
	commit("side 2")
	do("checkout", "-q", "-b", "other", "master")
	commit("other")
	do("merge", "-q", "--no-ff", "-m", "side into other", "side")
	do("checkout", "-q", "master")
	commit("3")
	do("merge", "-q", "--no-ff", "-m", "side", "side")
	do("merge", "-q", "--no-ff", "-m", "other", "other")
	commit("last")
	do("tag", "-m", "annotated", "b"+do("rev-list", "--count", "HEAD"))
	shallow := t.TempDir()
	do("clone", "-q", "--depth=2", "file://"+dir, shallow)
	for path, commits := range map[string]int{dir: 6, shallow: 2} {
		h := open(t, path)
		objects, err := h.repo.Objects()
		if err != nil {
			t.Fatal(err)
		}
		line, err := h.mainline(t.Context(), objects)
		if err := objects.Release(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(line.at) != commits {
			t.Errorf("%s: %d commits, want %d", path, len(line.at), commits)
		}
		for id, n := range line.at {
			if want := do("rev-list", "--count", id.String()); fmt.Sprint(n) != want {
				t.Errorf("%s is build %d, git counts %s", id, n, want)
			}
			if got, ok := line.commit(n); !ok || got != id {
				t.Errorf("build %d is %s, want %s", n, got, id)
			}
		}
		if path == dir && (line.first != 1 || line.up(4) != 6 || line.down(5) != 3) {
			t.Errorf("first %d, up %d, down %d", line.first, line.up(4), line.down(5))
		}
	}
}

func TestCheckPins(t *testing.T) {
	made, _ := provable(t)
	path := made.write()
	pin := func(build int) spec.Pin {
		rev := fmt.Sprintf("master~%d", 9-build)
		show := strings.Fields(git(t, path, "log", "-1", "--format=%H %T %ct", rev))
		var secs int64
		if _, err := fmt.Sscan(show[2], &secs); err != nil {
			t.Fatal(err)
		}
		return spec.Pin{Commit: show[0], Tree: show[1], Build: build, Time: time.Unix(secs, 0).UTC()}
	}
	with := func(p spec.Pin, edit func(*spec.Pin)) spec.Pin { edit(&p); return p }
	const other = "1234567890123456789012345678901234567890"
	for name, c := range map[string]struct {
		tag     string
		pin     spec.Pin
		checked int
		fault   string
		note    string
	}{
		"tagged":              {"b6", pin(6), 1, "", ""},
		"tagged, no commit":   {"b6", with(pin(6), func(p *spec.Pin) { p.Commit = "" }), 1, "", ""},
		"untagged":            {"b4", pin(4), 1, "", ""},
		"untagged, no commit": {"b4", with(pin(4), func(p *spec.Pin) { p.Commit = "" }), 1, "", ""},
		"commit":              {pin(5).Commit, pin(5), 1, "", ""},
		"version":             {"v1.0.0", pin(5), 1, "", ""},
		"version, not known":  {"v1.0.0", with(pin(5), func(p *spec.Pin) { p.Commit = "" }), 0, "", "v1.0.0 is not in"},
		"wrong commit": {"b6", with(pin(6), func(p *spec.Pin) {
			p.Commit = pin(5).Commit
		}), 1, "commit is " + pin(5).Commit + ", and in the history it is " + pin(6).Commit, ""},
		"wrong tree": {"b6", with(pin(6), func(p *spec.Pin) { p.Tree = other }), 1, "tree is " + other, ""},
		"wrong time": {"b6", with(pin(6), func(p *spec.Pin) {
			p.Time = p.Time.Add(time.Second)
		}), 1, "time is ", ""},
		"wrong number": {"v1.0.0", with(pin(6), func(p *spec.Pin) {
			p.Build = 7
		}), 1, "build number is 7, and commit " + pin(6).Commit + " is build 6", ""},
		"within bounds": {"v1.0.0", with(pin(6), func(p *spec.Pin) { p.Build, p.Max = 5, 6 }), 1, "", ""},
		"below bounds": {"v1.0.0", with(pin(6), func(p *spec.Pin) {
			p.Build, p.Max = 7, 8
		}), 1, "build number is 7 to 8, and commit " + pin(6).Commit + " is build 6", ""},
		"above bounds": {"v1.0.0", with(pin(6), func(p *spec.Pin) {
			p.Build, p.Max = 4, 5
		}), 1, "build number is 4 to 5, and commit ", ""},
		"no tree yet": {"v1.0.0", spec.Pin{Commit: pin(6).Commit, Build: 6}, 1, "", ""},
		"no tree, wrong": {
			"v1.0.0",
			spec.Pin{Commit: pin(6).Commit, Build: 5},
			1, "build number is 5, and commit ",
			"",
		},
		"commit from nowhere": {"b4", with(pin(4), func(p *spec.Pin) { p.Commit = other }), 1, "its commit is not in ", ""},
		"behind the last tag": {"b9", pin(9), 1, "", "b9: build number 9 is not checked"},
		"beyond the history": {
			"b99",
			spec.Pin{Commit: other, Tree: other, Build: 99, Time: time.Unix(1, 0)},
			0, "",
			"b99 is not in",
		},
		"beyond, commit empty": {"b99", spec.Pin{Tree: other, Build: 99, Time: time.Unix(1, 0)}, 0, "", "b99 is not in"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, path, map[string]spec.Pin{c.tag: c.pin}).CheckPins(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Checked != c.checked {
				t.Errorf("%d checked, want %d", got.Checked, c.checked)
			}
			var faults []string
			for _, f := range got.Faults {
				if f.Tag != c.tag {
					t.Errorf("fault of %s", f.Tag)
				}
				faults = append(faults, f.Msg)
			}
			for _, x := range []struct {
				what string
				got  []string
				want string
			}{{"fault", faults, c.fault}, {"note", got.Notes, c.note}} {
				if (x.want == "") != (len(x.got) == 0) || len(x.got) > 1 || x.want != "" && !strings.HasPrefix(x.got[0], x.want) {
					t.Errorf("%s: %q, want %q", x.what, x.got, x.want)
				}
			}
		})
	}
	// A tag that stands on a side branch is no build.
	git(t, path, "tag", "b7", strings.TrimSpace(git(t, path, "-c", "user.name=a", "-c", "user.email=a@example.org",
		"commit-tree", "-m", "aside", "master^{tree}")))
	id := strings.Fields(git(t, path, "log", "-1", "--format=%H %T %ct", "b7"))
	var secs int64
	if _, err := fmt.Sscan(id[2], &secs); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, path, map[string]spec.Pin{"b7": {
		Commit: id[0], Tree: id[1], Build: 7,
		Time: time.Unix(secs, 0),
	}}).CheckPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Faults) != 1 || !strings.Contains(got.Faults[0].Msg,
		"is not on the first-parent way to b8, so it is not build 7") {
		t.Errorf("%+v", got)
	}
}

// An advisory's word on its fix is checked on the history: a wrong range, a commit that is not
// upstream's, a fix that was taken back.
func TestCheckAdvisories(t *testing.T) {
	made, _ := provable(t) // builds 1 to 9, tagged to b8
	path := made.write()
	id := func(build int) string {
		return strings.TrimSpace(git(t, path, "rev-parse", fmt.Sprintf("master~%d", 9-build)))
	}
	ids := map[int]string{}
	for n := 1; n <= 9; n++ {
		ids[n] = id(n)
	}
	commit := func(msg, parent string) string {
		return strings.TrimSpace(git(t, path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-m",
			msg, "-p", parent, "master^{tree}"))
	}
	// The newest tag that is counted from, b10, takes build 4 back.
	git(t, path, "update-ref", "refs/tags/b10", commit("Revert \"four\"\n\nThis reverts commit "+ids[4]+".", ids[9]))
	for name, c := range map[string]struct {
		since int
		by    string
		fixed int
		fixes []string
		fault string
	}{
		"right":        {2, ids[2], 7, []string{ids[6], ids[7]}, ""},
		"not known":    {2, "", 0, nil, ""},
		"wrong since":  {3, ids[2], 7, []string{ids[7]}, "since commit " + ids[2] + " is build 2, not 3"},
		"wrong build":  {2, ids[2], 6, []string{ids[7]}, "fixed-in commit " + ids[7] + " is build 7, not 6"},
		"parts turned": {2, ids[2], 6, []string{ids[7], ids[6]}, "fixed-in commit " + ids[7] + " is build 7, not 5"},
		"not there":    {2, ids[2], 6, []string{strings.Repeat("a", 40)}, "fixed-in build 6 is commit " + ids[6]},
		"taken back":   {2, ids[2], 4, []string{ids[4]}, "fixed-by commit " + ids[4] + " is taken back by commit "},
		"aside":        {2, ids[2], 6, []string{commit("aside", ids[5])}, "fixed-in build 6 is commit " + ids[6]},
		"beyond":       {2, ids[2], 99, []string{strings.Repeat("a", 40)}, ""}, // data newer than the history
	} {
		t.Run(name, func(t *testing.T) {
			a := spec.Advisory{
				ID: "a", Upstream: spec.LlamaCpp, Since: c.since, SinceBy: c.by, FixedIn: c.fixed,
				FixedBy: c.fixes,
			}
			got, err := open(t, path).CheckDefects(t.Context(), nil, []spec.Advisory{
				{Upstream: spec.IkLlamaCpp, FixedIn: 99},
				a,
			})
			if err != nil {
				t.Fatal(err)
			}
			fault := ""
			for _, f := range got.Faults {
				fault += f.Key + " " + f.Msg
				if f.Index != 1 || f.Fix != "" {
					t.Errorf("%+v", f)
				}
			}
			if !strings.HasPrefix(fault, c.fault) || c.fault == "" && fault != "" {
				t.Errorf("%q", fault)
			}
			if unchecked := len(got.Notes) > 0; unchecked != (name == "beyond") {
				t.Errorf("%q", got.Notes)
			}
		})
	}
}

// A fix's word on who brought and who cured its defect is checked on the history.
func TestCheckDefects(t *testing.T) {
	made, _ := provable(t) // builds 1 to 9, tagged to b8
	path := made.write()
	id := func(build int) string {
		return strings.TrimSpace(git(t, path, "rev-parse", fmt.Sprintf("master~%d", 9-build)))
	}
	aside := strings.TrimSpace(git(t, path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-m",
		"aside", "-p", "master~4", "master^{tree}"))
	for name, c := range map[string]struct {
		defect  spec.Defect
		checked int
		fault   string
		note    string
	}{
		"right": {spec.Defect{
			Since: 2, Commit: id(2), FixedIn: 7, FixedBy: id(7),
			Partly: []spec.Cure{{Build: 4, Commit: id(4)}},
		}, 3, "", ""},
		"nothing said": {spec.Defect{}, 0, "", ""},
		"one off":      {spec.Defect{Since: 2, Commit: id(3)}, 1, "since commit " + id(3) + " is build 3, not 2", ""},
		"part": {
			spec.Defect{Since: 2, Commit: id(2), Partly: []spec.Cure{{Build: 4, Commit: id(5)}}},
			2,
			"partly[0].build commit " + id(5), "",
		},
		"cure": {spec.Defect{Since: 2, Commit: id(2), FixedIn: 6, FixedBy: id(7)}, 2, "fixed-in commit " + id(7), ""},
		"not on way": {spec.Defect{Since: 6, Commit: aside}, 1, "since build 6 is commit " + id(6) + "; " + aside +
			" is not on the first-parent way to b8", ""},
		"not there": {spec.Defect{Since: 6, Commit: strings.Repeat("a", 40)}, 1, "since build 6 is commit " + id(6), ""},
		"beyond":    {spec.Defect{Since: 99, Commit: id(9)}, 0, "", "fix: since = 99 is not checked: "},
	} {
		t.Run(name, func(t *testing.T) {
			c.defect.Upstream = spec.LlamaCpp
			got, err := open(t, path).CheckDefects(t.Context(), []spec.Fix{{ID: "fix", Defects: []spec.Defect{c.defect}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var faults []string
			for _, f := range got.Faults {
				faults = append(faults, f.Key+" "+f.Msg)
			}
			if fault := strings.Join(faults, "\n"); got.Checked != c.checked || !strings.HasPrefix(fault, c.fault) ||
				c.fault == "" && fault != "" {
				t.Errorf("%d checked, %q", got.Checked, fault)
			}
			if note := strings.Join(got.Notes, "\n"); !strings.HasPrefix(note, c.note) || c.note == "" && note != "" {
				t.Errorf("note %q", note)
			}
		})
	}
}
