//go:build linux

package memory

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	uuid0 = "GPU-11111111-aaaa-bbbb-cccc-000000000000"
	uuid1 = "GPU-22222222-aaaa-bbbb-cccc-000000000000"
)

// smi is an nvidia-smi with two cards of different speed. It heeds -i and not
// CUDA_VISIBLE_DEVICES, as the real one.
const smi = `case $* in
*driver_version*) printf '0, ` + uuid0 + `, Tesla T4, 535.1\n1, ` + uuid1 + `, NVIDIA H100 80GB HBM3, 535.1\n' ;;
*query-gpu*"-i ` + uuid1 + `"*) while :; do echo "1, ` + uuid1 + `, 700, 81559"; sleep 0.05; done ;;
*query-gpu*) while :; do echo "0, ` + uuid0 + `, 5, 15360"; echo "1, ` + uuid1 + `, 700, 81559"; sleep 0.05; done ;;
*) exec sleep 60 ;;
esac
`

func TestChooseNvidia(t *testing.T) {
	t.Parallel()
	env := tool(t, "nvidia-smi", smi)
	for name, tc := range map[string]struct {
		env  []string
		pick string
		want string // the value of CUDA_VISIBLE_DEVICES
		bad  string // in the error
	}{
		"the first":             {nil, "", uuid0, ""},
		"a number":              {nil, "1", uuid1, ""},
		"both":                  {nil, "1, 0", uuid1 + "," + uuid0, ""},
		"by id":                 {nil, uuid1, uuid1, ""},
		"by the start of an id": {[]string{"CUDA_VISIBLE_DEVICES=GPU-2222"}, "", uuid1, ""},
		"the flag counts":       {[]string{"CUDA_VISIBLE_DEVICES=GPU-2222"}, "0", uuid0, ""},
		"by bus":                {[]string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1"}, "", uuid1, ""},
		"the last word counts":  {[]string{"CUDA_VISIBLE_DEVICES=GPU-1", "CUDA_VISIBLE_DEVICES=GPU-2"}, "", uuid1, ""},
		// CUDA counts the H100 first, nvidia-smi the T4.
		"by speed": {[]string{"CUDA_VISIBLE_DEVICES=0"}, "", "", "set CUDA_DEVICE_ORDER=PCI_BUS_ID too"},
		"hidden": {
			[]string{"CUDA_VISIBLE_DEVICES="},
			"", "",
			"CUDA_VISIBLE_DEVICES is empty, which hides every card",
		},
		"hidden by -1": {[]string{"CUDA_VISIBLE_DEVICES=-1"}, "", "", `CUDA_VISIBLE_DEVICES=-1: "-1" names no card`},
		"no such number": {nil, "2", "", `--card 2: "2" names no card, or not one alone; there are 0 (Tesla T4, ` +
			uuid0 + `), 1 (NVIDIA H100`},
		"two with that start": {nil, "GPU-", "", `"GPU-" names no card, or not one alone`},
		"twice":               {nil, "0,0", "", `"0" names no card, or not one alone`},
		"a part of a card":    {[]string{"CUDA_VISIBLE_DEVICES=MIG-33333333"}, "", "", `"MIG-33333333" names no card`},
		"nothing between":     {nil, "0,,1", "", `"" names no card`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := chooseCards(t.Context(), slices.Concat(env, []string{"LD_LIBRARY_PATH=/driver"}, tc.env), tc.pick,
				t.TempDir())
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("got %v, want %s", err, tc.bad)
				}
				return
			}
			if err != nil || !slices.Equal(c.Env, []string{"CUDA_VISIBLE_DEVICES=" + tc.want, "LD_LIBRARY_PATH=/driver"}) {
				t.Fatalf("%+v, %v; want %s", c, err, tc.want)
			}
			if c.Source != "nvidia-smi" || c.List[0].Driver != "535.1" {
				t.Errorf("%+v", c)
			}
		})
	}
}

