package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/llpatch/llpatch/internal/binary"
	"github.com/llpatch/llpatch/internal/bundle"
	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/spec"
	"github.com/llpatch/llpatch/internal/stage"
)

// Bundle says whether a bundle runs on this machine: a folder, a tar.gz or one of its
// parts, or a single program; and which of the known security defects it has. env is the user's.
// The error is a *NotBundle, one of
// reading the file, or the context's.
func Bundle(ctx context.Context, env []string, known spec.Advisories, file string) (*Report, error) {
	libs, err := binary.SystemLibraries(ctx, env)
	if err != nil {
		return nil, err
	}
	h, err := read(ctx, file, libs)
	if err != nil {
		return nil, err
	}
	r := &Report{Kind: h.kind, Subject: filepath.Base(filepath.Clean(file)), Findings: []Finding{}}
	var llama *binary.Llama
	for _, f := range h.files {
		if llama == nil || llama.Build == 0 {
			llama = cmp.Or(f.Llama, llama)
		}
	}
	if id, ok := bundle.Identify(h.info, llama); ok {
		r.Security = id.Known(known)
	}
	machine := r.machine(h)
	for _, f := range h.faults {
		r.lacks("bundle", "", "%s.", f)
	}
	if h.unfinished != "" {
		r.unknown("bundle", "", "It lies in %s, a folder to build in: whether all of it is built is not known.", h.unfinished)
	}
	if machine {
		r.inside(h)
		r.rights(h)
		r.backends(h)
		if err := r.libraries(h, libs, env); err != nil {
			return nil, err
		}
		r.together(h)
		if err := r.cards(ctx, h, env); err != nil {
			return nil, err
		}
	}
	return r.judge(), nil
}

// windowsBundle is what to do with one for Windows, which cannot be judged for this machine.
const windowsBundle = "llpatch inspect --os win7 FOLDER, or win7-vxkex, says what Windows 7 lacks for it; " +
	"check-win7.cmd in it looks at the Windows machine"

// machine compares the kind of machine; nothing else can be said of another's files.
func (r *Report) machine(h *held) bool {
	mine := bundle.Machine()
	var others []string
	for _, f := range h.files {
		if f.Machine != mine && !slices.Contains(others, f.Machine) {
			others = append(others, f.Machine)
		}
	}
	switch {
	case runtime.GOOS != "linux":
		r.lacks("machine", "", "It is for Linux, and this machine runs %s.", runtime.GOOS)
	case len(others) > 0:
		if f := h.files[0]; f.MachO != nil || f.Wasm != nil {
			r.foreign(f)
			return false
		}
		fix := bundle.HintOtherBuild
		if slices.ContainsFunc(others, func(m string) bool { return strings.HasPrefix(m, "IMAGE_FILE_") }) {
			fix = windowsBundle
		}
		r.lacks("machine", fix, "It is for %s, and this machine is %s.", strings.Join(others, " and "), mine)
	default:
		r.ok("machine", "It is for Linux and %s, as this machine is.", strings.TrimPrefix(mine, "EM_"))
		return true
	}
	return false
}

// foreign says what a file for another kind of system is for.
func (r *Report) foreign(f *binary.File) {
	if w := f.Wasm; w != nil {
		r.lacks("machine", "", "%s is a WebAssembly %s for %s; no Linux loads it by itself.", f.Name, w.Kind, w.For)
		return
	}
	r.lacks("machine", bundle.HintOtherBuild, "%s is a Mach-O %s for %s on %s, and this machine is Linux on %s.", f.Name,
		f.MachO.Kind, f.MachO.System, strings.Join(f.MachO.Archs, " and "), strings.TrimPrefix(bundle.Machine(), "EM_"))
}

