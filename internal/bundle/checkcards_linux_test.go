package bundle

import (
	"strings"
	"testing"
)

// Of NVIDIA's cards those that a bundle runs on are left to it, by the names or numbers that
// hold as things are set.
func TestCheckCards(t *testing.T) {
	const old = "535.154.05" // runs machine code, and does not compile this build's PTX
	bare := func(seen []string, env string) func(m *machine) {
		return func(m *machine) {
			m.files["proc/driver/nvidia/version"] = strings.Replace(m.files["proc/driver/nvidia/version"], "560.28.03", old, 1)
			m.tools["nvidia-smi"], m.bundle["LICENSES/answer--list-devices"] = "", lists(seen...)
			if env != "" {
				m.env = []string{"CUDA_VISIBLE_DEVICES=" + env}
			}
		}
	}
	kept(t, []outcome{
		{"cuda-two-cards-one-by-ptx", cuda(), drives(old, []string{"9.0", "8.6"}, h100, rtx3090), 0},
		{"cuda-two-cards-the-right-one-seen", cuda(), func(m *machine) {
			drives(old, []string{"8.6"}, h100, rtx3090)(m)
			m.env = []string{"CUDA_VISIBLE_DEVICES=1"}
		}, 0},
		{"cuda-no-smi-old-driver-for-ptx", cuda(), bare([]string{"9.0"}, ""), 1},
		{"cuda-no-smi-two-cards-one-by-ptx", cuda(), bare([]string{"9.0", "8.6"}, ""), 0},
		{"cuda-no-smi-by-numbers", cuda(), bare([]string{"6.1", "8.6", "9.0", "8.6"}, "3,1, 0,7"), 0},
		{"cuda-odd-rows", cuda(), func(m *machine) {
			drives("560.28.03", []string{"8.6"}, [4]string{"GPU is lost", "[N/A]", "[N/A]", "[N/A]"}, rtx3090)(m)
			m.tools["nvidia-smi"] = strings.Replace(m.tools["nvidia-smi"], "560.28.03", "[Unknown Error]", 1)
			delete(m.files, "proc/driver/nvidia/version")
		}, 0},
		{"drop-in-two-cards", dropIn(), drives("560.28.03", nil, gtx1080, rtx3090), 0},
		{"drop-in-two-cards-one-by-ptx", dropIn(), drives(old, nil, h100, rtx3090), 0},
		{"drop-in-no-smi", dropIn(), bare(nil, ""), 2},
		{"drop-in-other-card", dropIn(), drives("560.28.03", nil, gtx1080), 1},
	})
}
