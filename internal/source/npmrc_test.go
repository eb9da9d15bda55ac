package source

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNpmrc(t *testing.T) {
	env := func(k string) (string, bool) { return "value of " + k, k == "SET" }
	got, err := parseNpmrc(strings.NewReader("\ufeffregistry=https://r.example/\r\n"+`
; comment
# comment
spaced   =   two words   ; with a comment
quoted = "a ; b"
single='it'
flag
list[] = 1
set = x${SET}y
unset = x${UNSET}y
optional = x${UNSET?}y
escaped = \${SET}
//r.example/:_authToken = abc=def#1
[section]
registry=https://other.example/
`), env)
	must(t, err)
	want := map[string]string{
		"registry": "https://r.example/", "spaced": "two words", "quoted": "a ; b", "single": "it", "flag": "true",
		"set": "xvalue of SETy", "unset": "x${UNSET}y", "optional": "xy", "escaped": `\${SET}`,
		"//r.example/:_authToken": "abc=def#1",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("keys %v", sorted(got))
	}
}

// TestNpmConfigOrder: the environment, then the project, the user, the installation.
func TestNpmConfigOrder(t *testing.T) {
	noNpmConfig(t)
	project, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(project, ".npmrc"): "a=project\nb=project\nc=project\n",
		filepath.Join(dir, "user"):       "b=user\nc=user\nd=user\nproxy=null\n",
		filepath.Join(dir, "global"):     "d=global\ne=global\n@x:registry=https://x.example/r\n",
	} {
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	t.Setenv("npm_config_userconfig", filepath.Join(dir, "user"))
	t.Setenv("npm_config_globalconfig", filepath.Join(dir, "global"))
	t.Setenv("NPM_CONFIG_C", "environment")
	c, err := loadNpmConfig(project)
	must(t, err)
	for k, want := range map[string]string{
		"a": "project", "b": "project", "c": "environment", "d": "user", "e": "global",
		"proxy": "", "none": "",
	} {
		if got := c.get(k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	if r := c.registry("pkg"); r != "" {
		t.Errorf("registry %s", r)
	}
	if r := c.registry("@x/pkg"); r != "https://x.example/r/" {
		t.Errorf("registry of a scope %s", r)
	}
	t.Setenv("NPM_CONFIG_REGISTRY", "https://env.example/npm")
	c, err = loadNpmConfig(project)
	must(t, err)
	if r := c.registry("pkg"); r != "https://env.example/npm/" {
		t.Errorf("registry %s", r)
	}
}

// TestNpmAuth: a token goes to the address it is for, and nowhere else.
func TestNpmAuth(t *testing.T) {
	c := &npmConfig{values: map[string]string{
		"//r.example/:_authToken":           "host",
		"//r.example/private/:_authToken":   "private",
		"//basic.example:8080/x/:_auth":     "dTpw",
		"//user.example/:username":          "u",
		"//user.example/:_password":         "cA==",
		"//noslash.example/repo:_authToken": "bare",
	}}
	for address, want := range map[string]string{
		"https://r.example/pkg/1.0.0":        "Bearer host",
		"https://r.example/private/pkg":      "Bearer private",
		"https://r.example/privateer/pkg":    "Bearer host",
		"https://other.example/r.example/x":  "",
		"https://r.example.evil.example/pkg": "",
		"http://basic.example:8080/x/pkg":    "Basic dTpw",
		"http://basic.example/x/pkg":         "",
		"https://user.example/pkg":           "Basic dTpw",
		"https://noslash.example/repo/pkg":   "Bearer bare",
	} {
		u, err := url.Parse(address)
		must(t, err)
		if got := c.header(u).Get("Authorization"); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// TestNpmTransport: a private authority by cafile, and a proxy.
func TestNpmTransport(t *testing.T) {
	noNpmConfig(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	defer s.Close()
	var proxied string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied = r.URL.String()
		w.WriteHeader(http.StatusAccepted)
	}))
	defer proxy.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644))
	get := func(npmrc, address string) (int, error) {
		must(t, os.WriteFile(filepath.Join(dir, ".npmrc"), []byte(npmrc), 0o644))
		c, err := loadNpmConfig(dir)
		must(t, err)
		f := newFetcher(t.Context(), Options{}, "x")
		client := &http.Client{Transport: f.roundTripper(c)}
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		must(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if _, err := get("", s.URL); err == nil {
		t.Error("a server of an unknown authority was trusted")
	}
	if code, err := get("cafile="+ca, s.URL); err != nil || code != http.StatusTeapot {
		t.Errorf("with cafile: %d %v", code, err)
	}
	if code, err := get("proxy="+proxy.URL, "http://registry.example/x"); err != nil || code != http.StatusAccepted ||
		proxied != "http://registry.example/x" {
		t.Errorf("with a proxy: %d %v %s", code, err, proxied)
	}
	must(t, os.WriteFile(ca, []byte("no pem"), 0o644))
	if _, err := loadNpmConfig(dir); err != nil { // this .npmrc names no cafile
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, ".npmrc"), []byte("cafile="+ca), 0o644))
	_, err := loadNpmConfig(dir)
	wantErr(t, err, "holds no certificate", ca)
}

func FuzzNpmrc(f *testing.F) {
	f.Add([]byte("registry=https://x/\n//x/:_authToken=${TOKEN}\n; c\n[s]\n"))
	f.Add([]byte("a='\n\"=\"\n=\n${${x}}=${x?}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kv, err := parseNpmrc(bytes.NewReader(b), func(string) (string, bool) { return "v", true })
		if err != nil {
			return
		}
		c := &npmConfig{values: kv}
		if r := c.registry("p"); r != "" && !strings.HasSuffix(r, "/") {
			t.Errorf("registry %q", r)
		}
		c.header(&url.URL{Scheme: "https", Host: "x", Path: "/a/b"})
	})
}
