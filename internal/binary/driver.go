package binary

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// minorDrivers holds the oldest Linux driver that serves every toolkit of a major
// version, since CUDA 11 on: NVIDIA's CUDA Toolkit Release Notes, table "CUDA
// Toolkit and Minimum Required Driver Version for CUDA Minor Version
// Compatibility".
var minorDrivers = map[string]string{"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}

// toolkitDrivers holds the Linux driver that came with a toolkit, the oldest one
// that knows all of that version, and so also its PTX: NVIDIA's CUDA Toolkit
// Release Notes, table "CUDA Toolkit and Corresponding Driver Versions", the row of
// each version's first general release.
var toolkitDrivers = map[string]string{
	"8.0": "367.48", "9.0": "384.81", "9.1": "390.46", "9.2": "396.26",
	"10.0": "410.48", "10.1": "418.39", "10.2": "440.33",
	"11.0": "450.51.05", "11.1": "455.23", "11.2": "460.27.03", "11.3": "465.19.01", "11.4": "470.42.01",
	"11.5": "495.29.05", "11.6": "510.39.01", "11.7": "515.43.04", "11.8": "520.61.05",
	"12.0": "525.60.13", "12.1": "530.30.02", "12.2": "535.54.03", "12.3": "545.23.06", "12.4": "550.54.14",
	"12.5": "555.42.02", "12.6": "560.28.03", "12.8": "570.26", "12.9": "575.51.03",
	"13.0": "580.65.06", "13.1": "590.44.01", "13.2": "595.45.04", "13.3": "610.43.02",
}

// ptxToolkits holds what a PTX ISA version before 9.0 came with: NVIDIA's PTX ISA
// document, "Release History". 8.5 serves 12.5 and 12.6.
var ptxToolkits = map[string]string{
	"5.0": "8.0", "6.0": "9.0", "6.1": "9.1", "6.2": "9.2", "6.3": "10.0", "6.4": "10.1", "6.5": "10.2",
	"7.0": "11.0", "7.1": "11.1", "7.2": "11.2", "7.3": "11.3", "7.4": "11.4", "7.5": "11.5", "7.6": "11.6",
	"7.7": "11.7", "7.8": "11.8",
	"8.0": "12.0", "8.1": "12.1", "8.2": "12.2", "8.3": "12.3", "8.4": "12.4", "8.5": "12.5", "8.6": "12.7",
	"8.7": "12.8", "8.8": "12.9",
}

// toolkitOfPTX returns the first CUDA version whose driver compiles PTX of an ISA
// version, empty where that is not known. From 9.0 on the minor numbers are the
// same: the document has 9.0 and 9.1 of CUDA 13.0 and 13.1, nvcc 13.5 writes 9.5.
func toolkitOfPTX(isa string) string {
	if minor, ok := strings.CutPrefix(isa, "9."); ok {
		return "13." + minor
	}
	return ptxToolkits[isa]
}

// Driver is the oldest NVIDIA driver for Linux that serves, and why.
type Driver struct {
	Version string `json:"version,omitempty"` // empty: the tables have no number for it
	CUDA    string `json:"cuda,omitempty"`    // the CUDA version that nvidia-smi must show at least; empty: not known
	Why     string `json:"why"`
}

// String returns which driver serves, without the reason: "450.80.02 or later".
func (d Driver) String() string {
	switch {
	case d.Version != "":
		return d.Version + " or later"
	case d.CUDA != "":
		return fmt.Sprintf("one for CUDA %s or later, as nvidia-smi shows it", d.CUDA)
	}
	return "of an unknown version"
}

// ToolkitDriver returns what llama.cpp built with a CUDA toolkit, such as 11.8, asks
// for, and with ptx what compiling that toolkit's PTX does. From 12.8 on its build has
// nvcc compress for size, which is zstd.
func ToolkitDriver(toolkit string, ptx bool) Driver {
	if ptx {
		return Driver{toolkitDrivers[toolkit], toolkit, "PTX of CUDA " + toolkit + ", which the driver compiles"}
	}
	d := runtimeDriver(toolkit, "the toolkit is "+toolkit)
	if !Less(toolkit, "12.8") {
		return d.or(zstdDriver())
	}
	return d
}

// zstdToolkit is the first CUDA version whose driver reads code that is compressed with
// zstd: NVIDIA's nvcc document on --compress-mode, "not compatible with drivers released
// before CUDA Toolkit's 12.4 Release". LZ4 and no compression ask for nothing.
const zstdToolkit = "12.4"

// zstdDriver is what code compressed with zstd asks for.
func zstdDriver() Driver {
	return Driver{
		toolkitDrivers[zstdToolkit], zstdToolkit, "code compressed with zstd, which older drivers do not read",
	}
}

// or returns the newer of two drivers. Where the tables have no number for one, its CUDA version decides: a driver
// for that is newer than all in the tables, or older. Where that is not known either, the driver is not, and is
// that of the other at least.
func (d Driver) or(other Driver) Driver {
	unknown := func(d Driver) bool { return d.Version == "" && d.CUDA == "" }
	switch {
	case unknown(d) && !unknown(other):
		d.Why += fmt.Sprintf("; %s at least: %s", other, other.Why)
		return d
	case unknown(other) && !unknown(d):
		return other.or(d)
	case d.Version != "" && other.Version != "" && Less(d.Version, other.Version),
		(d.Version == "" || other.Version == "") && Less(d.CUDA, other.CUDA):
		return other
	}
	return d
}

// familyToolkit is the first CUDA version that makes code for a family, such as sm_100f:
// NVIDIA's PTX ISA document has the suffix since 8.8, which came with it. What driver loads such
// machine code no document of NVIDIA's says; that of PTX its ISA version says.
const familyToolkit = "12.9"

// FamilyDriver is the driver that came with the first toolkit that makes machine code for a
// family. Whether older ones load it is not known.
var FamilyDriver = toolkitDrivers[familyToolkit]

// OfFamily reports whether the name of a device code, such as sm_100f, is of a family's machine code.
func OfFamily(code string) bool {
	a, ptx, err := parseArch(code)
	return err == nil && !ptx && a.Suffix == "f"
}

// Elders are the CUDA versions of builds that older drivers than d serve, as words
// VERSION:DRIVER, oldest first. Of machine code that any driver of a major version runs they are
// those, such as 11:450.80.02; of PTX, and of code that asks for more, the toolkits.
func (d Driver) Elders(ptx bool) (words []string) {
	table := toolkitDrivers
	if !ptx && strings.HasSuffix(d.CUDA, ".0") {
		table = minorDrivers
	}
	for _, v := range slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		if Less(a, b) {
			return -1
		}
		return 1
	}) {
		if !Less(v, "11") && Less(table[v], d.Version) {
			words = append(words, v+":"+table[v])
		}
	}
	return words
}

