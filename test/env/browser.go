package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// maxPages is more than any sign-in has, and ends one that turns in circles.
const maxPages = 10

// Browser plays the browser of a user who opens pageURL: an authorization URL
// that some program printed, or the verification URL of a device code. It fills
// in the forms that come, follows the redirects, the last of which leads to
// that program, and returns when a page with nothing to fill in says success.
func (d *Dex) Browser(ctx context.Context, email, pageURL string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	_, err = d.Browse(ctx, jar, email, pageURL, "")
	return err
}

// Browse does the same with the cookies of a browser that lives on, and returns
// the address of the last page. It returns early when it is redirected to an
// address that begins with stop, if that is not empty, and does not go there.
func (d *Dex) Browse(ctx context.Context, jar http.CookieJar, email, pageURL, stop string) (*url.URL, error) {
	u, err := user(d.Users, email)
	if err != nil {
		return nil, err
	}
	var transport http.RoundTripper
	if d.client != nil {
		transport = d.client.Transport
	}
	return browse(ctx, transport, jar, u, pageURL, stop)
}

func browse(ctx context.Context, transport http.RoundTripper, jar http.CookieJar, u User, pageURL, stop string) (*url.URL, error) {
	client := &http.Client{Transport: transport, Jar: jar, Timeout: time.Minute, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if stop != "" && strings.HasPrefix(next.URL.String(), stop) {
			return http.ErrUseLastResponse
		}
		if len(via) >= maxPages {
			return errors.New("too many redirects")
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pageURL, nil)
	if err != nil {
		return nil, err
	}
	for range maxPages {
		page, err := load(client, request)
		if err != nil {
			return nil, fmt.Errorf("sign in as %s: %w", u.Email, err)
		}
		if page.redirect != nil {
			return page.redirect, nil
		}
		if page.form == nil {
			return page.url, nil
		}
		page.form.fill("login", u.Email) // Dex
		page.form.fill("username", u.Email)
		page.form.fill("password", u.Password)
		if request, err = page.form.submit(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("sign in as %s: still not done after %d pages", u.Email, maxPages)
}

// A page is what the browser shows.
type page struct {
	url      *url.URL
	form     *form    // nil when there is nothing to fill in
	redirect *url.URL // where it was sent, when it stopped there
}

type form struct {
	action *url.URL
	fields url.Values // the form's own, with their values
}

// fill fills in a field, if the form has it.
func (f *form) fill(name, value string) {
	if _, ok := f.fields[name]; ok {
		f.fields.Set(name, value)
	}
}

func (f *form) submit(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.action.String(), strings.NewReader(f.fields.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r, nil
}

func load(client *http.Client, r *http.Request) (page, error) {
	resp, err := client.Do(r)
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	if location, err := resp.Location(); err == nil {
		return page{url: resp.Request.URL, redirect: location}, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return page{}, err
	}
	doc, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		return page{}, fmt.Errorf("read %s: %w", resp.Request.URL.Path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return page{}, fmt.Errorf("%s: %s: %s", resp.Request.URL.Path, resp.Status, strings.Join(strings.Fields(text(doc)), " "))
	}
	f, err := findForm(doc, resp.Request.URL)
	return page{url: resp.Request.URL, form: f}, err
}

// findForm is the first form of a page, or nil.
func findForm(doc *html.Node, base *url.URL) (*form, error) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "form" {
			continue
		}
		action, err := base.Parse(attribute(n, "action"))
		if err != nil {
			return nil, fmt.Errorf("read the form of %s: %w", base.Path, err)
		}
		f := &form{action: action, fields: url.Values{}}
		for input := range n.Descendants() {
			if name := attribute(input, "name"); input.Data == "input" && name != "" {
				f.fields.Add(name, attribute(input, "value"))
			}
		}
		return f, nil
	}
	return nil, nil
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// text is what a person reads on a page.
func text(doc *html.Node) string {
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" && n.Parent.Data != "title" {
			b.WriteString(n.Data + " ")
		}
	}
	return b.String()
}
