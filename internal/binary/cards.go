package binary

import (
	"cmp"
	"slices"
)

// card is a row of NVIDIA's tables of products by compute capability.
type card struct {
	cc         Arch
	generation string
	products   string
	arm        bool // sold only in machines with an ARM processor
	jetson     bool // a Jetson module
}

// cards holds one row per compute capability. The products are examples from
// NVIDIA's pages "CUDA GPU Compute Capability" and "Legacy CUDA GPU Compute
// Capability" (developer.nvidia.com/cuda-gpus, cuda-legacy-gpus). What CUDA 12
// called 10.1 is 11.0 since CUDA 13.
var cards = []card{
	{cc: Arch{3, 0, ""}, generation: "Kepler", products: "GeForce GTX 680, Tesla K10"},
	{cc: Arch{3, 5, ""}, generation: "Kepler", products: "GeForce GTX 780, Tesla K40"},
	{cc: Arch{3, 7, ""}, generation: "Kepler", products: "Tesla K80"},
	{cc: Arch{5, 0, ""}, generation: "Maxwell", products: "GeForce GTX 750, Quadro K2200"},
	{cc: Arch{5, 2, ""}, generation: "Maxwell", products: "GeForce GTX 900, Tesla M40"},
	{cc: Arch{5, 3, ""}, generation: "Maxwell", products: "Jetson Nano", arm: true, jetson: true},
	{cc: Arch{6, 0, ""}, generation: "Pascal", products: "Tesla P100"},
	{cc: Arch{6, 1, ""}, generation: "Pascal", products: "GeForce GTX 10, Tesla P40"},
	{cc: Arch{6, 2, ""}, generation: "Pascal", products: "Jetson TX2", arm: true, jetson: true},
	{cc: Arch{7, 0, ""}, generation: "Volta", products: "V100, TITAN V"},
	{cc: Arch{7, 2, ""}, generation: "Volta", products: "Jetson Xavier", arm: true, jetson: true},
	{cc: Arch{7, 5, ""}, generation: "Turing", products: "GeForce RTX 20 and GTX 16, T4"},
	{cc: Arch{8, 0, ""}, generation: "Ampere", products: "A100, A30"},
	{cc: Arch{8, 6, ""}, generation: "Ampere", products: "GeForce RTX 30, RTX A6000, A40"},
	{cc: Arch{8, 7, ""}, generation: "Ampere", products: "Jetson Orin", arm: true, jetson: true},
	{cc: Arch{8, 9, ""}, generation: "Ada", products: "GeForce RTX 40, L4, L40S"},
	{cc: Arch{9, 0, ""}, generation: "Hopper", products: "H100, H200, GH200"},
	{cc: Arch{10, 0, ""}, generation: "Blackwell", products: "B200, GB200"},
	{cc: Arch{10, 3, ""}, generation: "Blackwell", products: "B300, GB300"},
	{cc: Arch{11, 0, ""}, generation: "Blackwell", products: "Jetson Thor", arm: true, jetson: true},
	{cc: Arch{12, 0, ""}, generation: "Blackwell", products: "GeForce RTX 50, RTX PRO 6000"},
	{cc: Arch{12, 1, ""}, generation: "Blackwell", products: "GB10 (DGX Spark)", arm: true},
}

// cardOf returns the row of a compute capability, whatever the suffix.
func cardOf(a Arch) (card, bool) {
	i := slices.IndexFunc(cards, func(c card) bool { return c.cc.Major == a.Major && c.cc.Minor == a.Minor })
	if i < 0 {
		return card{}, false
	}
	return cards[i], true
}

// KnownCapability reports whether llpatch knows cards of a compute capability, such as
// 8.6; one that it does not know is taken to be newer than all that it knows.
func KnownCapability(capability string) bool {
	return slices.ContainsFunc(cards, func(c card) bool { return c.cc.Capability() == capability })
}

// NewestCapability returns the highest compute capability that llpatch knows cards of.
func NewestCapability() string {
	newest := slices.MaxFunc(cards, func(a, b card) int {
		return cmp.Or(cmp.Compare(a.cc.Major, b.cc.Major), cmp.Compare(a.cc.Minor, b.cc.Minor))
	})
	return newest.cc.Capability()
}
