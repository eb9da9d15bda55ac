//go:build linux

package memory

import (
	"strings"
	"testing"
)

const sane = 1 << 62 // no figure of a card or a machine comes near

func FuzzNvidia(f *testing.F) {
	for _, s := range []string{
		"0, GPU-1, 703, 81559", "GPU-1, 481, 686", "GPU-1, 7, [N/A]", "No devices were found",
		",,,",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if c, err := parseNvidiaCard(line); err == nil && (c.used < 0 || c.total <= 0 || c.uuid == "") {
			t.Errorf("%q: %+v", line, c)
		}
		if uuid, a, err := parseNvidiaApp(line); err == nil && (a.bytes < -1 || a.pid <= 0 || uuid == "") {
			t.Errorf("%q: %+v", line, a)
		}
		var n int
		l := eachLine(func(s string) {
			n += len(s)
			if strings.Contains(s, "\n") {
				t.Errorf("a line with an end in it: %q", s)
			}
		})
		_, _ = l.Write([]byte(line))
		l.Flush()
		if n > len(line) {
			t.Errorf("%d bytes of %d", n, len(line))
		}
	})
}

func FuzzAMD(f *testing.F) {
	f.Add([]byte(`{"card0": {"VRAM Total Memory (B)": "21458059264", "VRAM Total Used Memory (B)": "27856896"}}`))
	f.Add([]byte(`[{"gpu":0,"mem_usage":{"total_vram":{"value":20464,"unit":"MB"},"used_vram":{"value":26,"unit":"MB"}}}]`))
	f.Add([]byte(`{"gpu_data":[{"mem_usage":"N/A"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Reading, error){parseAMDSMI, parseROCmSMI} {
			if r, err := parse(b); err == nil && (r.Used < 0 || r.Total <= 0 || r.Total > sane || r.Cards < 1) {
				t.Errorf("%q: %+v", b, r)
			}
		}
	})
}

func FuzzProc(f *testing.F) {
	f.Add([]byte("12345 678 90 1 0 2 0\n"))
	f.Add([]byte("Rss: 10 kB\nPss:                 123 kB\n"))
	f.Add([]byte("Name:\tx\nVmRSS:\t 30 kB\nRssAnon:\t 10 kB\nRssFile:\t 12 kB\nRssShmem:\t 8 kB\nVmSwap:\t 5 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, s, ok := parseStatm(b, 4096); ok && (r < 0 || s < 0 || s > r) {
			t.Errorf("%q: %d, %d", b, r, s)
		}
		if h, ok := parseStatus(b); ok && (h.resident < 0 || h.swapped < 0 || h.own < h.swapped ||
			h.own-h.swapped > h.resident && h.resident < sane) {
			t.Errorf("%q: %+v", b, h)
		}
		if n, swapped, ok := parseRollup(b); ok && (n < 0 || n > sane || swapped < 0 || swapped > sane) {
			t.Errorf("%q: %d, %d", b, n, swapped)
		}
	})
}
