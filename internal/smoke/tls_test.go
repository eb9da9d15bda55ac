package smoke

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llpatch/llpatch/internal/spec"
)

// fakeFetch gets a model by name as llama-server does, but for what mode has wrong: without a
// hub it takes the one that it has.
func fakeFetch(mode, repo string) error {
	kept := filepath.Join(os.Getenv("LLAMA_CACHE"), "kept")
	err := fakeAsk(mode, repo)
	if err == nil {
		return os.WriteFile(kept, nil, 0o600)
	}
	if _, kerr := os.Stat(kept); kerr == nil {
		return nil
	}
	return err
}

// fakeAsk gets it from the hub.
func fakeAsk(mode, repo string) error {
	if mode == "no https" {
		return errors.New("HTTPS is not supported. Please rebuild")
	}
	pem, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return err
	}
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AppendCertsFromPEM(pem)
	switch mode {
	case "takes any certificate":
		conf.InsecureSkipVerify = true
	case "takes any host":
		conf.ServerName = "example.org"
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
	get := func(path string, to any) error {
		res, err := client.Get(os.Getenv("MODEL_ENDPOINT") + path)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, res.Status)
		}
		if to == nil {
			_, err = io.Copy(io.Discard, res.Body)
			return err
		}
		return json.NewDecoder(res.Body).Decode(to)
	}
	if mode == "old hub" {
		var manifest struct{ GgufFile struct{ Rfilename string } }
		if err := get("v2/"+repo+"/manifests/latest", &manifest); err != nil {
			return err
		}
		return get(repo+"/resolve/main/"+manifest.GgufFile.Rfilename, nil)
	}
	var refs struct {
		Branches []struct{ TargetCommit string }
	}
	if err := get("api/models/"+repo+"/refs", &refs); err != nil {
		return err
	}
	commit := refs.Branches[0].TargetCommit
	var tree []struct{ Path string }
	if err := get("api/models/"+repo+"/tree/"+commit, &tree); err != nil || mode == "has it already" {
		return err
	}
	return get(repo+"/resolve/"+commit+"/"+tree[0].Path, nil)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "old hub"} {
		o := options(t, mode, check("tls"), check("health"))
		r, err := Run(t.Context(), o)
		if err != nil || !strings.Contains(r.Checks[0].Detail, "HTTPS served (TLS 1.3)") {
			t.Errorf("%q: %v: %+v", mode, err, r.Checks)
		}
		left, err := os.ReadDir(o.Work)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			if strings.HasPrefix(f.Name(), "tls-") {
				t.Errorf("%q: %s is left", mode, f.Name())
			}
		}
	}
	again := options(t, "", check("tls"))
	for i := range 2 { // what the first run fetched is not the second's
		if _, err := Run(t.Context(), again); err != nil {
			t.Errorf("run %d in the same folder: %v", i+1, err)
		}
	}
	for mode, c := range map[string]struct {
		check spec.Check
		want  string
	}{
		"takes any certificate": {check("tls"), "a certificate of an unknown authority was not refused: the hub was asked"},
		"takes any host":        {check("tls"), "a certificate for another host was not refused: the hub was asked"},
		"has it already":        {check("tls"), "the hub was not asked for"},
		"serves http":           {check("tls"), "not ready within"},
		"no https":              {check("tls"), "ended before it was ready"},
	} {
		o := options(t, mode, c.check)
		if mode == "serves http" {
			o.Ready /= 4
		}
		if r, err := Run(t.Context(), o); err == nil || r.Verdict != Failed || !strings.Contains(r.Checks[0].Detail, c.want) {
			t.Errorf("%q: %v, want %q", mode, err, c.want)
		}
	}
	if _, err := Run(t.Context(), options(t, "no https", check("tls", "expect", false))); err != nil {
		t.Error(err)
	}
	if r, err := Run(t.Context(), options(t, "", check("tls", "expect", false))); err == nil ||
		!strings.Contains(r.Checks[0].Detail, "HTTPS was not refused") {
		t.Errorf("HTTPS where there is to be none: %v", err)
	}
}

// A real llama-server with TLS fetches by -hf, and serves HTTPS.
func TestRealTLS(t *testing.T) {
	o := realOptions(t)
	o.Checks = []spec.Check{check("tls")}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Checks[0].Detail)
}
