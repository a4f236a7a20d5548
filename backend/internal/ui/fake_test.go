package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

var now = time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)

const (
	prod  = "k3x9d2abqw"
	api   = "databases.example.com"
	alice = "alice"
)

// world stands for control plane, Git host and session: the pages are tested
// with the real ones in backend/internal/app.
type world struct {
	offers   []restapi.Offer
	clusters []v1alpha1.ClusterBinding
	exports  map[string][]v1alpha1.APIServiceExport
	// files are by "<cluster>:<branch>", then by path.
	files map[string]map[string]string
	log   map[string][]githost.Commit
	// versions are by "<cluster>:<branch>:<path>".
	versions map[string][]githost.Version
	// down are what does not answer: "git" or "control", or "files" for more of
	// them than are listed.
	down map[string]bool
	// hangs is a cluster whose Git does not answer.
	hangs string
	seen  time.Time
	// bound are the binds that were asked for.
	bound []string
	// shares are of all clusters, which their users may view.
	shares []restapi.Share
	// changes are those of all clusters, and reviews what was said of them.
	changes     []restapi.Change
	moreChanges bool
	reviews     []restapi.Review
	// refuses is why no verdict is taken; nil to take them.
	refuses error
	// unlisted is why the changes cannot be listed.
	unlisted error
	// logs is where the log goes.
	logs  io.Writer
	reads int
	// elsewhere has the repositories on a Git host of its own.
	elsewhere bool
	// asked counts questions for versions, and pages what is asked of the control plane.
	asked, pages int
	// asking bounds what people ask for; nil for nothing.
	asking *access.Asking
}

func (w *world) May(_ context.Context, who login.Identity) error {
	if w.asking == nil {
		return nil
	}
	return w.asking.May(who)
}

func (w *world) Identity(r *http.Request) (login.Identity, bool) {
	c, err := r.Cookie("who")
	if err != nil {
		return login.Identity{}, false
	}
	return login.Identity{Issuer: "https://issuer", Subject: c.Value, Username: "oidc:" + c.Value + "@example.com"}, true
}

var errDown = refusal.Because(errors.New("connection refused to 10.0.0.1"), refusal.Unavailable, "the control plane cannot do this just now: try again")

func (w *world) Catalog(_ context.Context, who login.Identity) ([]restapi.Offer, error) {
	w.pages++
	if w.down["control"] {
		return nil, errDown
	}
	offers := slices.Clone(w.offers)
	for i := range offers {
		if who.Subject != alice {
			offers[i].Bound = nil
		}
	}
	return offers, nil
}

// views tells whether a cluster is somebody's or shared with them.
func (w *world) views(who login.Identity, cb v1alpha1.ClusterBinding) bool {
	return cb.Spec.Owner.Subject == who.Subject || slices.ContainsFunc(w.shares, func(s restapi.Share) bool { return s.User == who.Username })
}

func (w *world) Clusters(_ context.Context, who login.Identity) ([]v1alpha1.ClusterBinding, error) {
	w.pages++
	var own []v1alpha1.ClusterBinding
	for _, cb := range w.clusters {
		if w.views(who, cb) {
			own = append(own, cb)
		}
	}
	return own, nil
}

func (w *world) Cluster(_ context.Context, who login.Identity, id string) (*v1alpha1.ClusterBinding, error) {
	w.pages++
	for i, cb := range w.clusters {
		if cb.Name == id && w.views(who, cb) {
			return &w.clusters[i], nil
		}
	}
	return nil, refusal.New(refusal.NotFound, "no such cluster, or it is not yours")
}

func (w *world) Exports(_ context.Context, cb *v1alpha1.ClusterBinding) ([]v1alpha1.APIServiceExport, error) {
	return w.exports[cb.Name], nil
}

func (w *world) Bind(ctx context.Context, who login.Identity, cluster, offer string) (*restapi.Binding, error) {
	if _, err := w.Cluster(ctx, who, cluster); err != nil {
		return nil, err
	}
	w.bound = append(w.bound, cluster+" "+offer)
	return &restapi.Binding{Name: api, Offer: offer}, nil
}

// contents and hashes are of all that was hashed.
var contents, hashes = map[string]string{}, map[string]string{}

