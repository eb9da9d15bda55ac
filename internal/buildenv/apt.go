package buildenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llpatch/llpatch/internal/exit"
	"github.com/llpatch/llpatch/internal/run"
)

// Missing is a program or file that this machine lacks.
type Missing struct {
	What string // and what for
	How  string // to get it
}

// Error says what is missing and how to get it.
func (e *Missing) Error() string { return "this machine lacks " + e.What + "; " + e.How }

// ExitCode is exit.Build.
func (e *Missing) ExitCode() int { return exit.Build }

// debianKeyring is where Debian's package debian-archive-keyring puts the keys.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// hostPath is where the system's own programs are, whatever the caller's PATH.
const hostPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// host runs one of the system's programs and returns its standard output.
func host(ctx context.Context, env []string, argv ...string) ([]byte, error) {
	return run.Output(ctx, run.Cmd{
		Argv: argv, Env: append([]string{"PATH=" + hostPath, "LC_ALL=C"}, env...), Timeout: 30 * time.Minute,
	})
}

// need returns the path of one of the system's programs.
func need(name, what, how string) (string, error) {
	p, err := run.LookPath(name, hostPath)
	if err != nil {
		return "", &Missing{name + ", " + what, how}
	}
	return p, nil
}

// aptMirror returns the folder of Debian's packages that this machine's own apt
// uses: another suite of the same mirror lies in it as well.
func aptMirror(ctx context.Context) (string, error) {
	how := "--mirror URL names the folder of a Debian mirror that holds dists/ and pool/"
	if _, err := need("apt-get", "which knows this machine's Debian mirror", how); err != nil {
		return "", err
	}
	out, err := host(ctx, nil, "apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(CREATED_BY)|$(REPO_URI)")
	if err != nil {
		return "", fmt.Errorf("this machine's Debian mirror: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(f) == 4 && f[0] == "Debian" && f[1] == "Debian" && f[2] == "Packages" {
			return f[3], nil
		}
	}
	return "", &Missing{"a mirror of Debian among its apt sources", "apt-get update reads the sources anew, or " + how}
}

// aptAcquire returns what this machine's apt is told about fetching over HTTP,
// such as a proxy: option -> value.
func aptAcquire(ctx context.Context) (map[string]string, error) {
	set := map[string]string{}
	if _, err := run.LookPath("apt-config", hostPath); err != nil {
		return set, nil
	}
	out, err := host(ctx, nil, "apt-config", "dump", "--format", "%F %v%n")
	if err != nil {
		return nil, fmt.Errorf("apt's configuration: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		lower := strings.ToLower(key)
		if value != "" && (strings.HasPrefix(lower, "acquire::http::") || strings.HasPrefix(lower, "acquire::https::")) {
			set[lower] = value
		}
	}
	return set, nil
}

// aptProxy finds the proxy of a request as apt does: one for the host, one for
// the scheme, else the environment's.
func aptProxy(set map[string]string) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		base := "acquire::" + r.URL.Scheme + "::proxy"
		for _, key := range []string{base + "::" + strings.ToLower(r.URL.Hostname()), base} {
			if v := set[key]; v != "" {
				if v == "DIRECT" {
					return nil, nil //nolint:nilnil // what http.Transport takes for: no proxy
				}
				return url.Parse(v)
			}
		}
		return http.ProxyFromEnvironment(r)
	}
}

// private is an apt with folders and sources of its own: it neither reads nor
// changes the packages of this machine.
type private struct {
	dir string
}

