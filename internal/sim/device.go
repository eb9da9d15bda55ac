package sim

import "strconv"

// Device says what the simulated card is and how it misbehaves. A zero value of
// a field is the default in brackets.
type Device struct {
	VRAMMiB int64  `json:"vramMiB,omitempty"` // [12288, under HIP 16384]
	CC      string `json:"cc,omitempty"`      // compute capability [8.6]
	GFX     string `json:"gfx,omitempty"`     // under HIP, instead of CC [gfx1201]
	SMs     int    `json:"sms,omitempty"`     // multiprocessors [28, under HIP 32]
	VMM     bool   `json:"vmm,omitempty"`     // whether memory can be mapped (cuMemCreate)
	CUDA    string `json:"cuda,omitempty"`    // the version that runtime and driver say [11.4]

	// DelayFrees lets a free take effect only after so many more allocation
	// calls, as WDDM 1.x does.
	DelayFrees int `json:"delayFrees,omitempty"`
	// FailAlloc fails the n-th allocation of device or managed memory; 0: none.
	FailAlloc int64 `json:"failAlloc,omitempty"`
	// Managed is how managed memory is treated: it may exceed VRAM ("full"), as on Linux, or must fit
	// in it ("limited"), as under WDDM (concurrentManagedAccess is 0), or is refused ("none") [full].
	Managed string `json:"managed,omitempty"`
	// ManagedMiB is how much managed memory there is beyond VRAM; 0: no limit.
	ManagedMiB int64 `json:"managedMiB,omitempty"`

	// Store keeps what is copied to the device, in host memory. Without it
	// device memory reads as zeros and costs the host nothing.
	Store bool `json:"store,omitempty"`
	// Count lets device memory that keeps nothing read as the 32-bit numbers
	// 0 to Count-1 in turn, for code that needs different ones (experts of a
	// mixture); 0: zeros.
	Count int `json:"count,omitempty"`
	// Reuse hands out freed addresses again, as a real allocator does. Then a
	// pointer to memory freed since can be told only in graphs.
	Reuse bool `json:"reuse,omitempty"`
	// Late counts work as under way until the program has waited for it, and takes
	// the release of memory that such work uses for a fault.
	Late bool `json:"late,omitempty"`
	// Occupancy is what every occupancy query answers, in blocks a multiprocessor [2].
	Occupancy int `json:"occupancy,omitempty"`
	// OnFault is "report", "error" (the context is lost, as on a card) or "abort" [report].
	OnFault string `json:"onFault,omitempty"`
}

// Env returns the variables that make a program's simulated device this one.
// trace and state are files that it writes; empty: none.
func (d Device) Env(trace, state string) []string {
	var env []string
	text := func(name, value string) {
		if value != "" {
			env = append(env, "LLPATCH_SIM_"+name+"="+value)
		}
	}
	number := func(name string, value int64) {
		if value != 0 {
			text(name, strconv.FormatInt(value, 10))
		}
	}
	flag := func(name string, on bool) {
		if on {
			text(name, "1")
		}
	}
	number("VRAM", d.VRAMMiB)
	text("CC", d.CC)
	text("GFX", d.GFX)
	number("SMS", int64(d.SMs))
	flag("VMM", d.VMM)
	text("CUDA", d.CUDA)
	number("DELAY_FREES", int64(d.DelayFrees))
	number("FAIL_ALLOC", d.FailAlloc)
	text("MANAGED", d.Managed)
	number("MANAGED_MORE", d.ManagedMiB)
	flag("STORE", d.Store)
	number("COUNT", int64(d.Count))
	flag("REUSE", d.Reuse)
	flag("LATE", d.Late)
	number("OCCUPANCY", int64(d.Occupancy))
	text("ON_FAULT", d.OnFault)
	text("TRACE", trace)
	text("STATE", state)
	return env
}