func hash(s string) string {
	if known, ok := hashes[s]; ok {
		return known
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(s))
	hashes[s] = fmt.Sprintf("%x%08x", h.Sum(nil), len(s))
	contents[hashes[s]] = s
	return hashes[s]
}

func (w *world) tree(cluster, revision string) (map[string]string, bool) {
	for _, branch := range []string{"main", "status"} {
		tree, ok := w.files[cluster+":"+branch]
		if ok && (revision == branch || revision == commitOf(tree)) {
			return tree, true
		}
	}
	return nil, false
}

var seed = maphash.MakeSeed()

// commitOf is another one for another tree.
func commitOf(tree map[string]string) string {
	sum := maphash.Hash{}
	sum.SetSeed(seed)
	var all uint64
	for path, content := range tree {
		sum.Reset()
		_, _ = sum.WriteString(path)
		_, _ = sum.WriteString(content)
		all += sum.Sum64()
	}
	return hash(fmt.Sprint(all))
}

func (w *world) Head(ctx context.Context, cluster, branch string) (string, error) {
	if cluster == w.hangs {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if w.down["git"] {
		return "", errors.New("git: exit status 128: /srv/git/secret")
	}
	tree, ok := w.tree(cluster, branch)
	if !ok {
		return "", githost.ErrNotFound
	}
	return commitOf(tree), nil
}

func (w *world) List(_ context.Context, cluster, revision, folder string, keep func(string) bool) ([]githost.File, error) {
	if w.down["files"] {
		return nil, githost.ErrTooMany
	}
	tree, _ := w.tree(cluster, revision)
	var out []githost.File
	for path, content := range tree {
		if strings.HasPrefix(path, folder+"/") && keep(path) {
			out = append(out, githost.File{Path: path, Blob: hash(content), Regular: true})
		}
	}
	slices.SortFunc(out, func(a, b githost.File) int { return cmp.Compare(a.Path, b.Path) })
	return out, nil
}

func (w *world) Read(_ context.Context, cluster, revision, path string) ([]byte, string, error) {
	if w.down["git"] {
		return nil, "", errors.New("git: exit status 128: /srv/git/secret")
	}
	tree, _ := w.tree(cluster, revision)
	content, ok := tree[path]
	_, err := contract.ParsePath(path)
	if _, errSecret := contract.ParseSecretPath(path); errSecret == nil {
		err = nil
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%q should not have come so far: %w", path, err)
	case !ok:
		return nil, "", githost.ErrNotFound
	case len(content) > githost.MaxFile:
		return nil, hash(content), githost.ErrTooLarge
	}
	return []byte(content), hash(content), nil
}

func (w *world) Blobs(_ context.Context, _ string, blobs []string, fn func(string, []byte) error) error {
	for _, b := range blobs {
		w.reads++
		if err := fn(b, []byte(contents[b])); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Log(_ context.Context, cluster, path string, limit int) ([]githost.Commit, error) {
	all := w.log[cluster+":"+path]
	return all[:min(limit, len(all))], nil
}

func (w *world) Versions(_ context.Context, cluster, branch, path string, limit int) ([]githost.Version, error) {
	w.asked++
	if all, ok := w.versions[cluster+":"+branch+":"+path]; ok {
		return all[:min(limit, len(all))], nil
	}
	// One that was made just now.
	content, ok := w.files[cluster+":"+branch][path]
	if !ok {
		return nil, nil
	}
	return []githost.Version{{Commit: hash("c" + content), Blob: hash(content), When: now.Add(-time.Minute), Author: "dora", Email: "dora@" + contract.ClusterDomain(cluster)}}, nil
}

func newWorld() *world {
	return &world{
		exports: map[string][]v1alpha1.APIServiceExport{}, files: map[string]map[string]string{},
		log: map[string][]githost.Commit{}, down: map[string]bool{}, logs: io.Discard, seen: now.Add(-20 * time.Second),
	}
}

func (w *world) handler() http.Handler {
	return New(Config{
		Session: w, Asking: w, Control: w, Reviews: w, Git: w, Seen: func(string) time.Time { return w.seen }, PublicURL: "https://gitbind.example.com", Elsewhere: w.elsewhere,
		Log: slog.New(slog.NewTextHandler(w.logs, nil)), Now: func() time.Time { return now },
	})
}

// get asks for a page; who is "" for somebody who is not signed in.
func (w *world) get(t testing.TB, who, path string) *httptest.ResponseRecorder {
	t.Helper()
	return w.ask(t, httptest.NewRequest(http.MethodGet, path, nil), who)
}

func (w *world) ask(t testing.TB, r *http.Request, who string) *httptest.ResponseRecorder {
	t.Helper()
	if who != "" {
		r.AddCookie(&http.Cookie{Name: "who", Value: who})
	}
	answer := httptest.NewRecorder()
	w.handler().ServeHTTP(answer, r)
	return answer
}

func conditionOf(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// addCluster adds one that is set up.
func (w *world) addCluster(id, name, owner string) *v1alpha1.ClusterBinding {
	w.clusters = append(w.clusters, v1alpha1.ClusterBinding{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Spec:       v1alpha1.ClusterBindingSpec{DisplayName: name, Owner: v1alpha1.Owner{Issuer: "https://issuer", Subject: owner, Username: "oidc:" + owner + "@example.com"}},
		Status: v1alpha1.ClusterBindingStatus{
			TenantNamespace: v1alpha1.TenantNamespace(id), Repository: &v1alpha1.Repository{URL: "https://gitbind.example.com/git/" + id + ".git"},
			Conditions: []metav1.Condition{conditionOf("Ready", "True", "", ""), conditionOf("Synced", "True", "", "")},
		},
	})
	w.files[id+":main"], w.files[id+":status"] = map[string]string{}, map[string]string{}
	return &w.clusters[len(w.clusters)-1]
}

func (w *world) bindAPI(id string) {
	w.exports[id] = append(w.exports[id], v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Name: api},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "database"},
		Status:     v1alpha1.APIServiceExportStatus{Offer: &v1alpha1.Offer{DisplayName: "PostgreSQL", Group: "Databases"}, Conditions: []metav1.Condition{conditionOf("Granted", "True", "", ""), conditionOf("Published", "True", "", "")}},
	})
}

// file is a claim's.
func file(name, plan string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Database\nmetadata:\n  name: %s\n  namespace: team-a\nspec:\n  plan: %s\n", name, plan)
}

// addClaim adds a claim with what the bridge says of it; change may be nil.
func (w *world) addClaim(id, name string, change func(*contract.Status)) {
	k := contract.Key{Binding: api, Namespace: "team-a", Name: name}
	content := file(name, "small")
	w.files[id+":main"][k.Path()] = content
	s := &contract.Status{Metadata: contract.StatusMeta{Name: name, Namespace: "team-a"}, Answers: contract.Answers{Blob: hash(content), Commit: hash("c")}, Result: contract.Applied}
	if change != nil {
		change(s)
	}
	data, err := contract.EncodeStatus(s)
	if err != nil {
		panic(err)
	}
	w.files[id+":status"][k.Path()] = string(data)
}

func ready(status, message string) map[string]any {
	return map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": status, "reason": "Available", "message": message, "lastTransitionTime": "2026-11-21T13:00:00Z"},
		map[string]any{"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": "2026-11-21T12:00:00Z"},
	}}
}

