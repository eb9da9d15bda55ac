package bundle

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/authenticode"
	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/page"
	"github.com/llpatch/llpatch/internal/smoke"
	"github.com/llpatch/llpatch/internal/source"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// Info is BUILD_INFO.json: what the bundle is and how it came to be. It
// holds nothing of the machine or the moment of the build.
type Info struct {
	Llpatch  string `json:"llpatch"`
	Upstream string `json:"upstream"`
	Tag      string `json:"tag"`
	// the tag that was asked for, where Tag is only the nearest to be had
	Asked    string `json:"asked,omitempty"`
	Source   string `json:"source"` // where the tree came from, as recipes/sources.toml names it
	Build    int    `json:"build"`
	Commit   string `json:"commit,omitempty"`
	Tree     string `json:"tree"`
	Patched  string `json:"patched_tree"`
	Target   string `json:"target"`
	Revision int    `json:"revision"`
	// spec.Thin or spec.Full, where the target uses a toolkit's libraries
	Runtime string   `json:"runtime,omitempty"`
	Carried []string `json:"carried,omitempty"` // those that are in the bundle
	// libraries that are in the programs themselves, with their versions
	Linked  []string     `json:"linked,omitempty"`
	Version string       `json:"version_commit"` // as llama-server --version prints it
	Series  *spec.Series `json:"series"`
	// defects of this build that are known, which of them the series cures, and which are not in
	// the programs
	Security  spec.Known        `json:"security"`
	Plan      string            `json:"plan"`
	Options   map[string]string `json:"options"`
	LeftOut   []string          `json:"left_out"`
	Tools     map[string]string `json:"tools"`
	Glibc     string            `json:"glibc,omitempty"` // lowest version that runs it
	Libstdcpp string            `json:"glibcxx,omitempty"`
	// in whose root it was built; empty: with what its maker's machine has
	Buildenv string     `json:"buildenv,omitempty"`
	Check    string     `json:"check_script,omitempty"` // script in the bundle that looks at the user's machine
	Windows  string     `json:"windows,omitempty"`      // what it was checked to run on: spec.Win7 or spec.Win7VxKex
	WebUI    bool       `json:"webui"`                  // the page of llama-server is in
	Page     *page.Page `json:"page,omitempty"`         // that page, where it was built beside the tree
	NVIDIA   []string   `json:"nvidia,omitempty"`       // DLLs of NVIDIA's that it loads on Windows
	authenticode.Signed
	Needs   []string            `json:"needs"`                     // libraries of the user's system
	Symbols map[string][]string `json:"symbol_versions,omitempty"` // that those must have
	// the one library that the bundle holds, for the official package of the tag
	DropIn   string            `json:"drop_in,omitempty"`
	CUDA     *binary.Verdict   `json:"cuda,omitempty"`     // on which cards and with which driver it runs
	AMD      []binary.GPU      `json:"amd,omitempty"`      // on which of AMD's cards it runs
	Notes    []string          `json:"notes,omitempty"`    // the recipe's
	Vendored []Vendored        `json:"vendored,omitempty"` // libraries of others in the patched tree
	Checks   []CheckInfo       `json:"checks"`
	Files    []*binary.File    `json:"files"`
	Sums     map[string]string `json:"sha256"`

	MayDiffer []MayDiffer `json:"may_differ,omitempty"` // what a second build of the same need not have alike
}

func patchesPage(s *spec.Series) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Patches on %s %s\n", s.Upstream, s.Tag)
	for i, c := range s.In {
		fmt.Fprintf(&b, "\n## %04d %s\n\n%s.\n\n%s\n\n- chosen because %s\n", i+1, c.Fix, strings.TrimRight(c.Summary, "."),
			strings.TrimSpace(c.Why), c.Reason)
		for _, part := range c.Partly {
			fmt.Fprintf(&b, "- upstream cured a part in %s\n", part)
		}
		for _, r := range c.Reports {
			fmt.Fprintf(&b, "- report: %s\n", r)
		}
		if c.Commit != "" {
			fmt.Fprintf(&b, "- made from upstream's %s\n", c.Credit)
		}
		fmt.Fprintf(&b, "- file: %04d-%s.patch, sha256 %s\n", i+1, c.Fix, c.SHA256)
	}
	if len(s.In) == 0 {
		b.WriteString("\nNone.\n")
	}
	list := func(title string, left []spec.Excluded) {
		for i, o := range left {
			if i == 0 {
				b.WriteString("\n## " + title + "\n\n")
			}
			fmt.Fprintf(&b, "- %s: %s: %s\n", o.Fix, o.Case, o.Reason)
		}
	}
	list("Landed", s.Landed)
	list("Left out", s.Out)
	return b.Bytes()
}

