package smoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/llpatch/llpatch/internal/llamaserver"
	"github.com/llpatch/llpatch/internal/run"
)

// noBrowser says why the web page was not tried in a browser.
type noBrowser struct{ why string }

// Error is the reason.
func (e *noBrowser) Error() string { return "NOT tried in a browser: " + e.why }

// FindBrowser returns the program of a browser that webui can drive; empty: this machine has none.
func FindBrowser() string {
	for _, name := range []string{
		"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome",
		"google-chrome-stable",
	} {
		if found, err := run.LookPath(name, os.Getenv("PATH")); err == nil {
			return found
		}
	}
	return ""
}

// view is a screen, in pixels of CSS.
type view struct {
	name          string
	width, height int64
	scale         float64
	mobile        bool
}

// views are the screens that the page is tried on.
var views = []view{{"phone", 390, 844, 3, true}, {"desktop", 1280, 800, 1, false}}

const (
	browserStart = 30 * time.Second // for the browser to listen
	browserShows = 10 * time.Second // for the page to show what was asked, after the answer streams
	prompt       = "Say something."
	chunks       = 4 // pieces of an answer that show that it streams
)

// browse opens the server's page in a headless browser, on a phone's screen and a desktop's:
// it loads, a chat streams, the console holds no error, and nothing is asked of another host.
// It returns what it saw. The error is a *noBrowser where this machine has none that starts.
func (s *session) browse(ctx context.Context, srv *server, figures map[string]any) (string, error) {
	if s.o.Browser == "" {
		return "", &noBrowser{"this machine has no Chromium (Debian package chromium)"}
	}
	var saw []string
	for _, v := range views {
		p := &tab{srv: srv}
		err := s.inBrowser(ctx, func(ctx context.Context) error { return p.visit(ctx, v) })
		switch {
		case errors.As(err, new(*noBrowser)):
			return "", err
		case err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return "", context.Cause(ctx)
		case err != nil:
			return "", srv.fault("the web page on a %s's screen (%dx%d): %v", v.name, v.width, v.height, err)
		}
		saw = append(saw, v.name)
		figures[v.name+"_requests"] = p.requests
	}
	return "a browser showed it and chatted, on the screens of a " + strings.Join(saw, " and a "), nil
}

// inBrowser starts a browser that remembers nothing, and gives do a tab of it.
func (s *session) inBrowser(ctx context.Context, do func(context.Context) error) error {
	profile, err := os.MkdirTemp(s.o.Work, "browser-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(profile) }() // what is left of it is in nobody's way
	argv := []string{
		s.o.Browser, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update",
		"--disable-sync", "--disable-dev-shm-usage", "--mute-audio", "--remote-debugging-port=0", "--user-data-dir=" +
			profile,
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}
	if os.Geteuid() == 0 { // as root Chromium's own sandbox refuses to start
		argv = append(argv, "--no-sandbox")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	text := filepath.Join(s.o.Work, "browser.log")
	proc, err := run.Start(ctx, run.Cmd{
		Argv: append(argv, "about:blank"), Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + profile, "LANG=C.UTF-8"},
		Log: text, LogMost: 1 << 20,
	})
	if err != nil {
		return &noBrowser{err.Error()}
	}
	defer func() {
		stop()
		_ = proc.Wait() // it was ended
	}()
	address, err := devTools(ctx, proc, profile)
	if err != nil {
		return &noBrowser{fmt.Sprintf("%s: %v (%s)", s.o.Browser, err, text)}
	}
	alloc, done := chromedp.NewRemoteAllocator(ctx, address, chromedp.NoModifyURL)
	defer done()
	tab, closeTab := chromedp.NewContext(alloc)
	defer closeTab()
	return do(tab)
}

// devTools waits for the address that the browser listens on.
func devTools(ctx context.Context, proc *run.Process, profile string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, browserStart)
	defer cancel()
	for {
		if data, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort")); err == nil {
			if port, path, ok := strings.Cut(strings.TrimSpace(string(data)), "\n"); ok {
				return "ws://127.0.0.1:" + port + path, nil
			}
		}
		select {
		case <-proc.Done():
			return "", errors.New("it ended at once")
		case <-ctx.Done():
			return "", fmt.Errorf("it does not listen after %v", browserStart)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tab is one visit of the page.
type tab struct {
	srv *server

	mu       sync.Mutex
	faults   []string
	requests int
	chat     network.RequestID // of the answer that streams
	probe    network.RequestID // the last HEAD request
	pieces   int
	ended    bool // the answer did
}

// visit opens the page on a screen, and chats.
func (p *tab) visit(ctx context.Context, v view) error {
	chromedp.ListenTarget(ctx, p.event)
	var overflow float64
	err := chromedp.Run(ctx,
		network.Enable(), runtime.Enable(), log.Enable(),
		emulation.SetDeviceMetricsOverride(v.width, v.height, v.scale, v.mobile),
		chromedp.Navigate(p.own()),
		chromedp.WaitVisible("textarea", chromedp.ByQuery),
		chromedp.ActionFunc(p.settles),
		chromedp.SendKeys("textarea", prompt, chromedp.ByQuery),
		// Enter is a new line on a phone
		chromedp.Click(`button[type="submit"]:not([disabled])`, chromedp.ByQuery, chromedp.NodeVisible),
		chromedp.ActionFunc(p.streams),
		chromedp.ActionFunc(shows),
		chromedp.Evaluate("document.documentElement.scrollWidth - window.innerWidth", &overflow),
	)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.faults) > 0:
		return errors.New(strings.Join(p.faults, "; "))
	case err != nil:
		return err
	case overflow > 0:
		return fmt.Errorf("it is %.0f pixels wider than the screen", overflow)
	}
	return nil
}

