package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/spec"
)

// listed are the sums in a file as sha256sum writes it, by name.
func listed(sums []byte) map[string]string {
	all := map[string]string{}
	for _, s := range bundle.Sums(sums) {
		all[s.Name] = s.SHA256
	}
	return all
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// content looks at what an archive holds, and returns what it says of itself, nil for one that
// is not llpatch's.
func (r *Report) content(m *members, o Options) *bundle.Info {
	for _, odd := range m.odd {
		r.wrong("files", "%s", odd)
	}
	var llama *binary.Llama
	for _, f := range m.bins {
		if llama == nil || llama.Build == 0 { // one that has no number says less than another
			llama = cmp.Or(f.Llama, llama)
		}
	}
	text := m.text[bundle.InfoFile]
	if id, ok := bundle.Identify(text, llama); ok {
		r.Security = id.Known(o.Advisories)
	}
	if _, there := m.files[bundle.InfoFile]; text == nil && !there {
		r.foreign(m, llama, o)
		return nil
	}
	for _, strange := range m.strange {
		r.wrong("files", "%s", strange)
	}
	if text == nil {
		r.wrong("manifest", "BUILD_INFO.json cannot be read: it is larger than that of any bundle, or a program.")
		return nil
	}
	info, err := bundle.ReadInfo(text)
	if err != nil {
		r.wrong("manifest", "BUILD_INFO.json cannot be read: %v.", err)
		return nil
	}
	r.Tag, r.Target = info.Tag, info.Target
	if o.Expect != "" && info.Tag != o.Expect {
		r.wrong("manifest", "It is of %s, and %s was expected.", info.Tag, o.Expect)
	}
	r.sums(m)
	r.patches(m, info)
	r.programs(m, info)
	return &info
}

// sums compares the files with the SHA256SUMS among them, both ways.
func (r *Report) sums(m *members) {
	said, bad := listed(m.text[bundle.SumsFile]), 0
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		switch want, ok := said[name]; {
		case name == bundle.SumsFile:
		case !ok:
			bad++
			r.wrong("files", "%s is in it, and its SHA256SUMS does not name it.", name)
		case want != m.files[name]:
			bad++
			r.wrong("files", "%s is not what SHA256SUMS says it is.", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if _, ok := m.files[name]; !ok {
			bad++
			r.wrong("files", "%s is not in it, and its SHA256SUMS names it.", name)
		}
	}
	if bad == 0 {
		r.is("files", "Each of its %d files is what its SHA256SUMS says, and there is no other.", len(m.files)-1)
	}
}

// patches compares the patches with the manifest.
func (r *Report) patches(m *members, info bundle.Info) {
	have := 0
	for name := range m.files {
		if strings.HasPrefix(name, "PATCHES/") && strings.HasSuffix(name, ".patch") {
			have++
		}
	}
	bad := have != len(info.Series.In)
	for n, fix := range info.Series.In {
		bad = bad || m.files[fmt.Sprintf("PATCHES/%04d-%s.patch", n+1, fix.Fix)] != fix.SHA256
	}
	if bad {
		r.wrong("patches", "PATCHES/ is not the series of BUILD_INFO.json.")
		return
	}
	r.is("patches", "PATCHES/ is the series of BUILD_INFO.json: %d fixes on %s, tree %s.", len(info.Series.In), info.Tag,
		info.Tree)
}

// programs compares the programs and libraries with the manifest, by what they say themselves.
func (r *Report) programs(m *members, info bundle.Info) {
	before := len(r.Findings)
	said := map[string]*binary.File{}
	for _, f := range info.Files {
		said[f.Name] = f
	}
	for _, f := range m.bins {
		s := said[f.Name]
		switch {
		case s == nil:
			r.wrong("programs", "%s is in it, and BUILD_INFO.json does not name it.", f.Name)
		case s.Machine != f.Machine || !slices.Equal(s.Needed, f.Needed) || s.SOName != f.SOName || s.BuildID != f.BuildID:
			r.wrong("programs", "%s is another file than BUILD_INFO.json describes.", f.Name)
		case info.Sums[f.Name] != m.files[f.Name]:
			r.wrong("programs", "%s has another SHA-256 than BUILD_INFO.json says.", f.Name)
		}
		delete(said, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if m.links[name] == "" {
			r.wrong("programs", "%s is not in it, and BUILD_INFO.json names it.", name)
		}
	}
	if glibc := binary.Floor(m.bins, "GLIBC"); glibc != info.Glibc {
		r.wrong("programs", "It needs glibc %s, and BUILD_INFO.json says %s.", glibc, info.Glibc)
	}
	for _, u := range binary.Unreachable(m.bins) {
		r.wrong("programs", "%s needs %s of the bundle and does not find it.", u.File, u.Lib)
	}
	if len(r.Findings) == before {
		r.is("programs", "Its %d programs and libraries are those of BUILD_INFO.json, and find one another.", len(m.bins))
	}
}

// foreign says what somebody else's archive is, as far as its files tell.
func (r *Report) foreign(m *members, llama *binary.Llama, o Options) {
	if len(m.bins) == 0 {
		r.open("manifest", "It holds no program and no library: nothing can be said of it.")
		return
	}
	what := "which build of llama.cpp it is, and so which known defects it has, its files do not say"
	if llama != nil && llama.Build > 0 {
		r.Tag = fmt.Sprintf("b%d", llama.Build)
		name := spec.LlamaCpp
		if llama.Ik {
			name = spec.IkLlamaCpp
		}
		what = fmt.Sprintf("its programs say that they are build %d of %s", llama.Build, name)
		if o.Expect != "" && o.Expect != r.Tag {
			r.wrong("manifest", "Its programs say %s, and %s was expected.", r.Tag, o.Expect)
		}
	}
	r.open("manifest", "It is not llpatch's (it has no BUILD_INFO.json); %s. From which source and by whom it was "+
		"built cannot be known from it.", what)
	var machines, backends []string
	for _, f := range m.bins {
		machines = append(machines, strings.TrimPrefix(f.Machine, "EM_"))
		if name := binary.BackendOfName(path.Base(f.Name)); name != "" {
			backends = append(backends, name)
		}
	}
	slices.Sort(machines)
	slices.Sort(backends)
	about := []string{fmt.Sprintf("%d programs and libraries for %s", len(m.bins),
		strings.Join(slices.Compact(machines), ", "))}
	if backends = slices.Compact(backends); len(backends) > 0 {
		about = append(about, "the backends "+strings.Join(backends, ", "))
	}
	if glibc := binary.Floor(m.bins, "GLIBC"); glibc != "" {
		about = append(about, "glibc "+glibc+" or newer")
	}
	for _, f := range m.bins {
		if v := binary.Judge(f); v != nil {
			about = append(about, fmt.Sprintf("%s with code for NVIDIA cards (%s)", f.Name, joined(v.Cards)))
		}
		if gpus := binary.GPUs(f); len(gpus) > 0 {
			about = append(about, fmt.Sprintf("%s with code for AMD cards (%s)", f.Name, joined(gpus)))
		}
	}
	r.is("programs", "It holds %s. llpatch inspect says more of each.", strings.Join(about, "; "))
}

// joined are the names of cards.
func joined[T any](all []T) string {
	var names []string
	for _, a := range all {
		names = append(names, fmt.Sprint(a))
	}
	return strings.Join(names, "; ")
}