// The chosen card is the one whose memory is read.
func TestChosenIsWatched(t *testing.T) {
	t.Parallel()
	c, err := chooseCards(t.Context(), tool(t, "nvidia-smi", smi), "1", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got Reading
	err = c.Probe(ctx, 50*time.Millisecond, func() []int { return nil }, func(r Reading) { got = r; cancel() })
	if err != nil || got.Cards != 1 || got.Used != 700<<20 || got.Total != 81559<<20 {
		t.Errorf("%+v, %v", got, err)
	}
	if c.String() != "NVIDIA H100 80GB HBM3" {
		t.Errorf("%s", c)
	}
}

func TestNoCard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tool, script, want string
	}{
		"nothing": {"other", "", "there is no card on this machine: no nvidia-smi, amd-smi or rocm-smi on the PATH, and " +
			"no amdgpu card in "},
		"no driver": {"nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA " +
			"driver.'; exit 9", "nvidia-smi does not list the cards: "},
		"garbage": {
			"nvidia-smi", "echo 'No devices were found'",
			`nvidia-smi lists no card; it printed "No devices were found"`,
		},
		"no sysfs": {"rocm-smi", "", "rocm-smi is there, but "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := chooseCards(t.Context(), tool(t, tc.tool, tc.script), "", t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// Two amdgpu cards, which HIP counts the other way round, and another driver's.
func TestChooseAMD(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	for name, text := range map[string]string{
		"class/drm/card0/device/vendor":                 "0x8086\n",
		"class/drm/card1/device/mem_info_vram_used":     "100\n",
		"class/drm/card1/device/mem_info_vram_total":    "1000\n",
		"class/drm/card1/device/device":                 "0x744c\n",
		"class/drm/card1/device/drm/renderD129/dev":     "226:129\n",
		"class/drm/card2/device/mem_info_vram_used":     "300\n",
		"class/drm/card2/device/mem_info_vram_total":    "3000\n",
		"class/drm/card2/device/product_name":           "AMD Instinct MI210\n",
		"class/drm/card2/device/drm/renderD130/dev":     "226:130\n",
		"class/kfd/kfd/topology/nodes/0/properties":     "cpu_cores_count 16\ndrm_render_minor 0\n",
		"class/kfd/kfd/topology/nodes/1/properties":     "simd_count 416\ngfx_target_version 90010\ndrm_render_minor 130\n",
		"class/kfd/kfd/topology/nodes/2/properties":     "simd_count 192\ngfx_target_version 120001\ndrm_render_minor 129\n",
		"module/amdgpu/version":                         "6.7.0\n",
		"class/drm/card1-HDMI-A-1/status":               "connected\n",
		"class/drm/card2/device/drm/card2/power/status": "on\n",
	} {
		path := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + t.TempDir()}
	for _, tc := range []struct {
		env        []string
		pick, want string
		used       int64
		visible    string
	}{
		{nil, "", "AMD Instinct MI210", 300, "0"},
		{nil, "1", "AMD 0x744c", 100, "1"},
		{nil, "card1,card2", "AMD 0x744c, AMD Instinct MI210", 400, "1,0"},
		{[]string{"CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=1"}, "", "AMD 0x744c", 100, "1"},
		{[]string{"CUDA_VISIBLE_DEVICES=1"}, "", "AMD 0x744c", 100, "1"},
	} {
		c, err := chooseCards(t.Context(), slices.Concat(env, tc.env), tc.pick, sys)
		if err != nil {
			t.Fatal(err)
		}
		for _, card := range c.List {
			if card.GFX != map[string]string{"AMD Instinct MI210": "gfx90a", "AMD 0x744c": "gfx1201"}[card.Name] {
				t.Errorf("%+v", card)
			}
		}
		if c.String() != tc.want || !slices.Equal(c.Env, []string{"HIP_VISIBLE_DEVICES=" + tc.visible}) ||
			c.List[0].Driver != "6.7.0" || c.Source != "amdgpu" {
			t.Errorf("%v %q: %+v", tc.env, tc.pick, c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var got Reading
		if err := c.Probe(ctx, time.Second, func() []int {
			return nil
		}, func(r Reading) { got = r; cancel() }); err != nil || got.Used != tc.used {
			t.Errorf("%v %q: %+v, %v", tc.env, tc.pick, got, err)
		}
		cancel()
	}
}

var onCard = flag.Bool("card", false, "choose this machine's card and read its memory")

// TestGivenCard finds the card of a machine that has one, by number and by id, and
// reads the memory of that card alone.
func TestGivenCard(t *testing.T) {
	if !*onCard {
		t.Skip("no -card: only a machine that has one can show it")
	}
	first, err := ChooseCards(t.Context(), os.Environ(), "0")
	if err != nil {
		t.Fatal(err)
	}
	byID, err := ChooseCards(t.Context(), os.Environ(), first.List[0].ID)
	if err != nil || !slices.Equal(byID.List, first.List) {
		t.Fatalf("%+v, %v; by number it is %+v", byID, err, first)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got Reading
	if err := byID.Probe(ctx, 50*time.Millisecond, func() []int {
		return nil
	}, func(r Reading) { got = r; cancel() }); err != nil || got.Cards != 1 || got.Total == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	t.Logf("%+v, %d of %d MiB taken, %v", byID.List, got.Used>>20, got.Total>>20, byID.Env)
}
