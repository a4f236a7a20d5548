package signin

import (
	"html/template"
	"net/http"
	"unicode"
	"unicode/utf8"

	"gitbind.dev/backend/internal/refusal"
)

// page says why somebody is not signed in. It needs nothing from anywhere.
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Not signed in · gitbind</title></head>
<body><main><h1>You are not signed in</h1>
<p>{{.}}</p>
<p><a href="` + signInPath + `">Sign in again</a></p>
</main></body></html>
`))

// refuse answers with words, and keeps causes for the log.
func (s *SignIn) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, words := refusal.Answer(err)
	refusal.Log(s.Log, r, status, err)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	// The browser is gone if this fails; there is nobody left to tell.
	_ = page.Execute(w, sentence(words))
}

// sentence begins with a capital and ends with a full stop.
func sentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	words = string(unicode.ToUpper(first)) + words[size:]
	if last, _ := utf8.DecodeLastRuneInString(words); unicode.IsPunct(last) {
		return words
	}
	return words + "."
}
