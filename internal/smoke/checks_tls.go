package smoke

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llpatch/llpatch/internal/regular"
)

// tlsCheck: llama-server fetches a model by name (-hf) over HTTPS, from a stand-in of the
// model hub whose certificate an authority of this check's own signed, and serves HTTPS with
// such a certificate itself; it refuses a hub with a certificate of another authority, for
// another host, and of the past. With expect = false it refuses HTTPS altogether.
func tlsCheck(a *args) step {
	expect := a.flag("expect", true)
	typ := a.modelType()
	return func(ctx context.Context, s *session) (out outcome, err error) {
		model, err := s.model(ctx, typ, 0)
		if err != nil {
			return outcome{}, err
		}
		dir, err := os.MkdirTemp(s.o.Work, "tls-")
		if err != nil {
			return outcome{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		h, err := newHub(ctx, model, dir)
		if err != nil {
			return outcome{}, err
		}
		defer h.Close()
		if s.wine != nil { // Windows has a store of its own, and no variable
			if err := s.wine.Trust(ctx, h.authority); err != nil {
				return outcome{}, err
			}
		}
		s.stop(ctx) // it is another server's turn, and its environment is another
		env := s.current.Env
		defer func() { s.current.Env = env }()
		s.current.Env = maps.Clone(env)
		if s.current.Env == nil {
			s.current.Env = map[string]string{}
		}
		maps.Copy(s.current.Env, map[string]string{
			"MODEL_ENDPOINT": h.url, "HF_ENDPOINT": h.url,
			"SSL_CERT_FILE": filepath.Join(dir, caFile),
		})
		if !expect {
			if err := h.refused(ctx, s, "HTTPS"); err != nil {
				return outcome{}, err
			}
			return outcome{detail: "no HTTPS, as declared: -hf ends before it asks the hub"}, nil
		}
		for _, bad := range []string{otherAuthority, otherHost, past} {
			h.shows.Store(h.certs[bad])
			if err := h.refused(ctx, s, "a certificate "+bad); err != nil {
				return outcome{}, err
			}
		}
		h.shows.Store(h.certs[good])
		return h.fetched(ctx, s, dir)
	}
}

// Certificates of a hub.
const (
	good           = "that is good"
	otherAuthority = "of an unknown authority"
	otherHost      = "for another host"
	past           = "of the past"

	caFile, certFile, keyFile = "ca.pem", "cert.pem", "key.pem"

	hubRepo = "llpatch/smoke"
	hubFile = "smoke-Q4_K_M.gguf" // what -hf looks for where nobody says a type
)

// hub is a stand-in of the model hub, with one repository of one model.
type hub struct {
	*httptest.Server
	url   string // with a slash at its end, as upstream's own
	model string
	sum   string // SHA-256 of the model
	certs map[string]*tls.Certificate
	shows atomic.Pointer[tls.Certificate]
	roots *x509.CertPool
	// of which roots has one, in DER
	authority []byte
	// the authority's list of revoked certificates, which is empty
	revoked *httptest.Server
	asked   atomic.Int32  // requests
	heard   chan struct{} // one of them, as soon as it comes
	given   atomic.Int32  // of them for the model itself
}

// newHub starts one, with the files of an authority and of a certificate for localhost in dir.
func newHub(ctx context.Context, model, dir string) (h *hub, err error) {
	h = &hub{model: model, heard: make(chan struct{}, 1), certs: map[string]*tls.Certificate{}, roots: x509.NewCertPool()}
	if h.sum, err = regular.Sum(ctx, model); err != nil {
		return nil, err
	}
	now := time.Now()
	ca, err := issue(nil, "llpatch smoke", now.Add(24*time.Hour), "")
	if err != nil {
		return nil, err
	}
	other, err := issue(nil, "llpatch smoke, another", now.Add(24*time.Hour), "")
	if err != nil {
		return nil, err
	}
	// Windows refuses a certificate of which nobody can say whether it was revoked.
	crl, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(24 * time.Hour),
	}, ca.Leaf, ca.PrivateKey.(crypto.Signer))
	if err != nil {
		return nil, err
	}
	revoked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pkix-crl")
		_, _ = w.Write(crl) // a client that is gone has its own fault
	}))
	defer func() {
		if err != nil {
			revoked.Close()
		}
	}()
	h.revoked = revoked
	h.roots.AddCert(ca.Leaf)
	h.authority = ca.Certificate[0]
	for name, of := range map[string]struct {
		by    *tls.Certificate
		host  string
		until time.Time
	}{
		good: {ca, "localhost", now.Add(24 * time.Hour)}, otherAuthority: {other, "localhost", now.Add(24 * time.Hour)},
		otherHost: {ca, "example.org", now.Add(24 * time.Hour)}, past: {ca, "localhost", now.Add(-time.Hour)},
	} {
		if h.certs[name], err = issue(of.by, of.host, of.until, revoked.URL); err != nil {
			return nil, err
		}
	}
	key, err := x509.MarshalPKCS8PrivateKey(h.certs[good].PrivateKey)
	if err != nil {
		return nil, err
	}
	for name, block := range map[string]*pem.Block{
		caFile: {Type: "CERTIFICATE", Bytes: ca.Certificate[0]}, certFile: {
			Type:  "CERTIFICATE",
			Bytes: h.certs[good].Certificate[0],
		},
		keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	h.shows.Store(h.certs[good])
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that end early are what is wanted
	h.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return h.shows.Load(), nil
	}}
	h.StartTLS()
	_, port, err := net.SplitHostPort(h.Listener.Addr().String())
	h.url = "https://localhost:" + port + "/"
	return h, err
}