func commit(n int, author, email, subject string, diff ...string) githost.Commit {
	return githost.Commit{Hash: hash(fmt.Sprint(n)), Author: author, Email: email, When: now.Add(-time.Duration(n) * time.Hour), Subject: subject, Diff: diff}
}

// lived is a world in which something happened.
func lived() *world {
	w := newWorld()
	w.offers = []restapi.Offer{
		{Name: "database", DisplayName: "PostgreSQL", Group: "Databases", Kind: "Database", Description: "A database of your own, with backups.", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "databases"}, Bound: []string{"prod"}},
		{Name: "queue", DisplayName: "RabbitMQ", Group: "Messaging", Kind: "Queue", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "queues"}},
		{Name: "odd", DisplayName: "Odd", Kind: "Odd", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "odds"}},
	}
	w.addCluster(prod, "prod", alice)
	w.bindAPI(prod)
	w.addClaim(prod, "orders", func(s *contract.Status) {
		s.Status = ready("True", "")
		s.Status["endpoint"] = "10.0.0.7:5432"
		s.Effective = map[string]any{"plan": "small-eu"}
	})
	w.addClaim(prod, "slow", func(s *contract.Status) { s.Status = ready("False", "waiting for a volume") })
	w.addClaim(prod, "denied", func(s *contract.Status) {
		s.Result, s.Problem = contract.Denied, &contract.Problem{File: "bindings/x", Line: 7, Reason: "spec.plan: no such plan"}
	})
	w.addClaim(prod, "held", func(s *contract.Status) {
		s.Result, s.Reason, s.Message = contract.Held, contract.ManyRemovals, "5 claims were removed at once."
		s.Answers.Blob = ""
	})
	held := contract.Key{Binding: api, Namespace: "team-a", Name: "held"}.Path()
	delete(w.files[prod+":main"], held)
	w.addClaim(prod, "gone", func(s *contract.Status) { s.Result, s.Answers.Blob = contract.Gone, "" })
	delete(w.files[prod+":main"], contract.Key{Binding: api, Namespace: "team-a", Name: "gone"}.Path())
	refused, _ := contract.EncodeStatus(&contract.Status{Result: contract.Invalid, Answers: contract.Answers{Blob: "b", Commit: "c"}, Problem: &contract.Problem{File: "bindings/x/notes.txt", Reason: "not the path of a claim"}})
	w.files[prod+":status"]["refused/bindings/x/notes.txt"] = string(refused)
	orders := prod + ":" + contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path()
	w.log[orders] = []githost.Commit{
		commit(1, "dora", "dora@"+contract.ClusterDomain(prod), "claim: update team-a/orders", "@@ -6,2 +6,2 @@", " spec:", "-  plan: nano", "+  plan: small"),
		commit(5, "Bob", "bob@example.com", "Order a database", "@@ -0,0 +1,2 @@", "+spec:", "+  plan: nano"),
	}
	w.log[orders][0].With = []string{"eve <eve@" + contract.ClusterDomain(prod) + ">"}
	return w
}

