package smoke

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// The places that a check can run in, as a report names them.
const (
	placeHost = "host"
	placeWine = "wine" // the host too, by way of Options.Wine
	placeSim  = "simulated device"
	placeCard = "card"
)

// PlaceBuild is where a check looks that runs no program: the build itself.
const PlaceBuild = "build"

// deviceOf returns where a check is to run: what it says itself, or what the
// caller says.
func (o *Options) deviceOf(c spec.Check) string {
	switch {
	case c.Device != "":
		return c.Device
	case o.Device != "":
		return o.Device
	}
	return spec.Host
}

func (o *Options) placeOf(c spec.Check) string {
	switch o.deviceOf(c) {
	case spec.Sim:
		return placeSim
	case spec.Card:
		return placeCard
	}
	if o.Wine != nil {
		return placeWine
	}
	return placeHost
}

// canRun says whether a check's place is to be had, and what the verdict is
// where it is not: a card that is absent is no fault of the machine's.
func (o *Options) canRun(c spec.Check) (verdict Verdict, why string) {
	switch o.deviceOf(c) {
	case spec.Card:
		if o.Card != "" {
			return "", ""
		}
		why = cmp.Or(o.NoCard, "there is no card on this machine")
		if o.Device == spec.Card {
			return Errored, why
		}
		return Skipped, why
	case spec.Sim:
		if o.SimEnv == nil && !(o.Device == spec.Sim && leadsToSim(o.Env)) {
			return Errored, "the simulated device was not made for this run"
		}
	default:
		if leadsToSim(o.Env) {
			return Errored, "the check is for the host, and every program of this run is led to the simulated device"
		}
	}
	return "", ""
}

// leadsToSim tells whether an environment is internal/sim's: its library is
// loaded as a backend or before all others, or its variables are set.
func leadsToSim(env []string) bool {
	return slices.ContainsFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "GGML_BACKEND_PATH=") || strings.HasPrefix(kv, "LD_PRELOAD=") ||
			strings.HasPrefix(kv, "LLPATCH_SIM_")
	})
}

// listedDevice is a line of --list-devices: its name, as in "  CUDA0: NVIDIA L4
// (22565 MiB, 22300 MiB free)". What computes on the processor is listed too.
var listedDevice = regexp.MustCompile(`(?m)^  ([A-Za-z]+)[0-9]*: .*\(\d+ MiB, \d+ MiB free\)`)

const listDevices = "--list-devices"

// unseen says why the build would not use the device of the current check, or "":
// its programs run on the processor then, and say nothing of it.
func (s *session) unseen(ctx context.Context) (why string) {
	key := s.side.bin + "\x00" + s.o.deviceOf(s.current)
	if why, asked := s.asked[key]; asked {
		return why
	}
	defer func() {
		if ctx.Err() == nil {
			s.asked[key] = why
		}
	}()
	if help, err := s.help(ctx, "llama-server"); err == nil && !strings.Contains(help, listDevices) &&
		s.o.deviceOf(s.current) == spec.Sim {
		return "" // ik_llama.cpp's has no such option: there the check finds no state page of its device
	}
	out, err := s.output(ctx, "llama-server", listDevices)
	if err != nil {
		return fmt.Sprintf("the %s build does not tell which devices it sees: %v", s.side.name, err)
	}
	for _, m := range listedDevice.FindAllStringSubmatch(out.all(), -1) {
		if m[1] != "BLAS" && m[1] != "RPC" {
			return ""
		}
	}
	return fmt.Sprintf("the %s build sees no device (llama-server --list-devices names none): it has no backend for "+
		"one, or that cannot use the driver", s.side.name)
}

// layers is -ngl: how many layers go to the device.
func (s *session) layers() string {
	if s.o.deviceOf(s.current) == spec.Host {
		return "0"
	}
	return strconv.Itoa(maxLayers)
}

// maxLayers is more than any model has: all of it goes to the device.
const maxLayers = 999
