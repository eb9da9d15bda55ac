//go:build linux

package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lines of typeperf as Microsoft's manual and users show them.
func TestParseTypeperf(t *testing.T) {
	for line, want := range map[string]struct {
		r    RemoteReading
		kind rowKind
	}{
		`"(PDH-CSV 4.0)","\\BOX\Process(llama-server)\Private Bytes","\\BOX\Process(llama-server)\Working Set"`: {kind: header},
		`"11/28/2026 15:30:01.123","1073741824.000000","2147483648.000000"`:                                     {RemoteReading{1 << 30, 2 << 30}, figures},
		`"28.11.2026 15:30:01,123","1073741824,000000","2147483648,000000"`:                                     {RemoteReading{1 << 30, 2 << 30}, figures},
		`"11/28/2026 15:30:01.123","-1","-1"`:                                                                   {kind: gone},
		`"11/28/2026 15:30:01.123"," "," "`:                                                                     {kind: gone},
	} {
		if r, kind, err := parseTypeperf(line); err != nil || r != want.r || kind != want.kind {
			t.Errorf("%s: %+v, %v, %v", line, r, kind, err)
		}
	}
	for _, bad := range []string{
		"", "Error: No valid counters.", "Exiting, please wait...", "The command completed successfully.", `"a","b"`,
		`"a","1","many"`, `"a","1","NaN"`,
		`"a","-2","5"`, `"a","1","1e99"`, "'typeperf' is not recognized as an internal or external command,", `a,1,2`,
	} {
		if r, kind, err := parseTypeperf(bad); err == nil {
			t.Errorf("%q: %+v, %v", bad, r, kind)
		}
	}
}

func FuzzTypeperf(f *testing.F) {
	f.Add(`"11/28/2026 15:30:01.123","1073741824.000000","2147483648.000000"`)
	f.Add(`"(PDH-CSV 4.0)","\\BOX\Process(a)\Private Bytes","\\BOX\Process(a)\Working Set"`)
	f.Add(`"x","-1"," "`)
	f.Fuzz(func(t *testing.T, s string) {
		if r, kind, err := parseTypeperf(s); r.Private < 0 || r.WorkingSet < 0 || (err != nil || kind != figures) &&
			r != (RemoteReading{}) {
			t.Errorf("%q: %+v, %v, %v", s, r, kind, err)
		}
	})
}

