package share

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

func TestNoShareIsTakenBackUnasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, answer, err string
		alone, yes        bool
		taken             int32
	}{
		{what: "nobody is there", alone: true, err: "add --yes"},
		{what: "a script that is sure", alone: true, yes: true, taken: 2},
		{what: "somebody who says no", answer: "n\n", err: "nothing was changed"},
		{what: "somebody who says yes", answer: "y\n", taken: 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			var taken atomic.Int32
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodDelete:
					taken.Add(1)
					fmt.Fprint(w, `{}`)
				case r.URL.Path == "/v1/info":
					fmt.Fprint(w, `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
				case r.URL.Path == "/v1/clusters":
					fmt.Fprint(w, `[{"id":"k3x9d2abqw","name":"prod"}]`)
				default:
					fmt.Fprint(w, `[{"id":"a","role":"view","user":"oidc:bob"},{"id":"b","role":"write","user":"oidc:bob","namespace":"team-a"},{"id":"c","role":"view","user":"oidc:carol"}]`)
				}
			}))
			defer backend.Close()
			var out strings.Builder
			in := Input{BackendURL: backend.URL, ClusterRef: "prod", Users: []string{"bob"}, Yes: c.yes}
			in.SignIn = &signin.SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: http.DefaultClient, Out: io.Discard, Now: time.Now}
			in.How = signin.How{Token: "GOOD"}
			in.Terminal = &terminal.Terminal{In: strings.NewReader(c.answer), Out: &out, Interactive: !c.alone}
			err := Undo(t.Context(), in)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if taken.Load() != c.taken || !strings.Contains(out.String(), "  oidc:bob: write the claims of namespace team-a\n") {
				t.Errorf("%d are taken back, after\n%s", taken.Load(), out.String())
			}
		})
	}
}