// Elder says which of Elders a driver that is here, such as 470.82.01, serves; empty: none.
func (d Driver) Elder(ptx bool, here string) (says string) {
	for _, word := range d.Elders(ptx) {
		if v, needs, _ := strings.Cut(word, ":"); !Less(here, needs) {
			says = fmt.Sprintf(", or take a build with CUDA %s, which driver %s or newer serves", v, needs)
		}
	}
	return says
}

// runtimeDriver returns what a CUDA runtime asks for: of 11 and later every driver
// of its major version's table serves, of an older one its own toolkit's. Runtime is
// such as 12, 11.0 or 10.2.
func runtimeDriver(runtime string, how string) Driver {
	major, _, _ := strings.Cut(runtime, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return Driver{Why: "the version of its CUDA runtime cannot be told"}
	}
	if n < 11 {
		return Driver{toolkitDrivers[runtime], runtime, fmt.Sprintf("the CUDA %s runtime (%s)", runtime, how)}
	}
	return Driver{minorDrivers[major], major + ".0", fmt.Sprintf("any CUDA %s runtime (%s)", major, how)}
}

// ptxDriver returns what compiling PTX of an ISA version asks for.
func ptxDriver(isa string) Driver {
	cuda := toolkitOfPTX(isa)
	why := fmt.Sprintf("PTX %s; the driver compiles it when the program first starts", isa)
	return Driver{toolkitDrivers[cuda], cuda, why}
}
