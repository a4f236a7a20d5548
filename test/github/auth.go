package github

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"
)

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

func bearer(r *http.Request) string {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") && !strings.EqualFold(scheme, "token") {
		return ""
	}
	return value
}

// appOf tells which App signed a JWT: RS256, issued in the past, for 10 minutes at most.
func (g *GitHub) appOf(jwt string) *app {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil
	}
	var header struct{ Alg string }
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	var signature []byte
	for i, into := range []any{&header, &claims, nil} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || into != nil && json.Unmarshal(data, into) != nil {
			return nil
		}
		signature = data
	}
	id, _ := strconv.ParseInt(claims.Iss, 10, 64)
	a := g.apps[id]
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := g.now().Unix()
	if a == nil || header.Alg != "RS256" || rsa.VerifyPKCS1v15(a.key, crypto.SHA256, sum[:], signature) != nil ||
		claims.Iat > now || claims.Exp <= now || claims.Exp > now+int64((10*time.Minute)/time.Second) {
		return nil
	}
	return a
}

// tokenOf is a token that counts.
func (g *GitHub) tokenOf(value string) *token {
	t := g.tokens[value]
	if t == nil || !g.now().Before(t.expires) || g.now().Sub(t.made) < g.delay || t.app != nil && t.app.suspended {
		return nil
	}
	return t
}

// installation answers GET /orgs/{org}/installation.
func (g *GitHub) installation(a *app, r *http.Request) (int, any) {
	if r.PathValue("org") != g.Organization || a.installation == 0 {
		return http.StatusNotFound, "Not Found"
	}
	out := map[string]any{
		"id": a.installation, "app_id": a.id, "app_slug": a.slug, "permissions": a.permissions, "repository_selection": a.selection,
		"target_type": "Organization", "suspended_at": nil,
	}
	if a.suspended {
		out["suspended_at"] = g.now().Format(time.RFC3339)
	}
	return http.StatusOK, out
}

// newToken answers POST /app/installations/{id}/access_tokens.
func (g *GitHub) newToken(a *app, r *http.Request) (int, any) {
	var in struct {
		Repositories []string
		Permissions  map[string]string
	}
	switch {
	case r.PathValue("id") != strconv.FormatInt(a.installation, 10):
		return http.StatusNotFound, "Not Found"
	case a.suspended:
		return http.StatusForbidden, "This installation has been suspended"
	case r.ContentLength > 0 && json.NewDecoder(r.Body).Decode(&in) != nil:
		return http.StatusBadRequest, "Problems parsing JSON"
	}
	t := &token{made: g.now(), app: a, repositories: in.Repositories, permissions: a.permissions, expires: g.now().Add(time.Hour).Truncate(time.Second)}
	for _, name := range in.Repositories {
		if g.repositories[name] == nil {
			return http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation."
		}
	}
	if in.Permissions != nil {
		t.permissions = map[string]string{"metadata": "read"}
		for name, level := range in.Permissions {
			if has := a.permissions[name]; has != "write" && has != level {
				return http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation."
			}
			t.permissions[name] = level
		}
	}
	value := "ghs_" + secret()
	g.tokens[value] = t
	return http.StatusCreated, map[string]any{"token": value, "expires_at": t.expires.UTC().Format(time.RFC3339), "permissions": t.permissions}
}

// asApp is a path for Apps themselves.
func (g *GitHub) asApp(do func(*app, *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		a := g.appOf(bearer(r))
		if a == nil {
			refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
			return
		}
		status, out := do(a, r)
		answer(w, status, out)
	}
}

// call is a request about a repository, by who may do that.
type call struct {
	*http.Request
	g     *GitHub
	token *token
	repo  *repository
}

// of is a path of repositories, for who has a permission. It holds the lock.
func (g *GitHub) of(permission, level string, do func(call) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		t := g.tokenOf(bearer(r))
		if t == nil {
			refuse(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		if t.app != nil && g.now().Before(g.limited) {
			Limited(g.limited).ServeHTTP(w, r)
			return
		}
		name := r.PathValue("repo")
		repo := g.repositories[name]
		switch {
		case r.PathValue("org") != g.Organization, name != "" && t.repositories != nil && !slices.Contains(t.repositories, name):
			refuse(w, http.StatusNotFound, "Not Found")
		case name != "" && repo == nil && g.renamed[name] != 0:
			w.Header().Set("Location", g.URL+"/api/v3/repositories/"+strconv.FormatInt(g.renamed[name], 10))
			refuse(w, http.StatusMovedPermanently, "Moved Permanently")
		case name != "" && repo == nil:
			refuse(w, http.StatusNotFound, "Not Found")
		case !t.may(permission, level):
			refuse(w, http.StatusForbidden, "Resource not accessible by integration")
		case repo != nil && repo.archived && level == "write" && r.Method != http.MethodDelete:
			refuse(w, http.StatusForbidden, "Repository was archived so is read-only.")
		default:
			status, out := do(call{r, g, t, repo})
			answer(w, status, out)
		}
	}
}

func answer(w http.ResponseWriter, status int, out any) {
	if message, ok := out.(string); ok {
		refuse(w, status, message)
		return
	}
	body, _ := json.Marshal(out)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if status == http.StatusOK {
		sum := sha256.Sum256(body)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	}
	w.WriteHeader(status)
	if out != nil {
		_, _ = w.Write(body)
	}
}

// unchanged has GET requests answered by 304 if they are about what their sender knows.
func (g *GitHub) unchanged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		knows := r.Header.Get("If-None-Match")
		if r.Method != http.MethodGet || knows == "" {
			h.ServeHTTP(w, r)
			return
		}
		is := httptest.NewRecorder()
		h.ServeHTTP(is, r)
		for key, values := range is.Header() {
			w.Header()[key] = values
		}
		if is.Header().Get("ETag") != knows {
			w.WriteHeader(is.Code)
			_, _ = w.Write(is.Body.Bytes())
			return
		}
		g.mu.Lock()
		g.requests-- // it counts against no limit
		g.mu.Unlock()
		w.WriteHeader(http.StatusNotModified)
	})
}

// read reads what is sent.
func (c call) read(into any) bool { return json.NewDecoder(c.Body).Decode(into) == nil }

// paged is one page of a list.
func paged[T any](r *http.Request, all []T) []T {
	number := func(name string, or, most int) int {
		n, err := strconv.Atoi(r.URL.Query().Get(name))
		if err != nil || n < 1 {
			return or
		}
		return min(n, most)
	}
	size := number("per_page", 30, 100)
	from := min((number("page", 1, 1<<20)-1)*size, len(all))
	return append([]T{}, all[from:min(from+size, len(all))]...)
}
