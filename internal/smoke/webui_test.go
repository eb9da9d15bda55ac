package smoke

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fakePage is a web page that chats, as far as webui looks.
const fakePage = `<!doctype html><HTML><head><link rel="icon" href="data:,"><link href="./bundle.css" rel="stylesheet"></head>
<body><form><textarea></textarea><button type="submit">Send</button></form><p></p><script src="./bundle.js"></script></body></HTML>`

// fakeScript shows what was asked after late milliseconds, which come before it.
const fakeScript = `
fetch("/cors-proxy", {method: "HEAD"});
const box = document.querySelector("textarea");
fetch("./tools"); // which the server has switched off
document.querySelector("form").addEventListener("submit", async e => {
	e.preventDefault();
	const asked = box.value;
	document.querySelector("p").append(document.createElement("b")); // where it comes
	setTimeout(() => { document.querySelector("b").innerText = asked; }, late);
	const answer = await fetch("./v1/chat/completions", {method: "POST", body: "{}"});
	for await (const piece of answer.body) document.querySelector("p").append(new TextDecoder().decode(piece));
});
`

// serveFakePage serves it, with what mode has wrong; false: the path is none of its.
func serveFakePage(mode, path string, w http.ResponseWriter) bool {
	switch path {
	case "/":
		if mode == "no web ui" {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, fakePage)
	case "/bundle.css":
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, map[bool]string{true: "p {width: 2000px}", false: "p {width: 90%}"}[mode == "wide page"])
	case "/bundle.js":
		w.Header().Set("Content-Type", "text/javascript")
		switch mode {
		case "empty bundle":
			return true
		case "no bundle":
			w.WriteHeader(http.StatusNotFound)
		case "page asks elsewhere":
			fmt.Fprint(w, `fetch("http://example.com/font.woff2").catch(() => {});`)
		case "page logs an error":
			fmt.Fprint(w, `console.error("no", "such model");`)
		case "page throws":
			fmt.Fprint(w, `null.x;`)
		}
		late := map[string]int{"page is slow": 2000, "page shows nothing": 1 << 30}[mode]
		fmt.Fprintf(w, "const late = %d;%s", late, fakeScript)
	case "/tools":
		w.WriteHeader(map[bool]int{
			true:  http.StatusInternalServerError,
			false: http.StatusForbidden,
		}[mode == "page gets an error"])
	case "/v1/chat/completions":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 8 {
			fmt.Fprintf(w, "data: {\"choices\": [{\"delta\": {\"content\": \"%d\"}}]}\n\n", i)
			if mode == "page gets all at once" {
				continue
			}
			if w.(http.Flusher).Flush(); i < 7 {
				time.Sleep(100 * time.Millisecond) // so that they come one by one
			}
		}
	default:
		return false
	}
	return true
}

// What the page names must be there, with or without a browser; and without one that is said.
func TestWebUIWithoutABrowser(t *testing.T) {
	for mode, want := range map[string]string{
		"":             "the 2 files that it names; NOT tried in a browser: this machine has no Chromium",
		"empty bundle": "/bundle.js, which the web page names, is empty",
		"no bundle":    "GET /bundle.js, which the web page names, gave 404",
	} {
		r, err := Run(t.Context(), options(t, mode, check("webui")))
		if got := r.Checks[0]; (err == nil) != (mode == "") || !strings.Contains(got.Detail, want) {
			t.Errorf("%q: %s, %v", mode, got.Detail, err)
		}
	}
	o := options(t, "", check("webui"))
	o.Browser = "/bin/false"
	r, err := Run(t.Context(), o)
	if got := r.Checks[0]; err != nil || !strings.Contains(got.Detail,
		"NOT tried in a browser: /bin/false: it ended at once") {
		t.Errorf("a browser that does not start: %s, %v", got.Detail, err)
	}
}

// In a page of one file, what looks like a name in the program is none.
func TestPageNames(t *testing.T) {
	starter := `<script>import("./b.js"); x = '<img src="no.png">';</script>`
	program := "<script>" + strings.Repeat("y = 1;\n", maxStarter) +
		"z = `<img src=\"${r}\">`; import(\"./no.js\")</script>"
	page := `<html><link rel="icon" href="i.svg"><script src="a.js"></script><a href="no.html">` + starter + program +
		`<img src="p.png"/>`
	if got := strings.Join(pageNames([]byte(page)), " "); got != "i.svg a.js ./b.js p.png" {
		t.Errorf("named: %s", got)
	}
}

// A real browser, on the fake's page.
func TestWebUIInABrowser(t *testing.T) {
	browser := FindBrowser()
	if browser == "" {
		t.Skip("this machine has no Chromium")
	}
	for mode, want := range map[string]string{
		"":                      "a browser showed it and chatted, on the screens of a phone and a desktop",
		"page asks elsewhere":   "on a phone's screen (390x844): it asks another host: http://example.com/font.woff2",
		"page logs an error":    "console error: no such model",
		"page throws":           "a script failed: ",
		"page gets an error":    "/tools, and gets 500",
		"page gets all at once": "pieces, which is no stream",
		"wide page":             "pixels wider than the screen",
		"page is slow":          "a browser showed it and chatted",
		"page shows nothing":    "it does not show what was asked",
	} {
		good := mode == "" || mode == "page is slow"
		if testing.Short() && !good {
			continue // each starts a browser
		}
		o := options(t, mode, check("webui"))
		o.Browser = browser
		r, err := Run(t.Context(), o)
		if got := r.Checks[0]; (err == nil) != good || !strings.Contains(got.Detail, want) {
			t.Errorf("%q: %s, %v", mode, got.Detail, err)
		}
	}
}
