package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// faults are what keeps people with a keyboard or a screen reader from using a
// page, by simple rules.
func faults(t *testing.T, page string) []string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{ids: map[string]int{}, labels: map[string]bool{}}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attr(n, "id"); id != "" {
			c.ids[id]++
		}
		if n.Data == "label" {
			c.labels[attr(n, "for")] = true
		}
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			c.element(n)
		}
	}
	for id, times := range c.ids {
		if times > 1 {
			c.say("id %q is there %d times", id, times)
		}
	}
	for what, n := range map[string]int{"h1": c.h1, "main": c.main} {
		if n != 1 {
			c.say("%d %s, want one", n, what)
		}
	}
	if !c.skip {
		c.say("no link that skips to the content")
	}
	return c.found
}

type checker struct {
	found    []string
	ids      map[string]int
	labels   map[string]bool
	h1, main int
	heading  int
	skip     bool
}

func (c *checker) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *checker) element(n *html.Node) {
	for _, a := range n.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
			c.say("%s has the attribute %s, which the policy forbids", n.Data, a.Key)
		}
	}
	if refers := attr(n, "aria-labelledby"); refers != "" && c.ids[refers] != 1 {
		c.say("%s is labelled by %q, which is there %d times", n.Data, refers, c.ids[refers])
	}
	switch n.Data {
	case "html":
		if attr(n, "lang") == "" {
			c.say("html has no lang")
		}
	case "title", "h1", "h2", "h3", "a", "button", "summary", "th", "label", "caption":
		if spoken(n) == "" && attr(n, "aria-label") == "" {
			c.say("%s says nothing", n.Data)
		}
	case "img":
		c.say("img: say it in words")
	case "script", "style":
		if attr(n, "src") == "" {
			c.say("%s is inline", n.Data)
		}
	case "input", "select", "textarea":
		if attr(n, "type") != "hidden" && !c.labels[attr(n, "id")] && attr(n, "aria-label") == "" {
			c.say("%s %s has no label", n.Data, attr(n, "name"))
		}
	case "table":
		c.table(n)
	case "nav":
		if attr(n, "aria-label") == "" {
			c.say("nav has no name")
		}
	case "main":
		c.main++
	}
	if attr(n, "tabindex") == "0" && attr(n, "aria-label") == "" && attr(n, "aria-labelledby") == "" {
		c.say("%s can be focused and has no name", n.Data)
	}
	if attr(n, "tabindex") > "0" {
		c.say("%s changes the order of the focus", n.Data)
	}
	if n.Data == "h1" {
		c.h1++
	}
	if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
		level := int(n.Data[1] - '0')
		if level > c.heading+1 {
			c.say("%s %q comes after h%d", n.Data, spoken(n), c.heading)
		}
		c.heading = level
	}
	if n.Data == "a" {
		to := attr(n, "href")
		c.skip = c.skip || strings.HasPrefix(to, "#") && c.ids[to[1:]] == 1
		if !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "?") && !strings.HasPrefix(to, "#") {
			c.say("a link leads to %q", to)
		}
	}
	if strings.Contains(" "+attr(n, "class")+" ", " state ") && spoken(n) == "" {
		c.say("a state has no word")
	}
}

