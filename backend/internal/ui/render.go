package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"gitbind.dev/backend/internal/login"
)

//go:embed templates/*.html static/*
var files embed.FS

// page is what the base template shows.
type page struct {
	// Title is the heading, and that of the browser's window.
	Title string
	// Kicker is a line above the heading that says what sort of thing it is.
	Kicker string
	// Place is the part of the navigation that the page belongs to.
	Place    string
	Crumbs   []crumb
	Template string
	Body     any
	// User is who is signed in, "" for nobody.
	User string
}

// crumb is a step of the way to a page.
type crumb struct{ Name, Path string }

// Note is a message on a page.
type Note struct {
	Tone        Tone
	Title, Text string
	// Command is what to run, if that helps.
	Command string
}

var templates = parse()

// parse reads all templates. They are part of the program: one that is wrong is
// found by any test.
func parse() map[string]*template.Template {
	base := template.Must(template.New("base").Funcs(template.FuncMap{
		"asset": asset, "count": count, "visible": visible, "claimList": newClaimList, "parts": parts,
	}).ParseFS(files, "templates/base.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"home", "error", "catalog", "connect", "clusters", "cluster", "binding", "claim", "change"} {
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}

// parts takes a name apart behind its dots, where a narrow window may break it.
func parts(name string) []string { return strings.SplitAfter(name, ".") }

// claimList is what the part of that name shows.
type claimList struct {
	Label       string
	Rows        []claimRow
	WithCluster bool
	// WithAPI says that they are of more than one API.
	WithAPI bool
}

func newClaimList(label string, rows []claimRow, withCluster, withAPI bool) claimList {
	return claimList{label, rows, withCluster, withAPI}
}

// show answers with a page.
func (h *handler) show(w http.ResponseWriter, r *http.Request, status int, p *page) {
	var b bytes.Buffer
	if err := templates[p.Template].ExecuteTemplate(&b, "base", p); err != nil {
		h.Log.ErrorContext(r.Context(), "Render a page", "template", p.Template, "error", err)
		http.Error(w, "This page cannot be shown: the backend's log says more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The browser is gone if this fails; there is nobody left to tell.
	_, _ = w.Write(b.Bytes())
}

// asset is the path of a file of ours, which changes with its content.
func asset(name string) (string, error) {
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/static/%s?v=%x", name, sha256.Sum256(data))[:len("/static/?v=")+len(name)+12], nil
}

var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (h *handler) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		h.fail(w, r, errNoPage())
		return
	}
	w.Header().Set("Content-Type", assetTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data)
}

// shownName is a user's name without the prefix that RBAC sees.
func shownName(who login.Identity) string {
	name := who.Username
	if _, after, ok := strings.Cut(name, ":"); ok {
		name = after
	}
	return visible(name)
}

// sentence makes one of an error's words.
func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	s = string(unicode.ToUpper(r)) + s[n:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return visible(s)
}