// newPrivate writes its configuration below dir, which must be empty.
func newPrivate(ctx context.Context, d Decl, dir, mirror string, o Options) (*private, error) {
	for _, sub := range []string{
		"etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d",
		"var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg",
	} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	acquire, err := aptAcquire(ctx)
	if err != nil {
		return nil, err
	}
	status := filepath.Join(dir, "var/lib/dpkg/status")
	conf := []string{
		"Dir", dir, "Dir::State::status", status, "APT::Architecture", d.Arch, "APT::Architectures", d.Arch,
		"APT::Install-Recommends", "false", "APT::Sandbox::User", "", "Acquire::Languages", "none",
		"pkgCacheGen::ForceEssential", ",", // else apt counts itself as essential
	}
	for _, k := range slices.Sorted(maps.Keys(acquire)) {
		conf = append(conf, k, acquire[k])
	}
	if o.Past {
		conf = append(conf, "Acquire::Check-Valid-Until", "false")
	}
	var text strings.Builder
	for i := 0; i < len(conf); i += 2 {
		if strings.ContainsAny(conf[i+1], "\"\n") {
			return nil, fmt.Errorf("apt cannot be given %s %q", conf[i], conf[i+1])
		}
		fmt.Fprintf(&text, "%s %q;\n", conf[i], conf[i+1])
	}
	list := fmt.Sprintf("deb [signed-by=%s] %s %s %s\n", o.Keyring, mirror, d.Suite, strings.Join(d.Components, " "))
	for name, content := range map[string]string{
		"apt.conf": text.String(), "etc/apt/sources.list": list,
		"var/lib/dpkg/status": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	return &private{dir: dir}, nil
}

func (p *private) run(ctx context.Context, argv ...string) ([]byte, error) {
	return host(ctx, []string{"APT_CONFIG=" + filepath.Join(p.dir, "apt.conf")}, argv...)
}

// resolve asks apt for what the declaration means of its own suite, now. alone are all packages
// of the root that are unpacked whatever they depend on.
func (p *private) resolve(ctx context.Context, d Decl, alone []string) ([]Package, error) {
	if _, err := p.run(ctx, "apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"); err != nil {
		if strings.Contains(err.Error(), "is expired") {
			err = fmt.Errorf("%w\n--past takes lists whose time is over, as those of a snapshot are", err)
		}
		return nil, fmt.Errorf("the package lists of %s: %w", d.Suite, err)
	}
	// Essential ones are what every package may rely on without saying so.
	argv := append([]string{"apt-get", "--simulate", "--yes", "install", "?essential"}, d.Base...)
	var out []byte
	var err error
	if len(d.Base) > 0 {
		if out, err = p.run(ctx, argv...); err != nil {
			return nil, fmt.Errorf("packages of %s: %w", d.Suite, err)
		}
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		// Inst libc6 (2.36-9 Debian:12/stable [amd64])
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == "Inst" {
			name, _, _ := strings.Cut(f[1], ":")
			if slices.Contains(alone, name) {
				return nil, fmt.Errorf("package %s is to be unpacked alone, and a package of the base depends on it", name)
			}
			want = append(want, name+"="+strings.TrimPrefix(f[2], "("))
		}
	}
	if len(want) < len(d.Base) {
		return nil, fmt.Errorf("apt would install %d packages for %s, and the base alone names %d", len(want), d.Name,
			len(d.Base))
	}
	var all []Package
	out, err = p.run(ctx, append([]string{"apt-cache", "--no-all-versions", "show"}, slices.Concat(want, d.Unpack)...)...)
	if err != nil {
		return nil, fmt.Errorf("packages of %s: %w", d.Suite, err)
	}
	for _, s := range stanzas(string(out)) {
		size, err1 := strconv.ParseInt(s["Size"], 10, 64)
		kib, err2 := strconv.ParseInt(s["Installed-Size"], 10, 64)
		if s["Installed-Size"] == "" {
			kib, err2 = 0, nil
		}
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("package %s: %w", s["Package"], err)
		}
		all = append(all, Package{
			Name: s["Package"], Version: s["Version"], Arch: s["Architecture"], Size: size, Installed: kib, SHA256: s["SHA256"],
			File: strings.TrimPrefix(s["Filename"], "./"),
		})
	}
	return all, nil
}

// stanzas reads the paragraphs of a control file, each field's first line.
func stanzas(text string) (all []map[string]string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if k, v, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
				fields[k] = strings.TrimSpace(v)
			}
		}
		if len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}
