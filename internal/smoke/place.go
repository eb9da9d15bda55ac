package smoke

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llpatch/llpatch/internal/spec"
)

// The places that a check can run in, as a report names them.
const (
	placeHost = "host"
	placeSim  = "simulated device"
	placeCard = "card"
)

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
	return o.Place
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
			return NotJudged, why
		}
		return Absent, why
	case spec.Sim:
		if o.SimEnv == nil && !(o.Device == spec.Sim && leadsToSim(o.Env)) {
			return NotJudged, "the simulated device was not made for this run"
		}
	default:
		if leadsToSim(o.Env) {
			return NotJudged, "the check is for the host, and every program of this run is led to the simulated device"
		}
	}
	return "", ""
}

// leadsToSim tells whether an environment is internal/sim's: its library is
// loaded as a backend, or its variables are set.
func leadsToSim(env []string) bool {
	return slices.ContainsFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "GGML_BACKEND_PATH=") || strings.HasPrefix(kv, "LLPATCH_SIM_")
	})
}

// deviceLine is what a server logs of a backend for a device: one that was
// loaded from a library, or the devices that ggml-cuda (also as ROCm) found.
var deviceLine = regexp.MustCompile(`load_backend: loaded (\S+) backend from|: found [1-9][0-9]* \S+ devices`)

// usesDevice tells whether a log names a device's backend. Without one llama.cpp
// runs on the processor, and says nothing more of it.
func usesDevice(log []byte) bool {
	for _, m := range deviceLine.FindAllSubmatch(log, -1) {
		if b := string(m[1]); b != "CPU" && b != "RPC" && b != "BLAS" {
			return true
		}
	}
	return false
}

// listedDevice is a line of --list-devices: its name, as in "  CUDA0: NVIDIA L4
// (22565 MiB, 22300 MiB free)". What computes on the processor is listed too.
var listedDevice = regexp.MustCompile(`(?m)^  ([A-Za-z]+)[0-9]*: .*\(\d+ MiB, \d+ MiB free\)`)

// unseenCard says why the build would not use the card, or "": programs run on
// the processor then, and most of them say nothing of it.
func (s *session) unseenCard(ctx context.Context) (why string) {
	if s.unseen != nil {
		return *s.unseen
	}
	defer func() {
		if ctx.Err() == nil {
			s.unseen = &why
		}
	}()
	out, err := s.output(ctx, "llama-server", "--list-devices")
	if err != nil {
		return "the build does not tell which devices it sees: " + err.Error()
	}
	for _, m := range listedDevice.FindAllStringSubmatch(out.all(), -1) {
		if m[1] != "BLAS" && m[1] != "RPC" {
			return ""
		}
	}
	return "the build sees no card (llama-server --list-devices names none): it has no backend for one, or that cannot use the driver"
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
