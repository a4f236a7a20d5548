package client

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"sync"
)

const (
	// maxKnown bounds one answer that is kept, and maxAllKnown all of them, in bytes.
	maxKnown    = 1 << 20
	maxAllKnown = 16 << 20
)

// known keeps answers that have an ETag, and asks whether they still are the same: GitHub
// counts such a question against no rate limit, if they are.
type known struct {
	base http.RoundTripper

	mu      sync.Mutex
	answers map[string]answer
	bytes   int
}

// answer is one answer, by the URL that was asked for, and who asked with what.
type answer struct {
	credential, accept, etag string
	header                   http.Header
	body                     []byte
}

func (k *known) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return k.base.RoundTrip(r)
	}
	url := r.URL.String()
	k.mu.Lock()
	was, ok := k.answers[url]
	k.mu.Unlock()
	if ok = ok && was.credential == r.Header.Get("Authorization") && was.accept == r.Header.Get("Accept"); ok {
		r = r.Clone(r.Context())
		r.Header.Set("If-None-Match", was.etag)
	}
	got, err := k.base.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case ok && got.StatusCode == http.StatusNotModified:
		got.Body.Close()
		header := was.header.Clone()
		// Such as how many pages there are by now: it is not of the body.
		got.Header.Del("Content-Length")
		maps.Copy(header, got.Header)
		got.Status, got.StatusCode, got.Header = "200 OK", http.StatusOK, header
		got.Body, got.ContentLength = io.NopCloser(bytes.NewReader(was.body)), int64(len(was.body))
	case got.StatusCode == http.StatusOK && got.Header.Get("ETag") != "":
		start, err := io.ReadAll(io.LimitReader(got.Body, maxKnown+1))
		if err == nil && len(start) <= maxKnown {
			k.keep(url, answer{r.Header.Get("Authorization"), r.Header.Get("Accept"), got.Header.Get("ETag"), got.Header.Clone(), start})
		}
		got.Body = body{io.MultiReader(bytes.NewReader(start), failing{err}, got.Body), got.Body}
	}
	return got, nil
}

// keep keeps an answer, and forgets any others if they are too much.
func (k *known) keep(url string, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answers == nil {
		k.answers = map[string]answer{}
	}
	if was, ok := k.answers[url]; ok {
		k.bytes -= was.size(url)
	}
	k.bytes += a.size(url)
	k.answers[url] = a
	for other, b := range k.answers {
		if k.bytes <= maxAllKnown {
			break
		}
		if other != url {
			k.bytes -= b.size(other)
			delete(k.answers, other)
		}
	}
}

// besideAnswer and besideValue are about what Go takes for an answer, and for each value of its
// header, beside their bytes.
const (
	besideAnswer = 512
	besideValue  = 64
)

// size is about what an answer takes, in bytes. Many are empty lists, whose headers and URLs
// are larger by far.
func (a answer) size(url string) int {
	n := besideAnswer + len(url) + len(a.credential) + len(a.accept) + len(a.etag) + len(a.body)
	for name, values := range a.header {
		for _, value := range values {
			n += besideValue + len(name) + len(value)
		}
	}
	return n
}

// failing has the error of who read before; nil for none.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) {
	if f.error != nil {
		return 0, f.error
	}
	return 0, io.EOF
}