func (w *world) Shares(ctx context.Context, who login.Identity, cluster string) ([]restapi.Share, error) {
	cb, err := w.Cluster(ctx, who, cluster)
	if err == nil && cb.Spec.Owner.Subject != who.Subject {
		err = refusal.New(refusal.NotFound, "no such cluster, or it is not yours")
	}
	return w.shares, err
}

func (w *world) Share(ctx context.Context, who login.Identity, cluster string, share restapi.Share) (*restapi.Share, error) {
	if _, err := w.Shares(ctx, who, cluster); err != nil {
		return nil, err
	}
	w.shares = append(w.shares, share)
	return &share, nil
}

func (w *world) Unshare(ctx context.Context, who login.Identity, cluster, id string) error {
	_, err := w.Shares(ctx, who, cluster)
	w.shares = slices.DeleteFunc(w.shares, func(s restapi.Share) bool { return err == nil && s.ID == id })
	return err
}

func (w *world) Changes(ctx context.Context, who login.Identity, cluster string) (changes []restapi.Change, more bool, err error) {
	if _, err := w.Cluster(ctx, who, cluster); err != nil {
		return nil, false, err
	}
	return w.changes, w.moreChanges, w.unlisted
}

func (w *world) Change(ctx context.Context, who login.Identity, cluster, branch string) (*restapi.Change, error) {
	if _, err := w.Cluster(ctx, who, cluster); err != nil {
		return nil, err
	}
	for i, c := range w.changes {
		if c.Branch == branch {
			return &w.changes[i], nil
		}
	}
	return nil, refusal.New(refusal.NotFound, "there is no such proposed change")
}

func (w *world) Review(ctx context.Context, who login.Identity, cluster string, in restapi.Review) (*restapi.Reviewed, error) {
	if _, err := w.Change(ctx, who, cluster, in.Branch); err != nil {
		return nil, err
	}
	if w.refuses != nil {
		return nil, w.refuses
	}
	w.reviews = append(w.reviews, in)
	return &restapi.Reviewed{}, nil
}
