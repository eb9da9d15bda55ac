package source

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// maxNpmrc bounds a configuration file in bytes.
const maxNpmrc = 1 << 20

// npmConfig is npm's configuration on this machine: by key, the value that npm
// would take. npm itself need not be there.
type npmConfig struct {
	values map[string]string
	roots  *x509.CertPool // of cafile; nil: the system's
}

// loadNpmConfig reads npm's configuration as npm does: npm_config_ variables in
// any case, then .npmrc of the project, of the user, and of the installation.
func loadNpmConfig(project string) (*npmConfig, error) {
	c := &npmConfig{values: map[string]string{}}
	for _, kv := range os.Environ() {
		k, v, _ := strings.Cut(kv, "=")
		if len(k) > len("npm_config_") && strings.EqualFold(k[:len("npm_config_")], "npm_config_") && v != "" {
			c.values[envKey(k[len("npm_config_"):])] = v
		}
	}
	if project == "" {
		project = "."
	}
	files := []string{filepath.Join(project, ".npmrc"), c.values["userconfig"], c.values["globalconfig"]}
	if files[1] == "" {
		if home, err := os.UserHomeDir(); err == nil {
			files[1] = filepath.Join(home, ".npmrc")
		}
	}
	if files[2] == "" {
		files[2] = globalNpmrc(c.values["prefix"])
	}
	for _, name := range files {
		if name == "" {
			continue
		}
		if err := c.readFile(name); err != nil {
			return nil, err
		}
	}
	return c, c.loadCA()
}

// envKey turns the rest of a variable's name into a key: npm_config_https_proxy
// is https-proxy. A key for one registry begins with // and stays as it is.
func envKey(s string) string {
	if strings.HasPrefix(s, "//") || strings.HasPrefix(s, "@") {
		return s
	}
	return strings.ToLower(strings.ReplaceAll(s, "_", "-"))
}

// globalNpmrc is where npm's installation has its configuration: below the
// prefix, which is two folders above the node program.
func globalNpmrc(prefix string) string {
	if prefix == "" {
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if node, err := filepath.EvalSymlinks(filepath.Join(dir, "node")); err == nil {
				prefix = filepath.Dir(filepath.Dir(node))
				break
			}
		}
	}
	if prefix == "" {
		return ""
	}
	return filepath.Join(prefix, "etc", "npmrc")
}

func (c *npmConfig) readFile(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	kv, err := parseNpmrc(file, os.LookupEnv)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for k, v := range kv {
		if _, ok := c.values[k]; !ok { // what was read before counts for more
			c.values[k] = v
		}
	}
	return nil
}

var npmrcEnv = regexp.MustCompile(`(\\*)\$\{([^{}$?]+)(\?)?\}`)

// parseNpmrc reads the ini dialect of .npmrc: key = value, quotes, comments with
// ; or #, and ${NAME} from the environment. Sections and lists mean nothing to
// the keys that are used here.
func parseNpmrc(r io.Reader, env func(string) (string, bool)) (map[string]string, error) {
	expand := func(s string) string {
		return npmrcEnv.ReplaceAllStringFunc(s, func(m string) string {
			p := npmrcEnv.FindStringSubmatch(m)
			if len(p[1])%2 == 1 {
				return m // escaped
			}
			if v, ok := env(p[2]); ok {
				return p[1] + v
			}
			if p[3] != "" {
				return p[1]
			}
			return m
		})
	}
	kv := map[string]string{}
	in := bufio.NewScanner(io.LimitReader(r, maxNpmrc))
	in.Buffer(nil, maxNpmrc)
	section := false
	for in.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(in.Text(), "\ufeff"))
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = true
		}
		if section {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		k = expand(unquote(strings.TrimSpace(k)))
		if !ok {
			v = "true"
		}
		if k == "" || strings.HasSuffix(k, "[]") {
			continue
		}
		kv[k] = expand(unquote(strings.TrimSpace(v)))
	}
	return kv, in.Err()
}

// unquote takes off quotes, or cuts a comment from a value without them.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		if s[0] == '"' {
			if u, err := strconv.Unquote(s); err == nil {
				return u
			}
		}
		return s[1 : len(s)-1]
	}
	if i := strings.IndexAny(s, ";#"); i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		return strings.TrimSpace(s[:i])
	}
	return s
}

// get returns a value; npm writes null or false for one that is not set.
func (c *npmConfig) get(key string) string {
	if v := c.values[key]; v != "null" && v != "false" {
		return v
	}
	return ""
}

// registry is the address that packages of pkg's scope come from, with a slash
// at its end; it is empty where no file and no variable names one.
func (c *npmConfig) registry(pkg string) string {
	reg := ""
	if scope, _, ok := strings.Cut(pkg, "/"); ok && strings.HasPrefix(scope, "@") {
		reg = c.get(scope + ":registry")
	}
	if reg == "" {
		reg = c.get("registry")
	}
	if reg == "" {
		return ""
	}
	return strings.TrimSuffix(reg, "/") + "/"
}

// header returns the credentials for an address: those that are kept under the
// longest beginning of it, so that a token goes to no other server.
func (c *npmConfig) header(u *url.URL) http.Header {
	h := http.Header{}
	for p := "//" + u.Host + u.Path; len(p) > 2; {
		p = p[:strings.LastIndexByte(p, '/')+1]
		if len(p) <= 2 {
			break
		}
		for _, at := range []string{p, strings.TrimSuffix(p, "/")} {
			if token := c.get(at + ":_authToken"); token != "" {
				h.Set("Authorization", "Bearer "+token)
				return h
			}
			if auth := c.get(at + ":_auth"); auth != "" {
				h.Set("Authorization", "Basic "+auth)
				return h
			}
			if user, pass := c.get(at+":username"), c.get(at+":_password"); user != "" && pass != "" {
				if plain, err := base64.StdEncoding.DecodeString(pass); err == nil {
					h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+string(plain))))
					return h
				}
			}
		}
		p = strings.TrimSuffix(p, "/")
	}
	return h
}

// loadCA reads cafile, whose authorities count beside the system's.
func (c *npmConfig) loadCA() error {
	name := c.get("cafile")
	if name == "" {
		return nil
	}
	pem, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("cafile of npm's configuration: %w", err)
	}
	if c.roots, err = x509.SystemCertPool(); err != nil {
		c.roots = x509.NewCertPool()
	}
	if !c.roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("cafile of npm's configuration: %s holds no certificate", name)
	}
	return nil
}

// configure applies proxies and authorities. A proxy of npm's counts for more
// than those of the environment.
func (c *npmConfig) configure(t *http.Transport) {
	if c.roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
	}
	proxies := httpproxy.FromEnvironment()
	plain, secure := c.get("proxy"), c.get("https-proxy")
	if plain != "" {
		proxies.HTTPProxy, proxies.HTTPSProxy = plain, plain
	}
	if secure != "" {
		proxies.HTTPSProxy = secure
	}
	if no := c.get("noproxy"); no != "" {
		proxies.NoProxy = no
	}
	choose := proxies.ProxyFunc()
	t.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}