func (c *checker) table(n *html.Node) {
	columns := 0
	for d := range n.Descendants() {
		if d.Data == "th" && attr(d, "scope") == "" {
			c.say("th %q has no scope", spoken(d))
		}
		if d.Data == "th" && attr(d, "scope") == "col" {
			columns++
		}
		if d.Data == "tr" && d.Parent.Data == "tbody" {
			cells := 0
			for range d.ChildNodes() {
				cells++
			}
			if !slices.ContainsFunc(slices.Collect(d.ChildNodes()), func(x *html.Node) bool { return x.Data == "th" }) {
				c.say("a row has no header")
			}
		}
	}
	if columns == 0 {
		c.say("a table has no headers")
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// spoken is what is read of an element.
func spoken(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		if attr(n, "aria-hidden") == "true" {
			return
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestTheCheckerFindsFaults holds the rules to what they are for.
func TestTheCheckerFindsFaults(t *testing.T) {
	const good = `<html lang="en"><title>x</title><a href="#c">skip</a><main id="c"><h1>x</h1></main></html>`
	if found := faults(t, good); len(found) > 0 {
		t.Errorf("a good page: %q", found)
	}
	for page, want := range map[string]string{
		strings.Replace(good, ` lang="en"`, "", 1):                                                        "no lang",
		strings.Replace(good, "</main>", "<h3>y</h3></main>", 1):                                          "comes after h1",
		strings.Replace(good, "</main>", "<h1>y</h1></main>", 1):                                          "2 h1",
		strings.Replace(good, "</main>", `<input name="q" id="q"></main>`, 1):                             "has no label",
		strings.Replace(good, "</main>", `<img src="x"></main>`, 1):                                       "img",
		strings.Replace(good, "</main>", `<button><span aria-hidden="true">x</span></button></main>`, 1):  "button says nothing",
		strings.Replace(good, "</main>", `<table><tr><td>x</td></tr></table></main>`, 1):                  "no headers",
		strings.Replace(good, "</main>", `<p style="color:red">x</p></main>`, 1):                          "attribute style",
		strings.Replace(good, "</main>", `<script>x()</script></main>`, 1):                                "inline",
		strings.Replace(good, "</main>", `<a href="https://example.com">x</a></main>`, 1):                 "leads to",
		strings.Replace(good, "</main>", `<span class="state bad"><i aria-hidden="true">!</i></span>`, 1): "a state has no word",
		strings.Replace(good, `href="#c"`, `href="/x"`, 1):                                                "skips",
		strings.Replace(good, "</main>", `<i id="c"></i></main>`, 1):                                      "2 times",
		strings.Replace(good, "</main>", `<pre tabindex="0">x</pre></main>`, 1):                           "has no name",
		strings.Replace(good, "</main>", `<section aria-labelledby="nothing"><h2>x</h2></section>`, 1):    "labelled by",
		strings.Replace(good, "</main>", `<nav><a href="/">x</a></nav></main>`, 1):                        "nav has no name",
		strings.Replace(good, "<main id=\"c\"><h1>x</h1></main>", `<div id="c"><h1>x</h1></div>`, 1):      "0 main",
		strings.Replace(good, "</main>", `<table><tr><th scope="col">x</th></tr><tr><td>y</table>`, 1):    "a row has no header",
		strings.Replace(good, "</main>", `<table><tr><th scope="col">x</th><th>z</th></tr></table>`, 1):   "no scope",
		strings.Replace(good, "</main>", `<i tabindex="3" aria-label="x">y</i></main>`, 1):                "order of the focus",
		strings.Replace(good, "</main>", `<label for="q"></label><input id="q" name="q"></main>`, 1):      "label says nothing",
		strings.Replace(good, "</main>", `<a href="/x"><span aria-hidden="true">→</span></a></main>`, 1):  "a says nothing",
		strings.Replace(good, "</main>", `<textarea name="t"></textarea><h2>x</h2></main>`, 1):            "textarea t",
		strings.Replace(good, "</main>", `<h2><span aria-hidden="true">x</span></h2></main>`, 1):          "h2 says nothing",
		strings.Replace(good, "</main>", `<button onclick="x()">y</button></main>`, 1):                    "onclick",
		strings.Replace(good, "<title>x</title>", "<title></title>", 1):                                   "title says nothing",
		strings.Replace(good, "</main>", `<select name="s"><option>x</option></select></main>`, 1):        "select s has no label",
		strings.Replace(good, "</main>", `<details><summary></summary>x</details></main>`, 1):             "summary says nothing",
		strings.Replace(good, "</main>", `<style>p{}</style></main>`, 1):                                  "style is inline",
	} {
		if found := strings.Join(faults(t, page), "\n"); !strings.Contains(found, want) {
			t.Errorf("%s\nfaults %q, want %q", page, found, want)
		}
	}
}
