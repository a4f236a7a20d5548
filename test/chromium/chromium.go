// Package chromium drives a headless Chromium as people use it: it opens pages,
// presses and writes, and waits until a page shows what it should. It notes what
// the browser complains of, and what a page loads from elsewhere.
package chromium

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

// Browser is a running Chromium. Each of its windows is a person's own, with
// cookies of its own.
type Browser struct {
	ctx context.Context
}

// requireChromium makes a missing browser a failure, as CI does.
const requireChromium = "GITBIND_REQUIRE_CHROMIUM"

// Start starts a browser that ends with the test. Where there is none the test is
// skipped.
func Start(t testing.TB) *Browser {
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
	dir, removeDir, err := env.MkdirTemp("", "gitbind-browser-")
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
		_ = removeDir()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx: ctx}
}

// Window is one person's.
type Window struct {
	t   testing.TB
	ctx context.Context

	mu sync.Mutex
	// wrong is what the browser complained of, and what it loaded from elsewhere.
	wrong []string
}

// showTimeout is how long a page may take to show what is expected.
const showTimeout = time.Minute

// Open opens a window that may load things from some hosts only.
func (b *Browser) Open(t testing.TB, hosts ...string) *Window {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	w := &Window{t: t, ctx: ctx}
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
	w.Do(w.Size(1200, 800))
	return w
}

// complaints notes what is wrong about the events of one sort, until the window is
// closed.
func complaints[E any](w *Window, sort cdp.Event[E], judge func(E) string) {
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

// Faultless fails the test when the browser had to complain.
func (w *Window) Faultless() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.wrong {
		w.t.Errorf("the browser says: %s", fault)
	}
}

// Do does some things one after the other, in time.
func (w *Window) Do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	_ = Get(w, func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		return chromedp.Void{}, chromedp.Do(ctx, steps...)
	})
}

// Get does something that gives a value.
func Get[T any](w *Window, action chromedp.Action[T]) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, showTimeout)
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

// Goes opens an address.
func (w *Window) Goes(address string) {
	w.t.Helper()
	w.Do(chromedp.Navigate(address))
}

// Sees waits until what a CSS selector finds shows some words.
func (w *Window) Sees(selector string, words ...string) {
	w.t.Helper()
	w.until(chromedp.Evaluate[string](fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join("\n")`, selector)), func(shown string) string {
		missing := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(shown, word) })
		if len(missing) == 0 {
			return ""
		}
		return fmt.Sprintf("%s does not show %q: it shows %q", selector, missing, shown)
	})
}

// ShowsNothingOf waits until the page has none of some words: the one before it may have had.
func (w *Window) ShowsNothingOf(words ...string) {
	w.t.Helper()
	w.until(chromedp.OuterHTML(chromedp.CSS("html")), func(shown string) string {
		there := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.Contains(shown, word) })
		if len(there) == 0 {
			return ""
		}
		return fmt.Sprintf("the page shows %q", there)
	})
}

// until waits until nothing is wrong with what the browser gives.
func (w *Window) until(get chromedp.Action[string], wrong func(shown string) string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, showTimeout)
	defer cancel()
	for last := "nothing was shown"; ; {
		shown, err := chromedp.Run(ctx, get)
		if err == nil {
			if last = wrong(shown); last == "" {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			w.t.Fatalf("%s, for %s (%v)", last, showTimeout, err)
		}
	}
}

// Presses presses the first link or button that a CSS selector finds, and waits
// for the page behind it.
func (w *Window) Presses(selector string) {
	w.t.Helper()
	w.Do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		return chromedp.Void{}, err
	})
}

// Writes types into what a CSS selector finds.
func (w *Window) Writes(selector, text string) {
	w.t.Helper()
	w.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// SignsIn fills in Dex's form, which the browser has come to.
func (w *Window) SignsIn(email, password string) {
	w.t.Helper()
	w.Writes(`input[name=login]`, email)
	w.Writes(`input[name=password]`, password)
	w.Presses(`#submit-login`)
}

// Call is an action of the browser's protocol without an answer.
func Call[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// Size makes the window as large as a screen; below 600 it is that of a phone.
func (*Window) Size(width, height int64) chromedp.Action[chromedp.Void] {
	return Call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
}

// Scheme has the page in light or dark.
func (*Window) Scheme(name string) chromedp.Action[chromedp.Void] {
	return Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// WithoutScripts makes the browser run no script of any page.
func (w *Window) WithoutScripts() {
	w.Do(Call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
}

// Picture takes the page as it is, from its top to at most some height.
func (w *Window) Picture(width, most int64) []byte {
	w.t.Helper()
	w.Do(w.Size(width, 800))
	height := Get(w, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	return Get(w, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		beyond := true
		shot, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			CaptureBeyondViewport: &beyond,
			Clip:                  &page.Viewport{Width: float64(width), Height: float64(min(height, most)), Scale: 1},
		})
		return shot.Data, err
	})
}
