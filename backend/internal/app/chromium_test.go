package app

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"gitbind.dev/test/env"
)

// chromium is a browser, as people have it. Each tab is a person's own, with
// cookies of its own.
type chromium struct {
	ctx context.Context
}

// requireChromium makes a missing browser a failure, as CI does.
const requireChromium = "GITBIND_REQUIRE_CHROMIUM"

func startChromium(t *testing.T) *chromium {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" && os.Getenv(requireChromium) == "" {
		t.Skip("there is no chromium or google-chrome on the PATH: the web page is not tried in a browser (" + requireChromium + "=1 makes that a failure)")
	}
	if program == "" {
		t.Fatal("there is no chromium or google-chrome on the PATH: install Debian's package chromium")
	}
	dir, err := os.MkdirTemp("", "gitbind-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(program), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("font-render-hinting", "none"))
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closeBrowser()
		_ = chromedp.WaitClosed(ctx)
		end()
		_ = os.RemoveAll(dir)
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &chromium{ctx: ctx}
}

// tab is one person's window.
type tab struct {
	t     *testing.T
	ctx   context.Context
	hosts []string

	mu sync.Mutex
	// wrong is what the browser complained of, and what it loaded from elsewhere.
	wrong []string
}

// patience is how long a page, or the backend, may take to say what is expected.
const patience = time.Minute

// open opens a window that may load things from some hosts only.
func (c *chromium) open(t *testing.T, hosts ...string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	w := &tab{t: t, ctx: ctx, hosts: hosts}
	// The first use of a context opens its window, which then lives as long as
	// that context.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	complaints(w, log.EntryAdded, func(e log.EventEntryAdded) string {
		if text := e.Entry.Text; strings.Contains(text, "Content Security Policy") || strings.Contains(text, "Refused to") {
			return text
		}
		return ""
	})
	complaints(w, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) string { return "exception: " + e.ExceptionDetails.Text })
	complaints(w, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) string {
		if u, err := url.Parse(e.Request.URL); err == nil && slices.Contains(hosts, u.Host) {
			return ""
		}
		return "it asked for " + e.Request.URL
	})
	w.do(w.size(1200, 800))
	return w
}

// complaints notes what is wrong about the events of one sort, until the window is
// closed.
func complaints[E any](w *tab, sort cdp.Event[E], judge func(E) string) {
	events := chromedp.Events(w.ctx, sort)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			if wrong := judge(e); wrong != "" {
				w.mu.Lock()
				w.wrong = append(w.wrong, wrong)
				w.mu.Unlock()
			}
		}
	}()
}

// faultless fails the test when the browser had to complain.
func (w *tab) faultless() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.wrong {
		w.t.Errorf("the browser says: %s", fault)
	}
}

// do does some things one after the other, in time.
func (w *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	_ = get(w, func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		return chromedp.Void{}, chromedp.Do(ctx, steps...)
	})
}

// get does something that gives a value.
func get[T any](w *tab, action chromedp.Action[T]) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		look, stop := context.WithTimeout(w.ctx, 5*time.Second)
		defer stop()
		where, _ := chromedp.Run(look, chromedp.Location())
		words, _ := chromedp.Run(look, chromedp.Evaluate[string](`document.body.innerText`))
		w.t.Fatalf("%v; the browser is at %s and shows:\n%s", err, where, words)
	}
	return value
}

// goes opens an address.
func (w *tab) goes(address string) {
	w.t.Helper()
	w.do(chromedp.Navigate(address))
}

// sees waits until what a CSS selector finds shows some words.
func (w *tab) sees(selector string, words ...string) {
	w.t.Helper()
	text := chromedp.Evaluate[string](fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join("\n")`, selector))
	eventually(w.t, fmt.Sprintf("%s shows %q", selector, words), func() error {
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		defer cancel()
		shown, err := chromedp.Run(ctx, text)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(shown, word) {
				return fmt.Errorf("it shows %q", shown)
			}
		}
		return nil
	})
}

// showsNothingOf fails the test when the page has any of some words.
func (w *tab) showsNothingOf(words ...string) {
	w.t.Helper()
	text := get(w, chromedp.OuterHTML(chromedp.CSS("html")))
	for _, word := range words {
		if strings.Contains(text, word) {
			w.t.Errorf("the page shows %q", word)
		}
	}
}

// presses presses the first link or button that a CSS selector finds, and waits
// for the page behind it.
func (w *tab) presses(selector string) {
	w.t.Helper()
	w.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		return chromedp.Void{}, err
	})
}

// writes types into what a CSS selector finds.
func (w *tab) writes(selector, text string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// signsIn fills in Dex's form, which the browser has come to.
func (w *tab) signsIn(email, password string) {
	w.t.Helper()
	w.writes(`input[name=login]`, email)
	w.writes(`input[name=password]`, password)
	w.presses(`#submit-login`)
}

// call is an action of the browser's protocol without an answer.
func call[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

func (w *tab) size(width, height int64) chromedp.Action[chromedp.Void] {
	return call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
}

func (w *tab) scheme(name string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// withoutScripts makes the browser run no script of any page.
func (w *tab) withoutScripts() {
	w.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
}

// picture takes the page as it is, from its top to at most some height.
func (w *tab) picture(width, most int64) []byte {
	w.t.Helper()
	w.do(w.size(width, 800))
	height := get(w, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	return get(w, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		beyond := true
		shot, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			CaptureBeyondViewport: &beyond,
			Clip:                  &page.Viewport{Width: float64(width), Height: float64(min(height, most)), Scale: 1},
		})
		return shot.Data, err
	})
}

// passwords are those of Dex's users.
var passwords = map[string]string{env.Alice: env.AlicePassword, env.Bob: env.BobPassword, env.Carol: env.CarolPassword}