// settles waits until the page has asked for nothing for a second. A message that is sent while
// it still reads what it has kept of earlier chats stands twice in its list, and the page fails
// (b9842: each_key_duplicate): nobody types as soon as that.
func (p *tab) settles(ctx context.Context) error {
	for before := -1; ; {
		p.mu.Lock()
		now := p.requests
		p.mu.Unlock()
		if now == before {
			return nil
		}
		before = now
		select {
		case <-ctx.Done():
			return fmt.Errorf("it asks for one thing after another: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// shows waits until the page shows what was asked: on a busy machine the answer comes before.
func shows(ctx context.Context) error {
	most := time.After(browserShows)
	for {
		var shown bool
		js := fmt.Sprintf("document.body.innerText.includes(%q)", prompt)
		if err := chromedp.Evaluate(js, &shown).Do(ctx); err != nil || shown {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not show what was asked: %w", ctx.Err())
		case <-most:
			var text string
			if err := chromedp.Evaluate("document.body.innerText", &text).Do(ctx); err != nil {
				return err
			}
			return fmt.Errorf("it does not show what was asked, but %s", llamaserver.Quote([]byte(text)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// streams waits until the answer to the chat has come in several pieces.
func (p *tab) streams(ctx context.Context) error {
	for {
		p.mu.Lock()
		pieces, ended, failed := p.pieces, p.ended, len(p.faults) > 0
		p.mu.Unlock()
		switch {
		case pieces >= chunks || failed:
			return nil
		case ended:
			return fmt.Errorf("the answer to a chat came in %d pieces, which is no stream", pieces)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer to a chat streams: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// own is the beginning of every address of the server.
func (p *tab) own() string { return fmt.Sprintf("http://127.0.0.1:%d/", p.srv.port) }

// event notes what the page does.
func (p *tab) event(e any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, "a script failed: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			var words []string
			for _, a := range e.Args {
				words = append(words, strings.Trim(string(a.Value), `"`)+a.Description)
			}
			p.faults = append(p.faults, "console error: "+strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && !(e.Entry.Source == log.SourceNetwork &&
			strings.HasPrefix(e.Entry.URL, p.own())) {
			p.faults = append(p.faults, "console error: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		p.requests++
		if e.Request.Method == http.MethodHead {
			p.probe = e.RequestID
		}
		at := e.Request.URL
		if !strings.HasPrefix(at, p.own()) && !strings.HasPrefix(at, "data:") && !strings.HasPrefix(at, "blob:") {
			p.faults = append(p.faults, "it asks another host: "+at)
		}
	case *network.EventResponseReceived:
		switch status := e.Response.Status; {
		case e.Response.MimeType == "text/event-stream":
			p.chat = e.RequestID
		case status == http.StatusNotFound && e.RequestID == p.probe: // the page asks whether the server has it
		case status >= 400 && status != http.StatusForbidden: // 403: the server was started without it, such as --tools
			p.faults = append(p.faults, fmt.Sprintf("it asks for %s, and gets %d", e.Response.URL, status))
		}
	case *network.EventDataReceived:
		if e.RequestID == p.chat && p.chat != "" {
			p.pieces++
		}
	case *network.EventLoadingFinished:
		p.ended = p.ended || e.RequestID == p.chat && p.chat != ""
	}
}
