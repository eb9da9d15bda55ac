package publish

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/bundle"
)

// Which downloaders of llama.cpp's archives find ours, each by what it does itself: it makes a
// name of the release's, or takes names apart. Each cites the file that the form was read in.
func TestDownloaders(t *testing.T) {
	ours := []string{
		"llama-b8833-llp1-bin-linux-cpu-x64.tar.gz", "llama-b8833-llp1-bin-linux-cpu-glibc2.31-x64.tar.gz",
		"llama-b8833-llp2-bin-linux-cuda-12.4-x64.tar.gz",
		"llama-b8833-llp2-bin-debian-rocm-6.4-gfx1201-glibc2.38-x64.tar.gz", "llama-v0.5.0-llp1-bin-linux-cpu-x64.tar.gz",
		"llama-b8833-llp1-bin-win7-cpu-x64.zip", "ik_llama-4840-llp1-bin-linux-cpu-x64.tar.gz",
		"llama-b8833-llp1-backend-linux-cuda-12.4-x64.tar.gz",
	}
	// tag is what the downloader takes for the version: the name of the release.
	for name, c := range map[string]struct {
		finds func(asset, tag string) bool
		want  string // a letter for each of ours: y where it is found
	}{
		// janhq/jan, src-tauri/plugins/tauri-plugin-llamacpp/src/backend.rs, 2026: prefix and suffix of a release's assets.
		"jan": {func(asset, tag string) bool {
			return strings.HasPrefix(asset, "llama-"+tag+"-bin-") && strings.HasSuffix(asset, ".tar.gz")
		}, "yyyyynnn"},
		// hybridgroup/yzma aa425da1, examples/resolver/main.go:
		// "%s/llama-%s-bin-%s-cuda-%s.tar.gz", with linux and amd64 or arm64.
		"yzma, its example of a mirror": {func(asset, tag string) bool {
			return asset == fmt.Sprintf("llama-%s-bin-%s-cuda-%s.tar.gz", tag, "linux", "amd64")
		}, "nnnnnnnn"},
		// lemonade-sdk/lemonade e385039e, src/cpp/server/backends/llamacpp/llamacpp_server.cpp: whole names.
		"lemonade": {func(asset, tag string) bool {
			for _, kind := range []string{
				"ubuntu-x64.tar.gz", "ubuntu-vulkan-x64.tar.gz", "ubuntu-rocm-7.2-x64.tar.gz",
				"win-cpu-x64.zip", "win-vulkan-x64.zip", "win-rocm-7.2-x64.zip",
			} {
				if asset == "llama-"+tag+"-bin-"+kind {
					return true
				}
			}
			return false
		}, "nnnnnnnn"},
		// unslothai/unsloth, studio/install_llama_prebuilt.py: names of its own, app-LABEL-linux-x64….
		"unsloth": {regexp1(`^app-(?P<label>.+)-(?P<target>linux-x64(?:-cpu)?|linux-x64-(?:cuda12|cuda13)-(?:older|newer|portable))\.tar\.gz$`), "nnnnnnnn"},
		// Updaters for llama-swap and others take a build number and nothing else before -bin-: ^llama-(b\d+)-bin-(.+)$.
		"a build number alone": {regexp1(`^llama-(b\d+)-bin-(.+)$`), "nnnnnnnn"},
		// Others look for the number anywhere, and for a word behind -bin-.
		"a build number in front": {
			regexp1(`^llama-(b\d+)[-.].*-bin-.*(linux|ubuntu|win).*-x64\.(zip|tar\.gz)$`),
			"yyynnynn",
		},
	} {
		got := ""
		for _, asset := range ours {
			got += map[bool]string{true: "y", false: "n"}[c.finds(asset, bundle.ReleaseName(asset))]
		}
		if got != c.want {
			t.Errorf("%s finds %s, want %s, of %v", name, got, c.want, ours)
		}
	}
}

func regexp1(pattern string) func(asset, tag string) bool {
	re := regexp.MustCompile(pattern)
	return func(asset, _ string) bool { return re.MatchString(asset) }
}

func TestReleaseName(t *testing.T) {
	for archive, want := range map[string]string{
		"llama-b8833-llp1-bin-linux-cpu-x64.tar.gz":            "b8833-llp1",
		"llama-v0.5.0-llp2-backend-linux-cuda-12.4-x64.tar.gz": "v0.5.0-llp2",
		"ik_llama-4840-llp1-bin-linux-cpu-x64.tar.gz":          "ik_llama-4840-llp1",
	} {
		if got := bundle.ReleaseName(archive); got != want || !PlainName(got) {
			t.Errorf("%s: %s", archive, got)
		}
	}
	for _, bad := range []string{"", "..", ".x", "a/b", "a b", "-x"} {
		if PlainName(bad) {
			t.Errorf("%q is a plain name", bad)
		}
	}
}
