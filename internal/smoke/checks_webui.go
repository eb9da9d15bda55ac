package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"github.com/llpatch/llpatch/internal/llamaserver"
)

// webuiCheck: GET / gives the web UI, all that it names is there, and a browser, where this
// machine has one, shows it and chats; with expect = false, that the build was made without it.
func webuiCheck(a *args) step {
	expect := a.flag("expect", true)
	return onServer(a, func(ctx context.Context, srv *server) (outcome, error) {
		ctx, cancel := context.WithTimeout(ctx, srv.s.answer())
		defer cancel()
		status, kind, body, err := srv.get(ctx, "/")
		if err != nil {
			return outcome{}, srv.fault("GET /: %v", err)
		}
		isPage := status == http.StatusOK && kind == "text/html" && strings.Contains(strings.ToLower(string(body)), "<html")
		switch {
		case expect && !isPage:
			return outcome{}, srv.fault("GET / gave %d, %s, with %s, and no web page", status, kind, llamaserver.Quote(body))
		case !expect && isPage:
			return outcome{}, srv.fault("GET / gave a web page of %d bytes; the build was to have none", len(body))
		case !expect:
			return outcome{detail: fmt.Sprintf("no web UI, as declared: GET / gives %d", status)}, nil
		}
		figures := map[string]any{"bytes": len(body)}
		files, err := srv.parts(ctx, body)
		if err != nil {
			return outcome{}, err
		}
		figures["files"] = files
		how, err := srv.s.browse(ctx, srv, figures)
		if none := new(noBrowser); errors.As(err, &none) {
			how, err = none.Error(), nil
		}
		return outcome{
			detail:  fmt.Sprintf("the web UI is there, with the %d files that it names; %s", files, how),
			figures: figures,
		}, err
	})
}

// pageImports finds the modules that the script which starts a page imports.
var pageImports = regexp.MustCompile(`\bimport\(["']([^"'#]+)["']`)

// maxStarter is more than such a script has, bytes. In a page of one file the whole program
// stands in its place, and what looks like names there are texts of the program.
const maxStarter = 16 << 10

// pageNames are the files that a page names: of a link, a script, an image or a module.
func pageNames(body []byte) []string {
	var names []string
	z := html.NewTokenizer(bytes.NewReader(body))
	inScript := false
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return names
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			inScript = t.Data == "script" && kind == html.StartTagToken
			for _, a := range t.Attr {
				if a.Key == "src" && (t.Data == "script" || t.Data == "img") || a.Key == "href" && t.Data == "link" {
					names = append(names, a.Val)
				}
			}
		case html.EndTagToken:
			inScript = false
		case html.TextToken:
			if text := z.Raw(); inScript && len(text) <= maxStarter {
				for _, m := range pageImports.FindAllSubmatch(text, -1) {
					names = append(names, string(m[1]))
				}
			}
		}
	}
}

// parts fetches each file of the server's own that the page names, and returns how many.
func (srv *server) parts(ctx context.Context, body []byte) (int, error) {
	seen := map[string]bool{}
	for _, name := range pageNames(body) {
		u, err := url.Parse(name)
		if err != nil || u.IsAbs() || u.Host != "" {
			continue
		}
		at := (&url.URL{Path: "/"}).ResolveReference(u).Path
		if at == "/" || seen[at] {
			continue
		}
		seen[at] = true
		status, _, data, err := srv.get(ctx, at)
		switch {
		case err != nil:
			return 0, srv.fault("GET %s, which the web page names: %v", at, err)
		case status != http.StatusOK:
			return 0, srv.fault("GET %s, which the web page names, gave %d", at, status)
		case len(data) == 0:
			return 0, srv.fault("%s, which the web page names, is empty", at)
		}
	}
	return len(seen), nil
}
