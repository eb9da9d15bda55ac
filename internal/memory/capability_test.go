//go:build linux

package memory

import (
	"strings"
	"testing"
)

func TestNvidiaCards(t *testing.T) {
	t.Parallel()
	list := `*driver_version*) printf '0, ` + uuid0 + `, Tesla T4, 535.1\n1, ` + uuid1 +
		`, NVIDIA H100 80GB HBM3, 535.1\n' ;;`
	for name, c := range map[string]struct {
		script string
		want   []string // capabilities
		bad    string
	}{
		"both": {
			"case $* in " + list + `*compute_cap*) printf '` + uuid1 + `, 9.0\n` + uuid0 + `, 7.5\n' ;; esac`,
			[]string{"7.5", "9.0"},
			"",
		},
		"an old driver": {"case $* in " + list +
			`*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;; esac`, []string{"", ""}, ""},
		"one not known": {"case $* in " + list + `*compute_cap*) printf '` + uuid1 + `, 9.0\n` + uuid0 +
			`, [N/A]\n' ;; esac`, []string{"", "9.0"}, ""},
		"a dead driver":  {"echo 'NVIDIA-SMI has failed'; exit 9", nil, "nvidia-smi does not list the cards"},
		"no card at all": {"echo 'No devices were found'", nil, "nvidia-smi lists no card"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NvidiaCards(t.Context(), tool(t, "nvidia-smi", c.script))
			if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Fatalf("got %v", err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d cards, want %d", len(got), len(c.want))
			}
			for i, card := range got {
				if card.Capability != c.want[i] || card.Driver != "535.1" {
					t.Errorf("%+v, want %s", card, c.want[i])
				}
			}
		})
	}
	if _, err := NvidiaCards(t.Context(), []string{"PATH=" + t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "there is no NVIDIA driver") {
		t.Errorf("got %v", err)
	}
}