// Close ends the hub and its authority's list.
func (h *hub) Close() {
	h.Server.Close()
	h.revoked.Close()
}

// issue makes a certificate for a host, signed by an authority whose list of revoked ones is
// at crl; by nil: one of an authority.
func issue(by *tls.Certificate, name string, until time.Time, crl string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{name},
	}
	parent, signer := c, any(key)
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage, c.DNSNames = true, true, nil, nil
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	} else {
		c.CRLDistributionPoints = []string{crl}
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// ServeHTTP answers as the hub does: a manifest to builds before b8498, refs and a tree to
// newer ones, and the file.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	select {
	case h.heard <- struct{}{}:
	default:
	}
	commit := h.sum[:40] // any will do
	var answer any
	switch path := strings.TrimPrefix(r.URL.Path, "/"); {
	case strings.HasPrefix(path, "v2/"+hubRepo+"/manifests/"):
		answer = map[string]any{"ggufFile": map[string]any{"rfilename": hubFile}}
	case path == "api/models/"+hubRepo+"/refs":
		answer = map[string]any{"branches": []any{map[string]any{"name": "main", "targetCommit": commit}}}
	case path == "api/models/"+hubRepo+"/tree/"+commit:
		st, err := os.Stat(h.model)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = []any{map[string]any{
			"type": "file", "path": hubFile, "size": st.Size(), "oid": h.sum[:40],
			"lfs": map[string]any{"oid": h.sum, "size": st.Size()},
		}}
	case strings.HasPrefix(path, hubRepo+"/resolve/") && strings.HasSuffix(path, "/"+hubFile):
		if r.Method == http.MethodGet {
			h.given.Add(1)
		}
		w.Header().Set("ETag", `"`+h.sum+`"`)
		http.ServeFile(w, r, h.model)
		return
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone has its own fault
}

// refused starts a server that is to fetch its model from the hub, which must end with the
// hub not asked; what is what it is to refuse.
func (h *hub) refused(ctx context.Context, s *session, what string) error {
	h.asked.Store(0)
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-h.heard: // that is all that was to be known
			stop()
		case <-asking.Done():
		}
	}()
	out, err := s.output(asking, "llama-server", "--host", "127.0.0.1", "--port", "0", "-hf", hubRepo)
	var f *fault
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case h.asked.Load() > 0:
		return &fault{
			msg: what + " was not refused: the hub was asked",
			log: filepath.Join(s.o.Work, s.side.name+"-llama-server.log"),
		}
	case errors.As(err, &f) && (f.late || f.signal != ""), err == nil:
		return out.fault("%s: the server did not end with an error of its own: %v", what, err)
	case f == nil:
		return err
	}
	return nil
}

// fetched starts a server that fetches its model from the hub and serves HTTPS, and has it
// complete a prompt.
func (h *hub) fetched(ctx context.Context, s *session, dir string) (outcome, error) {
	srv, err := s.need(ctx, config{
		args: []string{
			"-hf", hubRepo, "--ssl-cert-file", filepath.Join(dir, certFile), "--ssl-key-file",
			filepath.Join(dir, keyFile),
		},
		trust: &tls.Config{RootCAs: h.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		return outcome{}, err
	}
	defer s.stop(ctx)
	if h.given.Load() == 0 {
		return outcome{}, srv.fault("the server is ready, and the hub was not asked for %s", hubFile)
	}
	if _, err := srv.complete(ctx, "The quick brown fox", 8); err != nil {
		return outcome{}, err
	}
	state, err := srv.client.TLS(ctx, s.answer())
	if err != nil {
		return outcome{}, srv.fault("GET /health: %v", err)
	}
	version := tls.VersionName(state.Version)
	return outcome{
		detail: fmt.Sprintf("a model by -hf over HTTPS, HTTPS served (%s), and certificates %s, %s and %s refused", version,
			otherAuthority, otherHost, past),
		figures: map[string]any{"requests": h.asked.Load()},
	}, nil
}
