package github

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	sdk "github.com/google/go-github/v93/github"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
)

// App is a GitHub App that is installed on the organization.
type App struct {
	// ID is its number, which its page on GitHub has.
	ID int64
	// Key reads one of its private keys, as GitHub gives it: in PEM.
	Key func() ([]byte, error)
}

const (
	// jwtLifetime is how long what an App signs in with counts; GitHub takes 10 minutes at
	// most. It is dated back for clocks that differ.
	jwtLifetime = 9 * time.Minute
	jwtBack     = time.Minute
	// tokenLeft is how much of a token of the backend is left when it takes the next one.
	tokenLeft = 5 * time.Minute
)

// app signs in as an App.
type app struct {
	App
	organization, api string
	// own is for what is asked as the App itself, and installed with tokens of its installation.
	own, installed *http.Client
	// made has the tokens that were just made, and is below installed.
	made *young
	now  func() time.Time

	mu sync.Mutex
	// installation is that on the organization, and slug how GitHub calls the App; 0 and ""
	// until they are known.
	installation int64
	slug         string
	// admin is a token with all rights of the App, and before the one that it follows.
	admin, before adminToken
}

// adminToken is one of the backend itself.
type adminToken struct {
	value         string
	made, expires time.Time
}

// left is how long it counts.
func (t adminToken) left(now time.Time) time.Duration { return t.expires.Sub(now) }

// jwt is what proves to be the App:
// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
func (a *app) jwt() (string, error) {
	data, err := a.Key()
	if err != nil {
		return "", fmt.Errorf("read the private key of App %d: %w", a.ID, err)
	}
	key, err := ParseKey(data)
	if err != nil {
		return "", fmt.Errorf("the private key of App %d: %w", a.ID, err)
	}
	now := a.now()
	claims, err := json.Marshal(map[string]any{"iss": strconv.FormatInt(a.ID, 10), "iat": now.Add(-jwtBack).Unix(), "exp": now.Add(jwtLifetime).Unix()})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return signed + "." + encode(signature), err
}

// ParseKey reads a private key of an App.
func ParseKey(data []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if rsaKey, ok := key.(*rsa.PrivateKey); ok {
		return rsaKey, nil
	}
	return nil, errors.Join(errors.New("it is no RSA key"), err)
}

// client asks with a token of the installation.
func (a *app) client(token string) (*sdk.Client, error) { return a.by(a.installed, token) }

// by asks with a token, or what jwt gives.
func (a *app) by(http *http.Client, token string) (*sdk.Client, error) {
	return sdk.NewClient(sdk.WithHTTPClient(http), sdk.WithURLs(&a.api, &a.api), sdk.WithAuthToken(token), sdk.WithDisableRateLimitCheck())
}

// asApp asks as the App itself, which may see its installations and make tokens of them.
func (a *app) asApp() (*sdk.Client, error) {
	token, err := a.jwt()
	if err != nil {
		return nil, err
	}
	return a.by(a.own, token)
}

// find asks for the App's installation on the organization.
func (a *app) find(ctx context.Context) (*sdk.Installation, error) {
	api, err := a.asApp()
	if err != nil {
		return nil, err
	}
	found, answer, err := api.Apps.GetOrganizationInstallation(ctx, a.organization)
	if status(answer) == http.StatusNotFound {
		return nil, fmt.Errorf("%w (App %d is not installed on the organization %s)", githost.ErrCredential, a.ID, a.organization)
	}
	if err != nil {
		return nil, a.trouble("find the installation", err)
	}
	if found.SuspendedAt != nil {
		return nil, fmt.Errorf("%w (App %d is suspended in the organization %s)", githost.ErrCredential, a.ID, a.organization)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.installation, a.slug = found.GetID(), found.GetAppSlug()
	return found, nil
}

// known is what find found at any time.
func (a *app) known(ctx context.Context) (installation int64, slug string, err error) {
	read := func() (int64, string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.installation, a.slug
	}
	if installation, slug = read(); installation == 0 {
		_, err = a.find(ctx)
		installation, slug = read()
	}
	return installation, slug, err
}

// issue makes a token with the App's rights, or fewer.
func (a *app) issue(ctx context.Context, rights *sdk.InstallationTokenOptions) (*sdk.InstallationToken, error) {
	installation, _, err := a.known(ctx)
	if err != nil {
		return nil, err
	}
	api, err := a.asApp()
	if err != nil {
		return nil, err
	}
	token, answer, err := api.Apps.CreateInstallationToken(ctx, installation, rights)
	if status(answer) == http.StatusNotFound {
		a.forget() // it was installed again
	}
	a.made.add(token.GetToken())
	return token, a.trouble("make a token", err)
}

// asAdmin asks with all rights of the App.
func (a *app) asAdmin(ctx context.Context) (*sdk.Client, error) {
	token, err := a.adminToken(ctx)
	if err != nil {
		return nil, err
	}
	return a.client(token)
}

// adminToken is the newest one, or the one before it while that is young and the other counts.
func (a *app) adminToken(ctx context.Context) (string, error) {
	a.mu.Lock()
	admin, before := a.admin, a.before
	a.mu.Unlock()
	now := a.now()
	if admin.left(now) <= tokenLeft {
		next, err := a.issue(ctx, nil)
		switch {
		case err != nil && admin.left(now) > 0:
			return admin.value, nil
		case err != nil:
			return "", err
		}
		admin, before = adminToken{next.GetToken(), now, next.GetExpiresAt().Time}, admin
		a.mu.Lock()
		a.admin, a.before = admin, before
		a.mu.Unlock()
	}
	if now.Sub(admin.made) < youth && before.left(now) > youth {
		return before.value, nil
	}
	return admin.value, nil
}

// forget has the App look for its installation, and take another token.
func (a *app) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.installation, a.admin, a.before = 0, adminToken{}, adminToken{}
}

// trouble says what could not be done, and why if that is the operator's to mend.
func (a *app) trouble(what string, err error) error {
	if err == nil {
		return nil
	}
	var answer *sdk.ErrorResponse
	if errors.As(err, &answer) {
		switch answer.Response.StatusCode {
		case http.StatusUnauthorized:
			a.forget()
			fallthrough
		case http.StatusForbidden:
			err = fmt.Errorf("%w (App %d: %s)", githost.ErrCredential, a.ID, answer.Message)
		}
	}
	if to := (*sdk.RedirectionError)(nil); errors.As(err, &to) {
		err = client.Redirected(to.Response.Request.URL, to.Location)
	}
	return fmt.Errorf("github: %s: %w", what, err)
}

func status(r *sdk.Response) int {
	if r == nil || r.Response == nil {
		return 0
	}
	return r.StatusCode
}
