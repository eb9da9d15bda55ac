package memory

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/llpatch/llpatch/internal/run"
)

// NvidiaCard is an NVIDIA card of this machine and what code it runs.
type NvidiaCard struct {
	Card
	Capability string // compute capability, such as 8.6; empty: its driver does not tell
}

var capabilityRE = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// NvidiaCards lists every NVIDIA card, whatever CUDA_VISIBLE_DEVICES says. The error
// says that there is no driver here, or why it lists none. Drivers before 510 do not
// tell the compute capability.
func NvidiaCards(ctx context.Context, env []string) ([]NvidiaCard, error) {
	if _, err := run.LookPathIn(env, "nvidia-smi"); err != nil {
		return nil, errors.New("there is no NVIDIA driver: nvidia-smi is not on the PATH")
	}
	cards, err := nvidiaCards(ctx, env)
	if err != nil {
		return nil, err
	}
	one, cancel := context.WithTimeout(ctx, listing)
	defer cancel()
	out, err := run.Output(one, run.Cmd{Argv: []string{
		"nvidia-smi", "--query-gpu=uuid,compute_cap",
		"--format=csv,noheader",
	}, Env: env, Grace: -1})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	by := map[string]string{}
	if err == nil {
		for line := range strings.Lines(string(out)) {
			if f := fields(line); len(f) == 2 && capabilityRE.MatchString(f[1]) {
				by[f[0]] = f[1]
			}
		}
	}
	list := make([]NvidiaCard, len(cards))
	for i, c := range cards {
		list[i] = NvidiaCard{Card: c, Capability: by[c.ID]}
	}
	return list, nil
}