func bundlePage(i Info) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s %s, patched by llpatch, for %s\n\n", i.Upstream, i.Tag, i.Target)
	if i.DropIn != "" {
		fmt.Fprintf(&b, "This is %s alone. Put it beside the programs of the official package of the same tag, which load "+
			"it when they start; their `--version` stays as it is.\n\n", i.DropIn)
	} else {
		start := "./llama-server"
		if i.Windows != "" {
			start = "llama-server.exe"
		}
		fmt.Fprintf(&b, "Start it where it lies: `%s -m model.gguf`. `--version` prints %s.\n\n", start, i.Version)
	}
	b.WriteString(i.linux("\n"))
	b.WriteString(i.windows())
	if len(i.Linked) > 0 {
		fmt.Fprintf(&b, "In the programs themselves: %s.\n", strings.Join(i.Linked, ", "))
	}
	b.WriteString(i.authorities())
	b.WriteString(i.cards())
	for _, o := range i.LeftOut {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", strings.TrimRight(o, "."))
	}
	b.WriteString(i.toolkit())
	b.WriteString(i.security(readmeDefects))
	b.WriteString("\n")
	if i.Check == checkScript {
		b.WriteString("- check.sh: `sh check.sh` says in one sentence whether it can run on your machine, or what is in " +
			"the way and what to do; it changes nothing\n")
	}
	b.WriteString("- PATCHES/: every change to upstream's source, and why\n- BUILD_INFO.json: the source, the options, " +
		"the tools, the checks\n- SHA256SUMS: " + i.compare() +
		"\n- LICENSES/: upstream's licence and those of what it holds\n" + i.checks())
	return b.Bytes()
}

// readmeDefects is how many open defects the README lists: NOTES.md has all of them.
const readmeDefects = 8

// security says which defects of the build are known, no more than limit of those that are
// open (0: all), and what to avoid.
func (i Info) security(limit int) string {
	lines := i.Security.Lines(limit)
	text := "\n" + lines[0] + "\n"
	if i.Series != nil && slices.Contains(i.Series.Groups, spec.Security) {
		text += "\nIt was made without the cures (`--without security`).\n"
	}
	for n, line := range lines[1:] {
		if n == 0 {
			text += "\n"
		}
		text += "- " + line + "\n"
	}
	return text
}

// checks is a table of their verdicts.
func (i Info) checks() string {
	text := "\n| check | place | verdict |\n|---|---|---|\n"
	for _, c := range i.Checks {
		text += fmt.Sprintf("| %s | %s | %s |\n", c.Name, c.Place, c.Verdict)
	}
	return text
}

// compare says how the user compares the files with SHA256SUMS.
func (i Info) compare() string {
	if i.Windows != "" {
		return "check-win7.cmd compares every file with it"
	}
	if i.Check == checkScript {
		return "check.sh compares every file with it, and so does `sha256sum -c SHA256SUMS`"
	}
	return "`sha256sum -c SHA256SUMS`"
}

// linuxes are the first of each kind of system with such a glibc and libstdc++, newest
// first of each. With OpenSSL 3 they have libssl.so.3.
var linuxes = [][]struct {
	name, glibc, glibcxx string
	openssl3             bool
}{
	{{"Debian 13", "2.41", "3.4.33", true}, {"Debian 12", "2.36", "3.4.30", true}, {"Debian 11", "2.31", "3.4.28", false}},
	{
		{"Ubuntu 24.04", "2.39", "3.4.33", true},
		{"Ubuntu 22.04", "2.35", "3.4.30", true},
		{"Ubuntu 20.04", "2.31", "3.4.28", false},
	},
	{{"RHEL 10", "2.39", "3.4.32", true}, {"RHEL 9", "2.34", "3.4.29", true}},
}

// linux says which Linux it needs, with between before the libraries, and whose compilers
// and C library made it.
func (i Info) linux(between string) string {
	if i.Glibc == "" {
		return ""
	}
	text := fmt.Sprintf("It needs a Linux with glibc %s or newer and these libraries of the system:%s%s.\n", i.Glibc,
		between, strings.Join(i.Needs, ", "))
	var first []string
	for _, kind := range linuxes {
		name := ""
		for _, l := range kind {
			if !binary.Less(l.glibc, i.Glibc) && !binary.Less(l.glibcxx, i.Libstdcpp) &&
				(l.openssl3 || !slices.Contains(i.Needs, "libssl.so.3")) {
				name = l.name
			}
		}
		if name != "" {
			first = append(first, name)
		}
	}
	if len(first) > 0 {
		text += "Such a glibc, libstdc++ and OpenSSL have: " + strings.Join(first, ", ") + ", and newer ones.\n"
	}
	if i.Buildenv == "" {
		text += "It was made with the compilers and the C library of its maker's own machine, so older systems than that " +
			"may lack something.\n"
	}
	return text
}

