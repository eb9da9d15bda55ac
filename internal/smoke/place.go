package smoke

import (
	"strconv"

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
		if o.Card == "" && o.Device != spec.Card {
			return Absent, "there is no card on this machine"
		}
	case spec.Sim:
		if o.SimEnv == nil && o.Device != spec.Sim {
			return NotJudged, "the simulated device was not made for this run"
		}
	default:
		if o.Device == spec.Sim && o.SimEnv == nil {
			return NotJudged, "the check is for the host, and every program of this run is led to the simulated device"
		}
	}
	return "", ""
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
