package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// AMDSysfs returns a probe of the figures that the amdgpu driver keeps in
// sysfs (mem_info_vram_used and _total, in bytes): what the tools below read too,
// without starting Python for every look. root is "/sys" but in tests; cards are
// names in its class/drm, none for all.
func AMDSysfs(root string, cards ...string) Probe {
	return Poll("amdgpu", func(context.Context, []int) (Reading, error) { return readSysfs(root, cards) })
}

// amdDevices are the folders of amdgpu's cards, and of no other driver's and no
// connector.
func amdDevices(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "class/drm/card[0-9]*/device/mem_info_vram_used"))
	for i, f := range files {
		files[i] = filepath.Dir(f)
	}
	return files, err
}

func readSysfs(root string, cards []string) (Reading, error) {
	dirs, err := amdDevices(root)
	if err != nil {
		return Reading{}, err
	}
	var r Reading
	for _, dir := range dirs {
		if len(cards) > 0 && !slices.Contains(cards, filepath.Base(filepath.Dir(dir))) {
			continue
		}
		used, err1 := readInt(filepath.Join(dir, "mem_info_vram_used"))
		total, err2 := readInt(filepath.Join(dir, "mem_info_vram_total"))
		if err := errors.Join(err1, err2); err != nil {
			return Reading{}, err
		}
		r.Used, r.Total, r.Cards = r.Used+used, r.Total+total, r.Cards+1
	}
	if r.Cards == 0 {
		return Reading{}, fmt.Errorf("no amdgpu card in %s/class/drm: %w", root, errNoReading)
	}
	r.Notes = []string{amdShared}
	return r, nil
}

// amdShared is said of every AMD figure: none of the sources below is asked for
// the programs on a card.
const amdShared = "the figures are the cards', less what was taken before: another program using one would " +
	"not be noticed"

func readInt(name string) (int64, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 63)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s holds %q, no number of bytes", name, clip(string(b), 40))
	}
	return n, nil
}

// AMDSMI returns a probe that asks amd-smi once a look (ROCm 6 and newer; it is
// Python and takes some 0.3 s, so looks come more slowly than asked for).
func AMDSMI(env []string) Probe {
	return amdTool("amd-smi", []string{"metric", "--mem-usage", "--json"}, env, parseAMDSMI)
}

// ROCmSMI returns a probe that asks rocm-smi, which older systems have, once a look.
func ROCmSMI(env []string) Probe {
	return amdTool("rocm-smi", []string{"--showmeminfo", "vram", "--json"}, env, parseROCmSMI)
}

func amdTool(name string, args, env []string, parse func([]byte) (Reading, error)) Probe {
	return Poll(name, func(ctx context.Context, _ []int) (Reading, error) {
		out, err := run.Output(ctx, run.Cmd{Argv: append([]string{name}, args...), Env: env, Grace: -1})
		if errors.Is(err, run.ErrNotFound) {
			return Reading{}, fmt.Errorf("it is not installed; install %s", name)
		}
		if err != nil {
			return Reading{}, err
		}
		r, err := parse(out)
		if err != nil {
			return Reading{}, fmt.Errorf("it printed %q: %w", clip(strings.TrimSpace(string(out)), 200), err)
		}
		r.Notes = append(r.Notes, amdShared)
		return r, nil
	})
}

// parseAMDSMI reads amd-smi's list of cards, which ROCm 6.4 and newer wrap in
// "gpu_data". A card that says N/A is left out.
func parseAMDSMI(b []byte) (Reading, error) {
	type amount struct {
		Value json.RawMessage `json:"value"`
		Unit  string          `json:"unit"`
	}
	type entry struct {
		MemUsage json.RawMessage `json:"mem_usage"`
	}
	var list []entry
	if err := json.Unmarshal(b, &list); err != nil {
		var wrapped struct {
			Data []entry `json:"gpu_data"`
		}
		if json.Unmarshal(b, &wrapped) != nil {
			return Reading{}, fmt.Errorf("%w: %w", errNoReading, err)
		}
		list = wrapped.Data
	}
	bytes := func(a amount) (int64, bool) {
		scale := map[string]float64{"": 1 << 20, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[a.Unit]
		v, err := strconv.ParseFloat(strings.Trim(string(a.Value), `"`), 64)
		return int64(v * scale), err == nil && scale > 0 && v >= 0 && v*scale < 1<<50
	}
	var r Reading
	for _, e := range list {
		var m struct {
			Total amount `json:"total_vram"`
			Used  amount `json:"used_vram"`
		}
		if json.Unmarshal(e.MemUsage, &m) != nil {
			continue
		}
		used, ok1 := bytes(m.Used)
		total, ok2 := bytes(m.Total)
		if ok1 && ok2 && total > 0 {
			r.Used, r.Total, r.Cards = r.Used+used, r.Total+total, r.Cards+1
		}
	}
	if r.Cards == 0 {
		return Reading{}, errNoReading
	}
	return r, nil
}

// parseROCmSMI reads rocm-smi's object of cards, whose figures are strings of
// bytes; "VRAM" is in small letters in some releases.
func parseROCmSMI(b []byte) (Reading, error) {
	// A warning may stand before the object.
	if i := strings.IndexByte(string(b), '{'); i > 0 {
		b = b[i:]
	}
	var cards map[string]map[string]any
	if err := json.Unmarshal(b, &cards); err != nil {
		return Reading{}, fmt.Errorf("%w: %w", errNoReading, err)
	}
	var r Reading
	for _, fields := range cards {
		var used, total int64 = -1, -1
		for key, v := range fields {
			s, ok := v.(string)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(s, 10, 50)
			if err != nil || n < 0 {
				continue
			}
			switch strings.ToLower(key) {
			case "vram total memory (b)":
				total = n
			case "vram total used memory (b)":
				used = n
			}
		}
		if used >= 0 && total > 0 {
			r.Used, r.Total, r.Cards = r.Used+used, r.Total+total, r.Cards+1
		}
	}
	if r.Cards == 0 {
		return Reading{}, errNoReading
	}
	return r, nil
}

// Detect chooses the probe that fits this machine: nvidia-smi where it is
// installed, else amdgpu's figures, amd-smi or rocm-smi; its name, or "" and nil
// where there is nothing that knows a card.
func Detect(env []string) (Probe, string) { return detect(env, "/sys") }

func detect(env []string, sys string) (Probe, string) {
	has := func(name string) bool { _, err := run.LookPathIn(env, name); return err == nil }
	if has("nvidia-smi") {
		return NvidiaSMI(env), "nvidia-smi"
	}
	if _, err := readSysfs(sys, nil); err == nil {
		return AMDSysfs(sys), "amdgpu"
	}
	if has("amd-smi") {
		return AMDSMI(env), "amd-smi"
	}
	if has("rocm-smi") {
		return ROCmSMI(env), "rocm-smi"
	}
	return nil, ""
}
