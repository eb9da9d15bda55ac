package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/run"
)

// Card is a graphics card of this machine.
type Card struct {
	Index  int    // as --card counts: nvidia-smi's numbers, HIP's for AMD
	ID     string // NVIDIA's UUID, or the card's name below /sys/class/drm
	Name   string
	Driver string // its version
	GFX    string // AMD's processor, such as gfx1201; empty: not known, or NVIDIA's
}

// Cards are the cards that programs are to run on, and how they are watched.
type Cards struct {
	List   []Card
	Env    []string // KEY=VALUE that show a program these cards and no other
	Probe  Probe    `json:"-"` // of these alone
	Source string   // whose figures they are
}

// String returns the cards' names, the same ones counted.
func (c *Cards) String() string {
	var names []string
	count := map[string]int{}
	for _, card := range c.List {
		if count[card.Name]++; count[card.Name] == 1 {
			names = append(names, card.Name)
		}
	}
	for i, n := range names {
		if count[n] > 1 {
			names[i] = fmt.Sprintf("%d x %s", count[n], n)
		}
	}
	return strings.Join(names, ", ")
}

// listing is how long a tool may take to say which cards there are: without a
// running daemon NVIDIA's driver starts every card first.
const listing = time.Minute

// ChooseCards finds the cards that pick names, numbers or ids with commas between
// them. Where pick is empty, env says which (CUDA_VISIBLE_DEVICES, and
// HIP_VISIBLE_DEVICES for AMD), and where it says nothing, it is the first. The
// error says what was looked for.
func ChooseCards(ctx context.Context, env []string, pick string) (*Cards, error) {
	return chooseCards(ctx, env, pick, "/sys")
}

func chooseCards(ctx context.Context, env []string, pick, sys string) (*Cards, error) {
	_, tool := detect(env, sys)
	var all []Card
	var err error
	visible := []string{"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} // HIP reads both
	switch tool {
	case "":
		return nil, fmt.Errorf("there is no card on this machine: no nvidia-smi, amd-smi or rocm-smi on the PATH, and no "+
			"amdgpu card in %s/class/drm", sys)
	case "nvidia-smi":
		all, err = nvidiaCards(ctx, env)
		visible = visible[1:]
	case "amdgpu":
		all, err = amdCards(sys)
	default:
		return nil, fmt.Errorf("%s is there, but %s/class/drm has no amdgpu card, and only there does llpatch look which "+
			"cards there are", tool, sys)
	}
	if err != nil {
		return nil, err
	}
	from := "--card " + pick
	if pick == "" {
		for _, key := range visible {
			if v, set := run.LookEnv(env, key); set {
				if pick, from = strings.TrimSpace(v), key+"="+v; pick == "" {
					return nil, fmt.Errorf("%s is empty, which hides every card", key)
				}
				break
			}
		}
	}
	if order, _ := run.LookEnv(env, "CUDA_DEVICE_ORDER"); tool == "nvidia-smi" && strings.HasPrefix(from, "CUDA_") &&
		len(all) > 1 && strings.Trim(pick, "0123456789, ") == "" && order != "PCI_BUS_ID" {
		return nil, fmt.Errorf("%s counts the fastest card first, and nvidia-smi counts by bus: set "+
			"CUDA_DEVICE_ORDER=PCI_BUS_ID too, or name the card with --card", from)
	}
	c := &Cards{List: all[:1], Source: tool}
	if pick != "" {
		if c.List, err = named(all, pick); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	}
	var ids, numbers []string
	for _, card := range c.List {
		ids, numbers = append(ids, card.ID), append(numbers, strconv.Itoa(card.Index))
	}
	if tool == "nvidia-smi" {
		c.Env, c.Probe = []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(ids, ",")}, NvidiaSMI(env, ids...)
	} else {
		c.Env, c.Probe = []string{"HIP_VISIBLE_DEVICES=" + strings.Join(numbers, ",")}, AMDSysfs(sys, ids...)
	}
	if v, set := run.LookEnv(env, "LD_LIBRARY_PATH"); set {
		// In containers the driver's libraries are often found by this alone.
		c.Env = append(c.Env, "LD_LIBRARY_PATH="+v)
	}
	return c, nil
}

