package bundle

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/llpatch/llpatch/internal/build"
	"github.com/llpatch/llpatch/internal/buildenv"
	"github.com/llpatch/llpatch/internal/spec"
)

// What a bundle for Linux says of the systems that it needs, from what its files need.
func TestLinuxPage(t *testing.T) {
	host := "of its maker's own machine"
	for name, c := range map[string]struct {
		i          Info
		want, lack []string
	}{
		"old": {
			Info{Glibc: "2.31", Libstdcpp: "3.4.28", Buildenv: "debian-11"},
			[]string{"glibc 2.31 or newer", "have: Debian 11, Ubuntu 20.04, RHEL 9, and newer"},
			[]string{host},
		},
		"libstdc++": {
			Info{Glibc: "2.31", Libstdcpp: "3.4.30", Buildenv: "debian-11"},
			[]string{"have: Debian 12, Ubuntu 22.04, RHEL 10, and newer"},
			[]string{host},
		},
		"openssl": {
			Info{Glibc: "2.29", Libstdcpp: "3.4.21", Needs: []string{"libssl.so.3"}},
			[]string{"libssl.so.3", "have: Debian 12, Ubuntu 22.04, RHEL 9, and newer", host},
			nil,
		},
		"unknown ones": {Info{Glibc: "2.43"}, []string{"glibc 2.43 or newer", host}, []string{"Debian", "Ubuntu"}},
		"linked": {
			Info{Glibc: "2.31", Linked: []string{"OpenSSL 3.5.5"}, Buildenv: "debian-11"},
			[]string{"Debian 11"},
			nil,
		},
		"no glibc": {Info{}, nil, []string{"glibc", host}},
	} {
		c.i.Series, c.i.Target = &spec.Series{}, "linux-cpu"
		for page, text := range map[string]string{
			"README.md": string(bundlePage(c.i)),
			"NOTES.md":  string(notesPage(c.i, Packed{Archive: "x"})),
		} {
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("%s: %s lacks %q:\n%s", name, page, w, text)
				}
			}
			for _, w := range c.lack {
				if strings.Contains(text, w) {
					t.Errorf("%s: %s says %q:\n%s", name, page, w, text)
				}
			}
		}
	}
}

// README.md of a bundle with an OpenSSL of its own says where that looks for authorities.
func TestAuthorities(t *testing.T) {
	const says = "SSL_CERT_FILE=/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
	for linked, want := range map[string]bool{"OpenSSL 3.5.5": true, "zlib 1.3": false} {
		i := Info{Series: &spec.Series{}, Glibc: "2.31", Linked: []string{linked}}
		if got := strings.Contains(string(bundlePage(i)), says); got != want {
			t.Errorf("%s: %v", linked, got)
		}
		i.Windows = spec.Win7
		if strings.Contains(string(bundlePage(i)), says) {
			t.Errorf("%s: said for Windows", linked)
		}
	}
}

// The bill of materials has what is linked into the programs, by name and version.
func TestLinkedSBOM(t *testing.T) {
	data, err := Content{Info: Info{Series: &spec.Series{}, Linked: []string{"OpenSSL 3.5.5"}}}.SBOM(Packed{Archive: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var b cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
		t.Fatal(err)
	}
	is := func(c cdx.Component) bool {
		return c.BOMRef == "linked:OpenSSL 3.5.5" && c.Name == "OpenSSL" && c.Version == "3.5.5"
	}
	archive := func(d cdx.Dependency) bool {
		return d.Ref == "archive" && slices.Equal(*d.Dependencies, []string{"source", "linked:OpenSSL 3.5.5"})
	}
	if !slices.ContainsFunc(*b.Components, is) || !slices.ContainsFunc(*b.Dependencies, archive) {
		t.Errorf("%s", data)
	}
}

// A bundle whose build was held to a glibc has that in its name.
func TestLinuxBundleName(t *testing.T) {
	repo, err := spec.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, cuda, most, want string }{
		{"linux-cpu", "", "", "llama-b8833-llp1-bin-linux-cpu-x64.tar.gz"},
		{"linux-cpu", "", "2.31", "llama-b8833-llp1-bin-linux-cpu-glibc2.31-x64.tar.gz"},
		{"linux-cuda", "11.8", "", "llama-b8833-llp1-bin-linux-cuda-11.8-x64.tar.gz"},
		{"linux-cuda", "11.8", "2.31", "llama-b8833-llp1-bin-linux-cuda-11.8-glibc2.31-x64.tar.gz"},
	} {
		rec, err := repo.Recipe(c.target)
		if err != nil {
			t.Fatal(err)
		}
		rec.Verify.Limits = buildenv.Limits{GlibcMax: c.most}
		p := build.Plan{CUDA: build.CUDAFact{Version: c.cuda}}
		if got := Name("b8833", rec, p, Info{Revision: 1, Glibc: "2.29"}); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
