package ui

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Session tells who is signed in, by the cookie of a request.
type Session interface {
	Identity(r *http.Request) (login.Identity, bool)
}

// Control is what the control plane knows and does for a person. What is neither
// theirs nor shared with them is not there for them, and the error says so as a refusal.
type Control interface {
	Catalog(ctx context.Context, who login.Identity) ([]restapi.Offer, error)
	Clusters(ctx context.Context, who login.Identity) ([]v1alpha1.ClusterBinding, error)
	Cluster(ctx context.Context, who login.Identity, id string) (*v1alpha1.ClusterBinding, error)
	// Exports are the APIs that a cluster has. The caller has asked for the
	// cluster in the person's name.
	Exports(ctx context.Context, cb *v1alpha1.ClusterBinding) ([]v1alpha1.APIServiceExport, error)
	Bind(ctx context.Context, who login.Identity, cluster, offer string) (*restapi.Binding, error)
	// Shares are those by which others get at a cluster of the person's own; Share
	// gives one, and Unshare takes it back.
	Shares(ctx context.Context, who login.Identity, cluster string) ([]restapi.Share, error)
	Share(ctx context.Context, who login.Identity, cluster string, share restapi.Share) (*restapi.Share, error)
	Unshare(ctx context.Context, who login.Identity, cluster, id string) error
}

// Reviews shows proposed changes, and takes what people say of them. It follows the
// person's rights, and the error is a refusal.
type Reviews interface {
	Changes(ctx context.Context, who login.Identity, cluster string) (changes []restapi.Change, more bool, err error)
	Change(ctx context.Context, who login.Identity, cluster, branch string) (*restapi.Change, error)
	Review(ctx context.Context, who login.Identity, cluster string, in restapi.Review) (*restapi.Reviewed, error)
}

// Asking bounds what each person asks for, and for how much until ctx ends.
type Asking interface {
	May(ctx context.Context, who login.Identity) error
}

// Config is what the pages are made of.
type Config struct {
	Session Session
	Asking  Asking
	Control Control
	Reviews Reviews
	Git     githost.History
	// Seen is when a cluster's konnector was here last, as far as this process
	// knows; zero when it does not.
	Seen func(cluster string) time.Time
	// Elsewhere says that repositories are on a Git host of its own, which has its own ways
	// to let people in.
	Elsewhere bool
	// PublicURL is the backend's, for commands that people copy.
	PublicURL string
	Log       *slog.Logger
	// Now is for tests; nil means time.Now.
	Now func() time.Time
}

// Sizes of what is remembered between requests. All of it follows from content in
// Git, so that nothing of it can be out of date.
const (
	keepAnswers = 50_000
	keepSurveys = 16
	keepTravels = 1_000
)

// pageTimeout bounds the making of a page.
const pageTimeout = 20 * time.Second

type handler struct {
	Config
	// read are *answer, by the hash of their file; surveys *survey, by cluster.
	read, surveys *lru.Cache
	// travels are *travel, by the versions that they are of.
	travels *lru.Cache
	// surveying has one survey of the same commits made at a time.
	surveying singleflight.Group
}

// New gives the web page: a handler for "/".
func New(cfg Config) http.Handler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &handler{Config: cfg, read: lru.New(keepAnswers), surveys: lru.New(keepSurveys), travels: lru.New(keepTravels)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.home)
	mux.HandleFunc("GET /static/{file}", h.static)
	mux.HandleFunc("GET /catalog", h.signedIn(h.catalog))
	mux.HandleFunc("GET /connect", h.signedIn(h.connect))
	mux.HandleFunc("GET /clusters", h.signedIn(h.clusters))
	mux.HandleFunc("GET /clusters/{id}", h.signedIn(h.cluster))
	mux.HandleFunc("GET /clusters/{id}/bindings/{binding}", h.signedIn(h.binding))
	mux.HandleFunc("GET /clusters/{id}/bindings/{binding}/{namespace}/{name}", h.signedIn(h.claim))
	mux.HandleFunc("GET /clusters/{id}/bindings/{binding}/{namespace}/{name}/file", h.file)
	mux.HandleFunc("GET /clusters/{id}/changes/{branch...}", h.signedIn(h.proposal))
	mux.HandleFunc("POST /reviews", h.posted(h.review))
	mux.HandleFunc("POST /bindings", h.posted(h.bind))
	mux.HandleFunc("POST /shares", h.posted(h.share))
	mux.HandleFunc("POST /shares/remove", h.posted(h.unshare))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.fail(w, r, errNoPage()) })
	other := http.NewCrossOriginProtection()
	// The one that people see: a proxy may call us by another name.
	_ = other.AddTrustedOrigin(cfg.PublicURL)
	other.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, refusal.New(refusal.Forbidden, "this request came from another site, and nothing was changed. Open gitbind's own page and try again there"))
	}))
	return secured(other.Handler(mux))
}

