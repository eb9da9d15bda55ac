package llamaserver_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llpatch/llpatch/internal/llamaserver"
)

func client(t *testing.T, h http.HandlerFunc) *llamaserver.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return llamaserver.New(strings.TrimPrefix(s.URL, "http://"), "secret")
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{200, `{"status":"ok"}`, ""},
		{503, `{"error":{"message":"Loading model"}}`, "it still answers 503"},
		{200, `<p>hello`, `GET /health gave 200 with "<p>hello", not {"status":"ok"}`},
		{200, `{"status":"error"}`, "GET /health gave 200 with"},
		{404, ``, "GET /health gave 404 with no content"},
	} {
		s := client(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/health" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s %v", r.URL, r.Header)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		err := s.Health(t.Context(), time.Second)
		if got := fmt.Sprint(err); (c.want == "") != (err == nil) || err != nil && !strings.Contains(got, c.want) {
			t.Errorf("%d %s: %v, want %q", c.status, c.body, err, c.want)
		}
		var u *llamaserver.Unhealthy
		if errors.As(err, &u) != strings.HasPrefix(c.want, "GET") {
			t.Errorf("%d %s: %#v", c.status, c.body, err)
		}
	}
}

func TestCallLimit(t *testing.T) {
	s := client(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that its client has gone
		<-r.Context().Done()
	})
	began := time.Now()
	if _, _, err := s.Call(t.Context(), 50*time.Millisecond, http.MethodPost, "/", map[string]int{"a": 1}); err == nil ||
		time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestEvents(t *testing.T) {
	for stream, want := range map[string]string{
		"data: {\"a\":1}\r\n\r\n: ping\n\ndata:{\"b\":2}\n\ndata: [DONE]\n\n": `[{"a":1} {"b":2}] <nil>`,
		"data: {\"a\":1}\n\ndata: {\"b":                                       `[{"a":1}] cut in the middle of`,
		"hello\n":                                                             `[] a line that is no data: "hello"`,
		"error: {\"code\":500}\n":                                             `[] the server says "{\"code\":500}"`,
		"data: stop\n\ndata: more\n\n":                                        `[stop] enough`,
	} {
		var got []string
		err := llamaserver.Events(strings.NewReader(stream), func(data []byte) error {
			got = append(got, string(data))
			if string(data) == "stop" {
				return errors.New("enough")
			}
			return nil
		})
		if s := fmt.Sprint(got, " ", err); !strings.HasPrefix(strings.Replace(s, "]  ", "] ", 1), want) {
			t.Errorf("%q: %s, want %s", stream, s, want)
		}
	}
}

func TestTokens(t *testing.T) {
	a, b := llamaserver.Tokens(1, 1000), llamaserver.Tokens(1, 1000)
	if !slices.Equal(a, b) || slices.Equal(a, llamaserver.Tokens(2, 1000)) || slices.Min(a) < 10 || slices.Max(a) > 209 {
		t.Errorf("%v", a[:20])
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: {}\n\n")
	f.Add(": ping\nerror: no\n")
	f.Fuzz(func(t *testing.T, s string) {
		n := 0
		if err := llamaserver.Events(strings.NewReader(s), func([]byte) error {
			n++
			return nil
		}); err == nil && n > strings.Count(s, "data:") {
			t.Errorf("%q: %d events", s, n)
		}
	})
}