func TestParseRemote(t *testing.T) {
	for text, host := range map[string]string{
		"ssh:box:llama-server": "box", "ssh:me@box:llama-server.exe": "me@box",
		"ssh:me@fe80::1:a#1": "me@fe80::1",
	} {
		if _, got, err := ParseRemote(text, nil); err != nil || got != host {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{
		"", "box", "ssh:box", "ssh::a", "ssh:box:", "ssh:box:a b", `ssh:box:a"&del`,
		"ssh:-oProxyCommand=x:a", "ssh:a b:c", "wine:a",
	} {
		if _, _, err := ParseRemote(bad, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// far watches a program here and reads host memory by a ssh of our own, which prints what
// a Windows machine would.
func far(t *testing.T, ssh string, long time.Duration) (Series, string) {
	t.Helper()
	dir := t.TempDir()
	if ssh != "" {
		ssh = "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$0.argv\"\n" + ssh
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probe, _, err := ParseRemote("ssh:me@box:llama-server", []string{"PATH=" + dir + ":/usr/bin/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Every: MinEvery, Remote: probe})
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := start(t, "hold 8")
	s.Attach(pid)
	time.Sleep(long)
	argv, _ := os.ReadFile(filepath.Join(dir, "ssh.argv")) // not there where no ssh is
	return s.Stop(), string(argv)
}

// head is what typeperf prints first; each line ends as on Windows.
const head = `PATH=/usr/bin:/bin
printf '\r\n"(PDH-CSV 4.0)","\\\\\\\\BOX\\\\Process(llama-server)\\\\Private Bytes","\\\\\\\\BOX\\\\Process(llama-server)\\\\Working Set"\r\n'
`

func TestTypeperf(t *testing.T) {
	t.Parallel()
	s, argv := far(t, head+`i=0; while :; do i=$((i + 1)); printf '"11/28/2026 15:30:01.123","%d.000000","500000000.000000"\r\n' $((i * 1048576)); sleep 0.05; done`, 3*time.Second)
	n := 0
	for _, p := range s.Points {
		if p.Anon == nil {
			continue
		}
		n++
		if *p.Anon%(1<<20) != 0 || *p.RSS != 500000000 || p.PSS != nil {
			t.Errorf("%d, %d", *p.Anon, *p.RSS)
		}
	}
	v := JudgeKind(s, Anon, JudgeOptions{Unit: Second})
	if n < 20 || v.State != Grows {
		t.Errorf("%d readings, %v, notes %q", n, v, s.Notes)
	}
	want := "-T\n-o\nBatchMode=yes\n-o\nConnectTimeout=15\n-o\nServerAliveInterval=5\n-o\nServerAliveCountMax=3\n--\nme@box\n" +
		`typeperf -si 1 "\Process(llama-server)\Private Bytes" "\Process(llama-server)\Working Set"` + "\n"
	if argv != want {
		t.Errorf("ssh got %q", argv)
	}
}

func TestTypeperfTrouble(t *testing.T) {
	for name, c := range map[string]struct{ ssh, note string }{
		"no ssh": {"", "ssh is not on the PATH"},
		"no connection": {
			"echo 'ssh: connect to host box port 22: Connection refused' >&2; exit 255",
			"ssh me@box: ssh: connect to host box port 22: Connection refused",
		},
		"no Windows": {
			"echo 'bash: line 1: typeperf: command not found'; exit 127",
			"is no Windows machine, or has no typeperf: bash",
		},
		"no typeperf": {
			"printf \"'typeperf' is not recognized as an internal or external command,\\r\\n\"; exit 1",
			"has no typeperf: 'typeperf' is not recognized",
		},
		"ends": {head + `for i in 1 2 3; do printf '"x","5.0","6.0"\r\n'; sleep 0.1; done; printf 'The command completed successfully.\r\n'`, "typeperf on me@box ended: The command completed"},
		"garbage": {
			head + "while :; do echo '@@@@,,,'; sleep 0.05; done",
			"host memory is not known: the last line of ssh me@box is: @@@@,,,",
		},
		"no line ends": {head + "while :; do printf '@@@@@@@@@@\\033[2J'; done", "?[2J@@@@@@@@@@?[2J@@"},
		"no end":       {head + "printf 'Password: '; sleep 9", "the last line of ssh me@box is: Password:"},
		"silent":       {"exec /usr/bin/sleep 9", "host memory is not known: ssh me@box printed nothing"},
		"header":       {head + "sleep 9", `the last line of ssh me@box is: "(PDH-CSV 4.0)"`},
		"no counters": {
			"printf 'Error:\\r\\nNo valid counters.\\r\\n'; exit 1",
			"the last line of ssh me@box is: No valid counters.",
		},
		"then silent": {`PATH=/usr/bin:/bin; if [ -e "$0.once" ]; then sleep 9; fi; : >"$0.once"; echo No valid counters.; exit 1`, "is: No valid counters."},
		"no number": {
			head + `while :; do printf '"x","NaN","NaN"\r\n'; sleep 0.05; done`,
			`the last line of ssh me@box is: "x","NaN","NaN"`,
		},
		"not there": {
			head + `while :; do printf '"x","-1","-1"\r\n'; sleep 0.05; done`,
			"host memory is not known: typeperf on me@box says that llama-server is not there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := far(t, c.ssh, 1200*time.Millisecond)
			if !noted(s, c.note) {
				t.Errorf("no note has %q: %q", c.note, s.Notes)
			}
			if name != "ends" && (s.Has(Anon) || s.Has(RSS)) {
				t.Error("the memory of a program here passes for that of the one there")
			}
		})
	}
	t.Run("comes later", func(t *testing.T) {
		t.Parallel()
		s, _ := far(t, `PATH=/usr/bin:/bin; if [ ! -e "$0.once" ]; then : >"$0.once"; printf 'Error:\r\nNo valid counters.\r\n'; exit 1; fi
`+head+`while :; do printf '"x","5.0","6.0"\r\n'; sleep 0.05; done`, 3*time.Second)
		if peak, ok := s.Peak(Anon); !ok || peak != 5 || len(s.Notes) > 1 ||
			strings.Contains(strings.Join(s.Notes, ""), "not known") {
			t.Errorf("%d, %v, notes %q", peak, ok, s.Notes)
		}
	})
}

// Figures that end well before the program does say nothing of the rest, unless it grows.
func TestHostEnds(t *testing.T) {
	t.Parallel()
	s, _ := far(t, head+`i=0; while [ $i -lt 30 ]; do i=$((i + 1)); printf '"x","5.0","6.0"\r\n'; sleep 0.05; done
while :; do printf '"x","-1","-1"\r\n'; sleep 0.1; done`, 6*time.Second)
	until, ends := s.RemoteEnds()
	if v := JudgeKind(s, Anon, JudgeOptions{Unit: Second}); !ends || until < 1 || until > 3 || v.State != Unclear ||
		!strings.Contains(v.Reason, "it is known only up to") || !strings.HasSuffix(v.Reason, "llama-server is not there") {
		t.Errorf("%.1f, %v, %s, notes %q", until, ends, v, s.Notes)
	}
	for name, c := range map[string]struct {
		every       float64
		until, end  int // tenths of a second
		rate        int64
		noted       bool
		want        State
		notFromHere bool
	}{
		"to the end":          {0.1, 300, 300, 0, false, Flat, true},
		"a pause":             {0.1, 275, 300, 0, false, Flat, true},
		"the end":             {0.1, 265, 300, 0, true, Flat, true},
		"more than a fifth":   {0.1, 230, 300, 0, true, Unclear, true},
		"it grows":            {0.1, 230, 300, 1 << 20, true, Grows, true},
		"a short run":         {0.1, 75, 100, 0, false, Flat, true},
		"seldom looks":        {1, 210, 300, 0, false, Flat, true},
		"seldom looks, ended": {1, 150, 300, 0, true, Unclear, true},
		"from here":           {0.1, 150, 300, 0, false, Flat, false},
	} {
		s := Series{EverySecs: c.every, Elsewhere: c.notFromHere, RemoteWhy: "it is silent"}
		for i := range c.end + 1 {
			p := Point{Seconds: float64(i) / 10}
			if v := 100<<20 + int64(i)*c.rate; i <= c.until {
				p.Anon, p.RSS = &v, &v
			}
			s.Points = append(s.Points, p)
		}
		for _, k := range []Kind{Anon, RSS} {
			_, ends := s.RemoteEnds()
			if v := JudgeKind(s, k, JudgeOptions{}); v.State != c.want || ends != c.noted {
				t.Errorf("%s: %s, ends %v", name, v, ends)
			}
		}
	}
}