// secured sets what each answer has: the browser is to load nothing from anywhere
// else, to run nothing that is no file of ours, and to keep no copy.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff",
			// Without a referrer the browser would say of our own forms, too,
			// that they come from nowhere.
			"Referrer-Policy":              "same-origin",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// maxForm bounds a form: some names, and a message whose characters may take nine bytes.
const maxForm = 4<<10 + 9*githost.MaxMessage

// posted makes a handler of a form that changes something, and then leads to a page. The form
// is read first: what somebody wrote is shown to them also where it is refused.
func (h *handler) posted(change func(r *http.Request, who login.Identity) (path string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctl := http.NewResponseController(w)
		_ = ctl.SetReadDeadline(time.Now().Add(pageTimeout))
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err := r.ParseForm()
		_ = ctl.SetReadDeadline(time.Time{})
		if err != nil {
			h.fail(w, r, refusal.Because(err, refusal.Invalid, "the form cannot be read: fill it in again"))
			return
		}
		who, err := h.asks(r)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		path, err := change(r, who)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		http.Redirect(w, r, path, http.StatusSeeOther)
	}
}

// signedIn makes a handler of a page for people who are signed in.
func (h *handler) signedIn(flow func(r *http.Request, who login.Identity) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := h.asks(r)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		p, err := flow(r.WithContext(ctx), who)
		if err != nil {
			h.fail(w, r, inTime(ctx, err))
			return
		}
		p.User = shownName(who)
		h.show(w, r, http.StatusOK, p)
	}
}

// asks tells who is signed in, or refuses: also who asks too often.
func (h *handler) asks(r *http.Request) (login.Identity, error) {
	who, ok := h.Session.Identity(r)
	if !ok {
		return login.Identity{}, errSignedOut()
	}
	return who, h.Asking.May(r.Context(), who)
}

// inTime says of an error that came because time ran out that it may pass.
func inTime(ctx context.Context, err error) error {
	var r *refusal.Refusal
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.As(err, &r) {
		return refusal.Because(err, refusal.Unavailable, "this takes too long just now: try again in a moment")
	}
	return err
}

func errNoPage() error {
	return refusal.New(refusal.NotFound, "there is no such page, or what it is about is not yours")
}

func errSignedOut() error {
	return refusal.New(refusal.Unauthenticated, "you are not signed in, or your session has ended")
}

// fail shows an error in words.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the browser left
	}
	status, said := refusal.Answer(err)
	refusal.Log(h.Log, r, status, err)
	titles := map[int]string{
		http.StatusBadRequest:            "This cannot be done",
		http.StatusUnauthorized:          "Sign in to see this page",
		http.StatusForbidden:             "Refused",
		http.StatusNotFound:              "Not found",
		http.StatusConflict:              "Not possible just now",
		http.StatusRequestEntityTooLarge: "Too much to show",
		http.StatusTooManyRequests:       "Too many requests",
		http.StatusServiceUnavailable:    "Not available just now",
	}
	view := errorView{Says: sentence(said), Status: status, Written: visible(formMessage(r.PostForm))}
	if refusal.Passes(status) {
		w.Header().Set("Retry-After", "5")
		view.Back = "Try again"
	}
	if view.Then = r.URL.RequestURI(); r.Method != http.MethodGet {
		view.Then, view.Back = formPage(r.PostForm)
	}
	p := &page{Title: cmp.Or(titles[status], "Something went wrong"), Template: "error", Body: view}
	if who, ok := h.Session.Identity(r); ok && status != http.StatusUnauthorized {
		p.User = shownName(who)
	}
	h.show(w, r, status, p)
}

type errorView struct {
	Says   string
	Status int
	// Then is where the person wanted to be, and Back the words of a link that leads there; ""
	// for none.
	Then, Back string
	// Written is what the person wrote in a form that was refused.
	Written string
}

// formPage is the page that has a form, and the words of a link back to it.
func formPage(form url.Values) (path, back string) {
	cluster, branch := form.Get("cluster"), form.Get("branch")
	switch {
	case !v1alpha1.ValidClusterID(cluster):
		return "/", ""
	case strings.HasPrefix(branch, contract.ChangesPrefix):
		return changePath(cluster, branch), "Back to the change"
	}
	return clusterPath(cluster), "Back to the cluster"
}

// formMessage is a form's text: browsers send its lines as HTTP has them.
func formMessage(form url.Values) string {
	return strings.ReplaceAll(form.Get("message"), "\r\n", "\n")
}

// home is for people who are not signed in; others have their clusters.
func (h *handler) home(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.Session.Identity(r); ok {
		http.Redirect(w, r, "/clusters", http.StatusSeeOther)
		return
	}
	h.show(w, r, http.StatusOK, &page{Title: "gitbind", Template: "home"})
}