// windows says which Windows it is for, and where its checks ran.
func (i Info) windows() string {
	if i.Windows == "" {
		return ""
	}
	text := fmt.Sprintf("\nIt is for 64-bit %s: every function that it takes from %s is there.\n",
		binary.SystemName(i.Windows), strings.Join(i.Needs, ", "))
	if slices.ContainsFunc(i.Checks, func(c CheckInfo) bool { return c.Place == "wine" }) {
		text += "The checks below ran it through wine, which only stands for Windows: on Windows itself it was not tried.\n"
	}
	if i.DropIn == "" {
		text += i.page() + "\n"
	}
	if i.Signer != "" {
		text += fmt.Sprintf("The programs are signed by %s (Authenticode).\n", i.Signer)
	}
	return text + "README-WIN7.txt says the rest; check-win7.cmd looks at the user's machine.\n"
}

// cards says on which cards the device code runs, with which driver, and what the
// recipe says besides.
func (i Info) cards() string {
	var b strings.Builder
	if v := i.CUDA; v != nil {
		b.WriteString("\nCards:\n\n")
		for _, c := range v.Cards {
			fmt.Fprintf(&b, "- %s\n", c)
		}
		for _, d := range []*binary.Driver{v.Driver, v.JIT} {
			// The numbers are of drivers for Linux; README-WIN7.txt has Windows'.
			if i.Windows == "" && d != nil && d.Version != "" {
				fmt.Fprintf(&b, "\nNVIDIA's driver must be %s or newer, for %s.\n", d.Version, d.Why)
			}
		}
	}
	for n, g := range i.AMD {
		if n == 0 {
			b.WriteString("\nCards, and no others:\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", g)
	}
	for _, note := range i.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// toolkit says where the toolkit's libraries are.
func (i Info) toolkit() string {
	switch i.Runtime {
	case spec.Full:
		return fmt.Sprintf("\nThe CUDA libraries that it uses are inside: %s. Their terms are in LICENSES/.\n",
			strings.Join(i.Carried, ", "))
	case spec.Thin:
		if i.Windows != "" {
			return fmt.Sprintf("\nIt uses NVIDIA's %s, which are to lie beside the programs, or in the full bundle.\n",
				strings.Join(i.NVIDIA, ", "))
		}
		says := "llpatch doctor FOLDER"
		if i.Check == checkScript {
			says = "sh check.sh"
		}
		return fmt.Sprintf("\nIt uses CUDA libraries of the system (%s), which any CUDA toolkit of the version in their "+
			"names has: install one, or take the full bundle. `%s` says what is missing.\n",
			strings.Join(slices.DeleteFunc(slices.Clone(i.Needs), func(lib string) bool {
				return !stage.CanCarry(lib)
			}), ", "), says)
	}
	return ""
}

// notesPage is NOTES.md, what a release says of an archive.
func notesPage(i Info, r Packed) []byte {
	var b bytes.Buffer
	name := path.Base(filepath.ToSlash(r.Archive))
	fmt.Fprintf(&b, "# %s\n\n%s %s for %s, %.1f MiB.\n", name, i.Upstream, i.Tag, i.Target, float64(r.Bytes)/(1<<20))
	if text := i.linux(" "); text != "" {
		b.WriteString("\n" + text)
	}
	b.WriteString(i.windows())
	b.WriteString(i.cards())
	b.WriteString(i.toolkit())
	b.WriteString(i.security(0))
	for _, c := range i.Series.In {
		if c.Commit != "" {
			fmt.Fprintf(&b, "\nIt has %s from a later upstream: %s.\n", c.Fix, c.Credit)
		}
	}
	if n := len(r.Parts); n > 0 {
		fmt.Fprintf(&b, "\nIt is given in %d parts. Download all of them and SHA256SUMS, and join them:\n\n    cat "+
			"%s.part* > %s\n    sha256sum --ignore-missing -c SHA256SUMS\n", n, name, name)
	}
	b.WriteString(i.checks())
	return b.Bytes()
}

// Made is what a bundle is made of, as the stages before it left it.
type Made struct {
	Llpatch  string // its own version
	Recipe   spec.Recipe
	Tree     *source.Tree // the tag's
	Patched  string       // id of the patched tree
	Series   *spec.Series
	Plan     build.Plan
	Revision int
	Tools    map[string]string // that built it, and their versions
	Top      string            // the staged folder
	Files    []*binary.File    // its programs and libraries
	Sums     map[string]string // SHA-256 of those that are no links
	Signed   authenticode.Signed
	Carried  []string // libraries of a toolkit among them
	Linked   []string // libraries that are linked into them
	DropIn   string   // the one library; empty: it is the whole target
	Checks   []smoke.Result
	Known    spec.Advisories // of which the bundle says what concerns it
	Vendored []Vendored      // as VendoredIn gives them of the patched tree
}

// Describe gathers what BUILD_INFO.json says.
func Describe(m Made) (Info, error) {
	i := Info{
		Llpatch: m.Llpatch, Upstream: m.Recipe.Upstream, Tag: m.Tree.Tag.String(), Asked: m.Tree.Asked.String(),
		Source: m.Tree.Origin,
		Build:  m.Tree.Pin.Build, Commit: m.Tree.Pin.Commit, Tree: m.Tree.ID(), Patched: m.Patched, Target: m.Recipe.Name,
		Revision: m.Revision, Version: m.Plan.VersionCommit, Carried: m.Carried, Linked: m.Linked, DropIn: m.DropIn,
		Signed: m.Signed,
		Series: m.Series, Plan: m.Plan.Digest, Options: Options(m.Plan), LeftOut: append([]string{}, m.Plan.Off...),
		Tools: m.Tools,
		Glibc: binary.Floor(m.Files, "GLIBC"), Libstdcpp: binary.Floor(m.Files, "GLIBCXX"), Needs: binary.Outside(m.Files),
		Files: m.Files, Sums: m.Sums,
		Check: checkName(m.Recipe.Bundle.Check), Vendored: m.Vendored, WebUI: m.DropIn == "" && m.Plan.WebUI(),
	}
	id := Identity{Upstream: i.Upstream, Build: i.Build, Series: i.Series, DropIn: i.DropIn, Options: i.Options}
	for _, f := range i.Files {
		id.Files = append(id.Files, named{f.Name})
	}
	i.Security = *id.Known(m.Known)
	if i.WebUI && m.Plan.Page != nil {
		i.Page = &m.Plan.Page.Page
	}
	if m.Plan.Root != nil {
		i.Buildenv = m.Plan.Root.Name
	}
	if err := i.read(m); err != nil {
		return i, err
	}
	for _, note := range m.Recipe.Bundle.Notes {
		i.Notes = append(i.Notes, strings.TrimSpace(note))
	}
	if pe := m.Recipe.Verify.PE; pe != nil {
		i.Windows = pe.OS
		i.NVIDIA = nvidiaDLLs(i.Needs, m.Recipe.Bundle.Carry)
	}
	if len(m.Recipe.Bundle.Carry) > 0 {
		i.Runtime = m.Recipe.Bundle.Runtime
	}
	if nvcc := m.Plan.Tools["nvcc"]; nvcc.Path != "" && !m.Plan.CUDA.Seed && m.Plan.Tools["clang"].Path == "" {
		i.MayDiffer = append(i.MayDiffer, MayDiffer{DeviceCode, "nvcc without --frandom-seed writes the number of its " +
			"process into names, which chooses registers too (" + nvcc.Banner + ")"})
	}
	if i.Signer != "" {
		i.MayDiffer = append(i.MayDiffer, MayDiffer{Signature, "an Authenticode signature needs the signer's key"})
	}
	for _, r := range m.Checks {
		i.Checks = append(i.Checks, CheckInfo{Name: r.Name, Verdict: string(r.Verdict), Place: r.Place})
	}
	return i, nil
}

// read reads again what a record of the staged files does not have: all that a verdict on
// device code needs, and which versions of symbols they demand of the system's libraries.
func (i *Info) read(m Made) error {
	var whole []*binary.File
	for _, f := range m.Files {
		file := filepath.Join(m.Top, f.Name)
		if f.PE == nil {
			w, err := binary.ReadLibrary(file)
			if err != nil {
				return err
			}
			w.Name = f.Name
			whole = append(whole, w)
		}
		// NVIDIA's own libraries choose among what they hold for each card.
		cuda := m.Recipe.Verify.CUDA != nil && !stage.CanCarry(path.Base(f.Name))
		if !cuda && m.Recipe.Verify.HIP == nil {
			continue
		}
		w, err := binary.Inspect(file)
		if err != nil {
			return err
		}
		if m.Recipe.Verify.HIP != nil {
			i.AMD = append(i.AMD, binary.GPUs(w)...)
		}
		if v := binary.Judge(w); cuda && v != nil {
			v.Cards = slices.DeleteFunc(v.Cards, func(card binary.Card) bool {
				return m.Recipe.Verify.CUDA.Beyond(card.Capability)
			})
			i.CUDA = v
		}
	}
	if len(whole) == len(m.Files) { // Windows' DLLs have no versions of symbols
		i.Symbols = binary.OutsideVersions(whole)
	}
	return nil
}
