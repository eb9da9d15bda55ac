package evidence

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/memory"
	"github.com/llpatch/llpatch/internal/regular"
	"github.com/llpatch/llpatch/internal/run"
)

// Beside is what else ran on the host while a run did, by names alone. A process that began
// and ended in between is in the load only.
type Beside struct {
	Load []float64 `json:"load,omitempty"`      // the load average of a minute, before the start and after the end
	Busy []Busy    `json:"processes,omitempty"` // the busiest first
	Card []Holder  `json:"card,omitempty"`      // other programs on the cards, before the start or after the end
}

// Busy is a name and the share of one core that the processes of that name took over the run.
type Busy struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// Holder is a program that holds memory of a card.
type Holder struct {
	Name string `json:"name"`
	MiB  int64  `json:"mib,omitempty"` // the most that was seen; 0: not told
}

const (
	leastShare = 0.05 // of one core: below it a process disturbs nothing
	maxBesides = 20
	tick       = 0.01 // seconds, of /proc/PID/stat on every Linux

)

// view is one look at the host.
type view struct {
	at   time.Time
	load []float64
	used map[int]run.ProcStat
	card []Holder
}

// look takes a view of what is not llpatch's own. No program of the plan runs meanwhile.
func (r *recorder) look(ctx context.Context) view {
	v := view{at: time.Now(), used: map[int]run.ProcStat{}}
	if load, ok := run.Load(); ok {
		v.load = []float64{load}
	} else {
		r.note("what else runs on this host is not known: it has no /proc/loadavg")
	}
	own := memory.Descendants(os.Getpid())
	stats, _ := run.ProcStats()
	for _, p := range stats {
		if !slices.Contains(own, p.PID) {
			v.used[p.PID] = p
		}
	}
	if r.o.Source == "nvidia-smi" && r.o.State == "" {
		v.card = r.holders(ctx)
	}
	return v
}

// holders asks nvidia-smi which programs hold memory of a card. It tells a process by its
// path, of which nobody needs more than the name that the kernel has for it.
func (r *recorder) holders(ctx context.Context) []Holder {
	out, err := r.nvidiaSMI(ctx, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		r.note("nvidia-smi does not tell what else runs on the card: " + r.hide.text(firstLine(err.Error())))
		return nil
	}
	var all []Holder
	for line := range strings.Lines(out) {
		pid, used, ok := strings.Cut(line, ",")
		n, err := strconv.Atoi(strings.TrimSpace(pid))
		if !ok || err != nil {
			continue
		}
		h := Holder{Name: "not named"}
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n)); err == nil {
			h.Name = r.besideName(string(b))
		}
		h.MiB, _ = strconv.ParseInt(strings.TrimSpace(used), 10, 64) // "[N/A]" is none
		all = append(all, h)
	}
	return all
}

// besideName is a process's name as it may be recorded.
func (r *recorder) besideName(s string) string {
	s = r.hide.text(short(s))
	return cmp.Or(s[strings.LastIndexByte(s, '/')+1:], "not named")
}

// beside compares two looks.
func (r *recorder) beside(from, to view) *Beside {
	out := &Beside{Load: append(slices.Clone(from.load), to.load...)}
	shares := map[string]float64{}
	secs := to.at.Sub(from.at).Seconds()
	for pid, p := range to.used {
		if before, ok := from.used[pid]; ok && before.Began == p.Began {
			p.Ticks -= before.Ticks
		}
		if secs > 0 {
			shares[r.besideName(p.Name)] += float64(p.Ticks) * tick / secs
		}
	}
	for name, share := range shares {
		if share >= leastShare {
			out.Busy = append(out.Busy, Busy{name, math.Round(share*100) / 100})
		}
	}
	slices.SortFunc(out.Busy, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	out.Busy = out.Busy[:min(len(out.Busy), maxBesides)]
	for _, h := range slices.Concat(from.card, to.card) {
		i := slices.IndexFunc(out.Card, func(o Holder) bool { return o.Name == h.Name })
		if i < 0 {
			out.Card = append(out.Card, h)
		} else {
			out.Card[i].MiB = max(out.Card[i].MiB, h.MiB)
		}
	}
	out.Card = out.Card[:min(len(out.Card), maxBesides)]
	return out
}

// boot tells this start of the machine from any other, and nothing else of it.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append([]byte("llpatch evidence "), bytes.TrimSpace(id)...))
	return fmt.Sprintf("%x", sum[:6])
}

// own hashes llpatch's own file: a version says little of a build from a checkout.
func (r *recorder) own(ctx context.Context) string {
	name, err := os.Executable()
	if err != nil {
		r.note("llpatch's own file is not known: " + err.Error())
		return ""
	}
	sum, err := regular.Sum(ctx, name)
	if err != nil && ctx.Err() == nil {
		r.note("llpatch's own file has no hash: " + err.Error())
	}
	return sum
}

// patches are the SHA-256 of the patches that a build has: of its BUILD_INFO.json, or else
// of the files that the plan names.
func (r *recorder) patches(ctx context.Context, b Build, info json.RawMessage) (map[string]string, error) {
	out := map[string]string{}
	if info != nil {
		var i struct {
			Series *struct {
				In []struct {
					Fix    string `json:"fix"`
					Patch  string `json:"patch"`
					SHA256 string `json:"sha256"`
				} `json:"in"`
			} `json:"series"`
		}
		if err := json.Unmarshal(info, &i); err == nil && i.Series != nil {
			for _, p := range i.Series.In {
				out[cmp.Or(p.Patch, p.Fix)] = p.SHA256
			}
			return out, nil
		}
	}
	if b.Patches == nil {
		r.note(fmt.Sprintf("build %s: neither a BUILD_INFO.json nor the plan says which patches it has", b.Name))
		return nil, nil
	}
	for _, name := range *b.Patches {
		sum, err := regular.Sum(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("build %s: a patch that the plan names: %w", b.Name, err)
		}
		key := r.hide.text(name)
		for i := 2; out[key] != ""; i++ { // of another folder
			key = fmt.Sprintf("%s#%d", r.hide.text(name), i)
		}
		out[key] = sum
	}
	return out, nil
}