// named finds the cards of a list of numbers and ids; an id may be cut short, as
// CUDA allows.
func named(all []Card, list string) ([]Card, error) {
	var out []Card
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		var fit []Card
		for _, c := range all {
			if n, err := strconv.Atoi(one); err == nil && n == c.Index || err != nil && one != "" &&
				strings.HasPrefix(c.ID, one) {
				fit = append(fit, c)
			}
		}
		if len(fit) != 1 || slices.Contains(out, fit[0]) {
			have := make([]string, 0, len(all))
			for _, c := range all {
				have = append(have, fmt.Sprintf("%d (%s, %s)", c.Index, c.Name, c.ID))
			}
			return nil, fmt.Errorf("%q names no card, or not one alone; there are %s", one, strings.Join(have, ", "))
		}
		out = append(out, fit[0])
	}
	return out, nil
}

// CardsHidden reports whether env says which cards a program is to see.
func CardsHidden(env []string) bool {
	for _, key := range []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"} {
		if _, set := run.LookEnv(env, key); set {
			return true
		}
	}
	return false
}

// nvidiaCards asks nvidia-smi, which looks at no CUDA_VISIBLE_DEVICES.
func nvidiaCards(ctx context.Context, env []string) ([]Card, error) {
	one, cancel := context.WithTimeout(ctx, listing)
	defer cancel()
	out, err := run.Output(one, run.Cmd{Argv: []string{
		"nvidia-smi", "--query-gpu=index,uuid,name,driver_version",
		"--format=csv,noheader",
	}, Env: env, Grace: -1})
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi does not list the cards: %w", err)
	}
	var all []Card
	for line := range strings.Lines(string(out)) {
		f := fields(line)
		if len(f) != 4 || f[1] == "" {
			continue
		}
		if n, err := strconv.Atoi(f[0]); err == nil {
			all = append(all, Card{Index: n, ID: f[1], Name: f[2], Driver: f[3]})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nvidia-smi lists no card; it printed %q", clip(strings.TrimSpace(string(out)), 200))
	}
	return all, nil
}

// amdCards reads what the amdgpu driver says of its cards, in the order of the
// compute driver's topology, which HIP counts in.
func amdCards(sys string) ([]Card, error) {
	dirs, err := amdDevices(sys)
	if err != nil {
		return nil, err
	}
	driver := word(filepath.Join(sys, "module/amdgpu/version"))
	if driver == "" {
		// Only AMD's own packages give it a version: else it is the kernel's.
		driver = "amdgpu of Linux " + word("/proc/sys/kernel/osrelease")
	}
	place := map[string]int{} // render node -> place in the topology
	gfx := map[int]string{}   // place in the topology -> processor
	for n := range 1 << 10 {
		b, err := os.ReadFile(filepath.Join(sys, "class/kfd/kfd/topology/nodes", strconv.Itoa(n), "properties"))
		if err != nil {
			break
		}
		for line := range strings.Lines(string(b)) {
			switch key, v, _ := strings.Cut(strings.TrimSpace(line), " "); {
			case key == "drm_render_minor" && v != "0":
				place["renderD"+v] = n
			case key == "gfx_target_version":
				gfx[n] = gfxName(v)
			}
		}
	}
	type placed struct {
		Card
		at int
	}
	var all []placed
	for _, dir := range dirs {
		c := placed{Card{
			ID: filepath.Base(filepath.Dir(dir)), Name: word(filepath.Join(dir, "product_name")),
			Driver: driver,
		}, 1 << 10}
		c.Name = cmp.Or(c.Name, strings.TrimSpace("AMD "+word(filepath.Join(dir, "device"))))
		nodes, err := filepath.Glob(filepath.Join(dir, "drm/renderD*"))
		for _, n := range nodes {
			if at, known := place[filepath.Base(n)]; known {
				c.at, c.GFX = at, gfx[at]
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.at - b.at })
	list := make([]Card, len(all))
	for i, c := range all {
		list[i] = c.Card
		list[i].Index = i
	}
	if len(list) == 0 {
		return nil, errors.New("no amdgpu card")
	}
	return list, nil
}

// gfxName turns what the compute driver says of a card into the name of its processor:
// 120001 is gfx1201, and 90010 gfx90a.
func gfxName(version string) string {
	n, err := strconv.Atoi(version)
	if err != nil || n <= 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", n/10000, n/100%100, n%100)
}

// word returns what a small file holds, or "".
func word(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
