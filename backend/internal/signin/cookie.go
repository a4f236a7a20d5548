package signin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
)

// This file is the one place for cookies.

// flow is what a browser keeps while its user is at the issuer, for each tab.
type flow struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Then     string    `json:"then"`
	Expires  time.Time `json:"expires"`
}

// session is what a browser keeps of who its user is.
type session struct {
	Issuer   string    `json:"issuer"`
	Subject  string    `json:"subject"`
	Username string    `json:"username"`
	Groups   []string  `json:"groups,omitempty"`
	Expires  time.Time `json:"expires"`
}

// What the cookies are for: the end of their names, and bound into their seals.
const (
	flowCookie    = "gitbind-signin"
	sessionCookie = "gitbind-session"
)

// longestCookie is what browsers keep, with room for name and attributes.
const longestCookie = 3800

// setFlows has the browser keep the newest flows, as many as a cookie has room for.
func (s *SignIn) setFlows(w http.ResponseWriter, flows []flow) error {
	if len(flows) == 0 {
		http.SetCookie(w, s.cookie(flowCookie, "", -time.Second))
		return nil
	}
	value, err := s.Seal.seal(flowCookie, flows)
	if err != nil {
		return err
	}
	if len(value) > longestCookie && len(flows) > 1 {
		return s.setFlows(w, flows[1:])
	}
	http.SetCookie(w, s.cookie(flowCookie, value, flowLifetime))
	return nil
}

// flows are those of a browser that have not ended, the newest last.
func (s *SignIn) flows(r *http.Request) (flows []flow) {
	if !s.read(r, flowCookie, &flows) {
		return nil
	}
	return slices.DeleteFunc(flows, func(f flow) bool { return !s.Now().Before(f.Expires) })
}

func (s *SignIn) setSession(w http.ResponseWriter, who login.Identity) error {
	value, err := s.Seal.seal(sessionCookie, session{
		Issuer: who.Issuer, Subject: who.Subject, Username: who.Username, Groups: who.Groups, Expires: s.Now().Add(sessionLifetime),
	})
	if err != nil {
		return err
	}
	if len(value) > longestCookie {
		return refusal.New(refusal.Forbidden, "The issuer names %d groups for you, which are more than a browser can keep. Have its operator send those only that gitbind needs.", len(who.Groups))
	}
	http.SetCookie(w, s.cookie(sessionCookie, value, sessionLifetime))
	return nil
}

func (s *SignIn) clearSession(w http.ResponseWriter) {
	http.SetCookie(w, s.cookie(sessionCookie, "", -time.Second))
}

func (s *SignIn) session(r *http.Request) (v session, ok bool) {
	return v, s.read(r, sessionCookie, &v) && s.Now().Before(v.Expires)
}

func (s *SignIn) read(r *http.Request, name string, v any) bool {
	c, err := r.Cookie(s.cookieName(name))
	return err == nil && s.Seal.open(name, c.Value, v) == nil
}

// cookie lasts that long; a negative time removes it.
func (s *SignIn) cookie(name, value string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: int(lasts / time.Second),
		Secure: s.https(), HttpOnly: true,
		// Lax: the way back from the issuer is a link from another site.
		SameSite: http.SameSiteLaxMode,
	}
}

// cookieName has the prefix that keeps other hosts of the domain from setting
// it. Browsers want https for it, which loopback has not.
func (s *SignIn) cookieName(name string) string {
	if s.https() {
		return "__Host-" + name
	}
	return name
}

func (s *SignIn) https() bool { return strings.HasPrefix(s.PublicURL, "https://") }