// inside looks at what the files need of one another.
func (r *Report) inside(h *held) {
	lost := map[string][]string{} // by file
	for _, u := range binary.Unreachable(h.files) {
		if !foundBy(u) {
			lost[u.File] = append(lost[u.File], u.Lib)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		r.lacks("bundle", "put its folder into LD_LIBRARY_PATH", "%s does not find what it needs of the bundle (%s): its "+
			"RUNPATH does not lead there.", name, strings.Join(lost[name], ", "))
	}
	elsewhere := map[string][]string{} // files by the folder that they name
	for _, f := range h.own() {
		for _, p := range f.RunPath {
			if _, own := binary.CutOrigin(p); !own {
				elsewhere[p] = append(elsewhere[p], f.Name)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(elsewhere)) {
		who := elsewhere[p][0] + " looks"
		if n := len(elsewhere[p]) - 1; n > 0 {
			who = fmt.Sprintf("%s and %s look", elsewhere[p][0], count(n, "other file", "other files"))
		}
		r.without("bundle", "", "%s for libraries in %s.", who, where(p))
	}
}

// together says, behind the first line, that the files find one another, where nothing
// that any of them needs is missing.
func (r *Report) together(h *held) {
	n := len(h.own())
	lacking := func(f Finding) bool {
		return f.Status == Missing && (f.About == "bundle" || f.About == "library")
	}
	if n < 2 || len(binary.Roots(h.files)) == 0 || slices.ContainsFunc(r.Findings, lacking) {
		return
	}
	said := Finding{About: "bundle", Status: OK, Says: fmt.Sprintf("Its %d files find one another.", n)}
	r.Findings = slices.Insert(r.Findings, 1, said)
}

// foundBy reports whether a folder of this machine that a file names has the library,
// as that of a build has where it was made.
func foundBy(u binary.Unfound) bool {
	return slices.ContainsFunc(u.RunPath, func(dir string) bool {
		if !filepath.IsAbs(dir) {
			return false
		}
		_, err := os.Stat(filepath.Join(dir, u.Lib))
		return err == nil
	})
}

func where(p string) string {
	if p == "" {
		return "the folder in which the user is: its RUNPATH has an empty entry"
	}
	return p + ", a folder of the machine that built it"
}

// libraries looks for what the bundle needs of this machine.
func (r *Report) libraries(h *held, libs *binary.Libraries, env []string) error {
	mine := bundle.Machine()
	for _, f := range h.files {
		if _, err := os.Stat(f.Interp); f.Interp != "" && err != nil {
			r.lacks("loader", bundle.HintGlibc, "%s asks for the loader %s, which is not here: this Linux has another C "+
				"library, or keeps it elsewhere.", f.Name, f.Interp)
			break
		}
	}
	var here []string
	for _, lib := range binary.Outside(h.files) {
		switch {
		case h.find(libs, lib) != "":
			here = append(here, lib)
		case h.spare(libs, lib):
			r.without("library", remedy(lib, mine, env), "%s needs %s, which is not here: that backend is not loaded.",
				strings.Join(h.needing(lib), ", "), lib)
		case binary.FromDriver(lib):
			r.lacks("library", bundle.HintLibcuda, "%s needs %s, which comes with NVIDIA's driver and is not here.",
				strings.Join(h.needing(lib), ", "), lib)
		default:
			r.lacks("library", remedy(lib, mine, env), "%s needs %s, which is not here.", strings.Join(h.needing(lib), ", "),
				lib)
		}
	}
	if len(here) > 0 {
		r.ok("library", "What it needs of the system and is here: %s.", strings.Join(here, ", "))
	}
	return r.versions(h, libs, here)
}

// needing names the files that need a library.
func (h *held) needing(lib string) []string {
	var names []string
	for _, f := range h.own() {
		if slices.Contains(f.Needed, lib) {
			names = append(names, f.Name)
		}
	}
	return names
}

// remedy says how to get a library.
func remedy(lib, machine string, env []string) string {
	for _, pattern := range bundle.ToolkitFolders {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			continue // the patterns are ours
		}
		for _, dir := range dirs {
			if binary.LibrariesIn(dir).Find(lib, machine) != "" {
				set := ""
				for _, e := range env {
					if v, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok && v != "" {
						set = ":$LD_LIBRARY_PATH"
					}
				}
				return "it lies in a folder that the loader does not know: export LD_LIBRARY_PATH=" + dir + set
			}
		}
	}
	var ways []string
	if p := bundle.DebianPackage(lib); p != "" {
		ways = append(ways, "on Debian and Ubuntu: apt-get install "+p)
	}
	if instead := bundle.Instead(lib); instead != "" {
		ways = append(ways, instead)
	}
	return strings.Join(ways, ", or ")
}

// cards compares device code with the cards of this machine.
func (r *Report) cards(ctx context.Context, h *held, env []string) error {
	type judged struct {
		name string
		*binary.Verdict
	}
	var device []judged
	amd, other := false, r.otherCards(h)
	for _, f := range h.own() {
		if v := binary.Judge(f); v != nil && !stage.CanCarry(path.Base(f.Name)) {
			device = append(device, judged{f.Name, v})
		}
		if gpus := binary.GPUs(f); len(gpus) > 0 {
			if !amd {
				r.device("/dev/kfd", bundle.HintAMDGroup)
			}
			amd = true
			if err := r.onAMD(ctx, f.Name, gpus, env, other); err != nil {
				return err
			}
		}
	}
	if len(device) == 0 {
		if !amd && !other {
			r.ok("card", "It needs no card: it runs on the processor.")
		}
		return nil
	}
	r.device("/dev/nvidiactl", bundle.HintNVIDIAGroup)
	cards, err := memory.NvidiaCards(ctx, env)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.noDriver(other, bundle.HintNVIDIA, "NVIDIA", err)
		return nil
	}
	for _, c := range cards {
		for _, d := range device {
			r.onCard(c, d.name, d.Verdict)
		}
	}
	return nil
}

// otherCards says what else a file computes with than NVIDIA's and AMD's device code, which is told from
// what it needs, and reports whether there is something.
func (r *Report) otherCards(h *held) (some bool) {
	by := map[string][]string{} // files by what they use
	for _, f := range h.own() {
		for _, kind := range f.Uses {
			by[kind] = append(by[kind], f.Name)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		if kind == "cuda" || kind == "hip" || kind == "rpc" {
			continue
		}
		some = true
		u, _ := binary.UseOf(kind)
		fix, who := "", by[kind][0]+" runs"
		if kind == "vulkan" {
			fix = "vulkaninfo --summary lists the cards"
		}
		if n := len(by[kind]) - 1; n > 0 {
			who = fmt.Sprintf("%s and %s run", by[kind][0], count(n, "other file", "other files"))
		}
		r.unknown("card", fix, "%s on %s: whether one is here is not looked at.", who, u.On)
	}
	return some
}

// device looks whether the user may use the device of a driver, where it is there.
func (r *Report) device(file, fix string) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		_ = f.Close() // nothing was written
	} else if errors.Is(err, fs.ErrPermission) {
		r.lacks("device", fix, "You may not use %s.", file)
	}
}

