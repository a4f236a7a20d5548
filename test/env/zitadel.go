package env

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// Zitadel is a running OpenID Connect provider: the example server of Zitadel's
// library, which the OpenID Foundation has certified. What it does otherwise
// than Dex: its issuer ends with a slash, a token has no e-mail address and its
// subject is the user's name, clients have the redirects that were registered
// for them and no others, and a client may have a secret.
type Zitadel struct {
	Issuer string // http://localhost:PORT/
	// ClientID is a public client. It may use the authorization code grant with
	// PKCE and a redirect to /callback or /signin/callback of any port of
	// http://localhost, and the device code grant.
	ClientID string
	// WebClientID is a confidential client, whose secret is WebClientSecret.
	WebClientID, WebClientSecret string
	Users                        []User
	Process                      *Process
}

func (e *Env) startZitadel(ctx context.Context, webRedirect string) (*Zitadel, error) {
	defer e.phase("Zitadel")()
	z := &Zitadel{ClientID: "native", WebClientID: "web", WebClientSecret: "secret", Users: people()}
	users := map[string]map[string]any{}
	for _, u := range z.Users {
		// With a device code, it makes the username the subject.
		users[u.Email] = map[string]any{"ID": u.Email, "Username": u.Email, "Password": u.Password, "PreferredLanguage": "en"}
	}
	content, err := json.Marshal(users)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(e.Dir, "zitadel-users.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	redirects := "http://localhost/callback,http://localhost/signin/callback"
	if webRedirect != "" {
		redirects += "," + webRedirect
	}
	return z, withPorts(ctx, 1, func(ctx context.Context, ports []int) error {
		z.Issuer = fmt.Sprintf("http://localhost:%d/", ports[0])
		z.Process = e.process(zitadel, zitadel, nil, httpReady(z.Issuer+".well-known/openid-configuration", nil))
		z.Process.env = []string{"PORT=" + strconv.Itoa(ports[0]), "USERS_FILE=" + file, "REDIRECT_URI=" + redirects}
		return z.Process.Start(ctx)
	})
}

// Browser plays the browser of a user, as that of Dex does.
func (z *Zitadel) Browser(ctx context.Context, email, pageURL string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	_, err = z.Browse(ctx, jar, email, pageURL, "")
	return err
}

// Browse does the same with the cookies of a browser that lives on, as that of
// Dex does.
func (z *Zitadel) Browse(ctx context.Context, jar http.CookieJar, email, pageURL, stop string) (*url.URL, error) {
	u, err := user(z.Users, email)
	if err != nil {
		return nil, err
	}
	return browse(ctx, nil, jar, u, pageURL, stop)
}
