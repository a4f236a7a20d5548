package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
)

// Each page asks the API server, some of it for each offer.
func TestH7_OnePersonsPagesAreBoundedAndNobodyElses(t *testing.T) {
	for _, page := range []string{
		"GET /catalog", "GET /connect", "GET /clusters", "GET /clusters/" + prod, "GET /clusters/madeup0001",
		"GET /clusters/" + prod + "/bindings/" + api, "GET /clusters/" + prod + "/bindings/" + api + "/team-a/orders",
		"GET /clusters/" + prod + "/bindings/" + api + "/team-a/orders/file", "GET /clusters/" + prod + "/changes/x",
		"POST /reviews", "POST /bindings", "POST /shares", "POST /shares/remove",
	} {
		w := newWorld()
		w.asking = &access.Asking{}
		w.addCluster(prod, "prod", alice)
		method, path, _ := strings.Cut(page, " ")
		pages := w.handler()
		ask := func(who string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader("cluster="+prod))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(&http.Cookie{Name: "who", Value: who})
			answer := httptest.NewRecorder()
			pages.ServeHTTP(answer, r)
			return answer
		}
		refused := 0
		for range 300 {
			answer := ask("mallory")
			if answer.Code != http.StatusTooManyRequests {
				continue
			}
			refused++
			if answer.Header().Get("Retry-After") == "" || !strings.Contains(answer.Body.String(), "requests a second") {
				t.Fatalf("%s: %v, %s", page, answer.Header(), answer.Body)
			}
		}
		// A page may ask for two things.
		if refused < 150 || w.pages > 2*(300-refused) {
			t.Errorf("%s: %d of 300 refused, and the control plane was asked %d times", page, refused, w.pages)
		}
		if answer := ask(alice); answer.Code == http.StatusTooManyRequests {
			t.Errorf("%s: somebody else is kept out", page)
		}
	}
}