// noDriver says that no card of a maker is here; that stops nobody where there is other code.
func (r *Report) noDriver(other bool, hint, maker string, err error) {
	if other {
		r.without("card", hint+" where there is a card", "No card of %s is here: %s.", maker, oneLine(err))
		return
	}
	r.lacks("card", hint+" where there is a card", "It is for %s cards and would use the processor alone: %s.", maker,
		oneLine(err))
}

// onAMD says on which of this machine's AMD cards a file's code objects run; other: it has code
// for others too.
func (r *Report) onAMD(ctx context.Context, file string, gpus []binary.GPU, env []string, other bool) error {
	cards, err := memory.ChooseCards(ctx, env, "")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.noDriver(other, bundle.HintAMD, "AMD", err)
		return nil
	}
	for _, c := range cards.List {
		name := fmt.Sprintf("card %d, %s", c.Index, c.Name)
		i := slices.IndexFunc(gpus, func(g binary.GPU) bool { return g.GFX == c.GFX })
		switch {
		case c.GFX == "":
			r.unknown("card", "", "%s: whether %s runs on it is not known, because its driver does not tell the processor.",
				name, file)
		case i < 0:
			r.lacks("card", bundle.HintOtherBuild, "%s holds nothing for %s, which is %s.", file, name, c.GFX)
		case gpus[i].Missing > 0:
			r.lacks("card", "", "%s runs on %s, which is %s, only in part: %d of its %d bundles hold nothing for it.", file,
				name, c.GFX, gpus[i].Missing, gpus[i].Bundles)
		default:
			r.ok("card", "%s runs on %s, which is %s, by %s.", file, name, c.GFX, strings.Join(gpus[i].By, " "))
		}
	}
	return nil
}

// onCard says whether a file's code runs on a card, and with its driver.
func (r *Report) onCard(c memory.NvidiaCard, file string, v *binary.Verdict) {
	name := fmt.Sprintf("card %d, %s", c.Index, c.Name)
	if c.Capability == "" {
		r.unknown("card", "", "%s: whether %s runs on it is not known, because its driver does not tell the compute "+
			"capability.", name, file)
		return
	}
	jit := false
	by := ""
	i := slices.IndexFunc(v.Cards, func(k binary.Card) bool { return k.Capability == c.Capability })
	switch {
	case i >= 0 && v.Cards[i].Missing > 0:
		r.lacks("card", "", "%s runs on %s, of compute capability %s, only in part: %d of its %d fatbins hold "+
			"nothing for it.", file, name, c.Capability, v.Cards[i].Missing, v.Cards[i].Fatbins)
		return
	case i >= 0:
		by, jit = strings.Join(v.Cards[i].By, " and "), v.Cards[i].JIT
	case v.Newer && !binary.KnownCapability(c.Capability):
		by, jit = "PTX", true
	default:
		r.lacks("card", bundle.HintOtherBuild, "%s holds nothing for %s, of compute capability %s.", file, name, c.Capability)
		return
	}
	r.ok("card", "%s runs on %s, of compute capability %s, by %s.", file, name, c.Capability, by)
	if slices.ContainsFunc(strings.Fields(by), binary.OfFamily) && binary.Less(c.Driver, binary.FamilyDriver) {
		r.unknown("driver", bundle.HintNewerDriver, "Whether driver %s loads %s is not known: it is machine code for a family "+
			"of cards, whose first toolkit came with %s.", c.Driver, by, binary.FamilyDriver)
	}
	for i, d := range []*binary.Driver{v.Driver, v.JIT} {
		switch {
		case d == nil || i == 1 && !jit:
		case d.Version == "":
			r.unknown("driver", "", "%s needs a driver %s (%s), and card %d has %s.", file, d, d.Why, c.Index, c.Driver)
		case binary.Less(c.Driver, d.Version):
			r.lacks("driver", bundle.HintNewerDriver+d.Elder(i == 1, c.Driver), "%s needs driver %s (%s), and card %d has %s.",
				file, d, d.Why, c.Index, c.Driver)
		default:
			r.ok("driver", "%s needs driver %s, and card %d has %s.", file, d, c.Index, c.Driver)
		}
	}
}
