package ui

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/golden"
)

const (
	clusterURL = "/clusters/" + prod
	bindingURL = clusterURL + "/bindings/" + api
	ordersURL  = bindingURL + "/team-a/orders"
)

// pages are each page in each of its states.
var pages = []struct {
	name, who, path string
	status          int
	world           func() *world
}{
	{"home", "", "/", 200, newWorld},
	{"signed out", "", ordersURL + "?history=all", 401, lived},
	{"not found", alice, "/nowhere", 404, lived},
	{"catalogue", alice, "/catalog", 200, lived},
	{"catalogue search", alice, "/catalog?q=post+data&group=Databases", 200, lived},
	{"catalogue finds nothing", alice, "/catalog?q=teapot", 200, lived},
	{"catalogue empty", alice, "/catalog", 200, newWorld},
	{"catalogue away", alice, "/catalog", 503, with(lived, func(w *world) { w.down["control"] = true })},
	{"connect", alice, "/connect", 200, newWorld},
	{"connected", alice, "/connect", 200, lived},
	{"clusters", alice, "/clusters", 200, lived},
	{"clusters none", alice, "/clusters", 200, newWorld},
	{"clusters without git", alice, "/clusters", 200, with(lived, func(w *world) { w.down["git"] = true })},
	{"cluster", alice, clusterURL, 200, lived},
	{"cluster new", alice, clusterURL, 200, with(newWorld, func(w *world) {
		w.seen = time.Time{}
		w.addCluster(prod, "new", alice).Status.Conditions = nil
		w.files = map[string]map[string]string{}
	})},
	{"cluster silent and held", alice, clusterURL, 200, with(lived, func(w *world) {
		w.seen = now.Add(-3 * time.Hour)
		w.clusters[0].Status.Foreign = 2
		w.clusters[0].Status.Conditions[1] = metav1.Condition{Type: "Synced", Status: "False", Reason: "RemovalsHeld", Message: "5 claims would go."}
	})},
	{"cluster asks for apis", alice, clusterURL, 200, with(lived, func(w *world) {
		ask := func(binding string, result contract.Result, message string) {
			path := contract.RequestPath(binding)
			w.files[prod+":main"][path] = "kind: APIServiceExportRequest\n" + binding
			if result != "" {
				said, _ := contract.EncodeStatus(&contract.Status{Result: result, Message: message, Answers: contract.Answers{Blob: hash(w.files[prod+":main"][path]), Commit: "c"}})
				w.files[prod+":status"][path] = string(said)
			}
		}
		ask("queues.example.com", contract.Denied, "the cluster lacks the right to bind queue")
		ask("odds.example.com", "", "")
		ask(api, contract.Applied, "")
		ask("gone.example.com", contract.Gone, "")
		delete(w.files[prod+":main"], contract.RequestPath("gone.example.com"))
	})},
	{"cluster with equal names", alice, clusterURL, 200, with(lived, func(w *world) {
		other := w.exports[prod][0]
		other.Name, other.Spec.Template = "pgs.example.org", "pg"
		w.exports[prod] = append(w.exports[prod], other)
	})},
	{"cluster shared by its owner", alice, clusterURL, 200, with(lived, share)},
	{"cluster shared with a user", "bob", clusterURL, 200, with(lived, share)},
	{"clusters shared with a user", "bob", "/clusters", 200, with(lived, share)},
	{"cluster without git", alice, clusterURL, 200, with(lived, func(w *world) { w.down["git"] = true })},
	{"binding", alice, bindingURL, 200, lived},
	{"binding attention", alice, bindingURL + "?show=attention", 200, lived},
	{"binding finds nothing", alice, bindingURL + "?q=teapot", 200, lived},
	{"binding granted", alice, bindingURL + "?granted=database", 200, with(newWorld, func(w *world) {
		w.addCluster(prod, "prod", alice)
		w.bindAPI(prod)
		w.exports[prod][0].Status.Conditions = w.exports[prod][0].Status.Conditions[:1]
	})},
	{"binding without git", alice, bindingURL, 503, with(lived, func(w *world) { w.down["git"] = true })},
	{"cluster too many files", alice, clusterURL, 200, with(lived, func(w *world) { w.down["files"] = true })},
	{"binding too many files", alice, bindingURL, 413, with(lived, func(w *world) { w.down["files"] = true })},
	{"cluster with changes", alice, clusterURL, 200, with(lived, proposals)},
	{"change to approve", alice, changeURL, 200, with(lived, proposals)},
	{"change of one's own", alice, changeURL, 200, with(lived, func(w *world) {
		proposals(w)
		w.changes[0].MayApprove, w.changes[0].Blocked = false, "you (oidc:alice@example.com) have pushed a part of it: somebody else approves it"
	})},
	{"change that would be refused", alice, changeURL, 200, with(lived, func(w *world) {
		proposals(w)
		w.changes[0].Files[2].Problem = "spec.plan: there is no such plan"
	})},
	{"change in conflict", "bob", clusterURL + "/changes/odd", 200, with(lived, func(w *world) {
		share(w)
		proposals(w)
	})},
	{"claim ready", alice, ordersURL, 200, lived},
	{"claim with backups", alice, ordersURL, 200, with(lived, backedUp)},
	{"claim with credentials", alice, ordersURL, 200, with(lived, func(w *world) {
		backedUp(w)
		w.addClaim(prod, "orders", func(s *contract.Status) {
			s.Status, s.Secrets = ready("True", ""), listed("orders-admin", "orders-lost", "../x")
			s.Withheld = map[string]string{"orders-<b>": "it is too large to travel"}
		})
		daily := contract.Key{Binding: "backups.example.com", Namespace: "team-a", Name: "daily"}
		said, _ := contract.EncodeStatus(&contract.Status{
			Result: contract.Applied, Secrets: listed("daily-key"), Answers: contract.Answers{Blob: hash(w.files[prod+":main"][daily.Path()]), Commit: "c"},
		})
		w.files[prod+":status"][daily.Path()] = string(said)
		for name, binding := range map[string]string{"orders-admin": api, "daily-key": daily.Binding} {
			body, _ := contract.EncodeEncryptedSecret(&contract.EncryptedSecret{
				Metadata: contract.StatusMeta{Name: name, Namespace: "team-a"}, Claim: contract.SecretClaim{Binding: binding},
				Sequence: now.Add(-3 * time.Minute).UnixMilli(), Keys: []string{"username", "password"}, Encrypted: "10.0.0.1",
			})
			path := contract.SecretKey{Binding: binding, Namespace: "team-a", Name: name}.Path()
			w.files[prod+":status"][path] = string(contract.AppendSignature(body, "s"))
		}
	})},
	{"claim denied", alice, bindingURL + "/team-a/denied", 200, lived},
	{"claim held", alice, bindingURL + "/team-a/held", 200, lived},
	{"claim gone", alice, bindingURL + "/team-a/gone", 200, lived},
	{"claim new", alice, ordersURL, 200, with(lived, func(w *world) { delete(w.files, prod+":status") })},
	{"claim without git", alice, ordersURL, 503, with(lived, func(w *world) { w.down["git"] = true })},
}

const changeURL = clusterURL + "/changes/" + api + "/team-a/orders"

// proposals proposes two changes, the second by somebody hostile.
func proposals(w *world) {
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	head, first := hash("head"), hash("first")
	w.changes = []restapi.Change{
		{
			Branch: "changes/" + api + "/team-a/orders", Head: head, Subject: "Give orders a larger plan", Author: "Bob", When: at(7), ProposedBy: []string{"oidc:bob@example.com"},
			Effect: hash("effect"), MayApprove: true, MayReject: true, MayComment: true,
			Files: []restapi.ChangedFile{
				{
					Path: contract.Key{Binding: api, Namespace: "team-a", Name: "old"}.Path(), Action: restapi.ActionDelete, Binding: api, Namespace: "team-a", Name: "old", Kind: "Database",
					Fields: []restapi.FieldChange{{Field: "spec.plan", Before: "small"}}, Diff: []string{"@@ -1 +0,0 @@", "-plan: small"},
				},
				{
					Path: contract.Key{Binding: api, Namespace: "team-a", Name: "renamed"}.Path(), Action: restapi.ActionDelete, Binding: api, Namespace: "team-a", Name: "renamed", Kind: "Database",
					Held: "a new claim of its kind comes with it", Diff: []string{"@@ -1 +0,0 @@", "-plan: small"},
				},
				{
					Path: contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path(), Action: restapi.ActionUpdate, Binding: api, Namespace: "team-a", Name: "orders", Kind: "Database",
					Fields:    []restapi.FieldChange{{Field: "spec.plan", Before: "small", After: "big"}, {Field: `spec.parameters["log.min"]`, After: "5"}, {Field: "spec.old", Before: "true"}},
					Effective: []restapi.FieldChange{{Field: "spec.plan", Before: "small", After: "medium"}}, Unchanged: []string{"spec.old", "spec.<b>"},
					MoreFields: 3, Diff: []string{"@@ -6,2 +6,2 @@", " spec:", "-  plan: small", "+  plan: big"}, Cut: true,
				},
				{
					Path: contract.Key{Binding: api, Namespace: "team-a", Name: "new"}.Path(), Action: restapi.ActionCreate, Binding: api, Namespace: "team-a", Name: "new", Kind: "Database",
					Fields: []restapi.FieldChange{{Field: "spec.plan", After: "small"}}, Diff: []string{"@@ -0,0 +1 @@", "+plan: small"},
					Untried: "the bridge has not answered yet",
					Waits:   "namespace team-a has 2 claims of this API, and may have 2. Delete one, or ask the platform's operator for more",
				},
				{Path: contract.RequestPath(api), Action: restapi.ActionCreate, Unbinding: "from then on its claims go with it", Diff: []string{"@@ -0,0 +1 @@", "+kind: APIServiceExportRequest"}},
			},
			Commits: []restapi.ChangeCommit{{Hash: head, Author: "Bob", When: at(7), Subject: "Give orders a larger plan"}, {Hash: first, Author: "Bob", When: at(9), Subject: "Begin"}},
			Events: []restapi.ChangeEvent{
				{What: "pushed", By: "oidc:bob@example.com", At: at(9), Commit: first},
				{What: "commented", By: "oidc:alice@example.com", At: at(8), Commit: first, Message: "Why not medium?\nIt is cheaper."},
				{What: "pushed", By: "oidc:bob@example.com", At: at(7), Commit: head},
			},
		},
		{
			Branch: "changes/odd", Head: head, Subject: "<script>alert(1)</script>\u202e", Author: "<b>Eve\u200b", When: at(70), Conflicts: []string{"bindings/<i>\u202e.yaml"},
			Blocked: "main has changed the same lines meanwhile", MayComment: true, Rejected: true,
			Files:   []restapi.ChangedFile{{Path: "<img src=x>", Action: restapi.ActionUpdate, Problem: "<b>no</b>", Diff: []string{"@@ -1 +1 @@", "+</pre><script>\u202e"}}},
			Commits: []restapi.ChangeCommit{{Hash: head, Author: "\u202eEve", When: at(70), Subject: "</li><script>"}},
			Events:  []restapi.ChangeEvent{{What: "rejected", By: "<u>mallory", At: at(60), Commit: head, Message: "<script>\u202e"}},
		},
	}
}

// share lets Bob at the cluster.
func share(w *world) {
	w.shares = []restapi.Share{
		{ID: "one", Role: restapi.RepositoryPropose, User: "oidc:bob@example.com", Binding: api, Namespace: "team-a"},
		{ID: "two", Role: restapi.RepositoryView, Group: "oidc:<i>auditors"},
	}
}

// backedUp adds a backup of orders, a restore of that, and a backup of nothing.
func backedUp(w *world) {
	bind := func(name, display string, references ...v1alpha1.Reference) {
		e := w.exports[prod][0]
		e.Name, e.Status.Offer = name, &v1alpha1.Offer{DisplayName: display, References: references}
		w.exports[prod] = append(w.exports[prod], e)
	}
	bind("backups.example.com", "Backup", v1alpha1.Reference{Field: "spec.instanceRef", API: api, When: &v1alpha1.ReferenceCondition{Field: "spec.type", Value: "db"}})
	bind("restores.example.com", "Restore", v1alpha1.Reference{Field: "spec.backupRef", API: "backups.example.com"}, v1alpha1.Reference{Field: "spec.instanceRef", API: api})
	add := func(binding, kind, name, spec string) {
		k := contract.Key{Binding: binding, Namespace: "team-a", Name: name}
		w.files[prod+":main"][k.Path()] = "apiVersion: example.com/v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: team-a}\nspec: " + spec + "\n"
	}
	add("backups.example.com", "Backup", "daily", "{instanceRef: orders, type: db}")
	add("backups.example.com", "Backup", "other", "{instanceRef: orders, type: queue}")
	add("restores.example.com", "Restore", "undo", "{backupRef: daily, instanceRef: orders}")
	add("restores.example.com", "Restore", "broken", "{backupRef: [")
}

func with(make func() *world, change func(*world)) func() *world {
	return func() *world {
		w := make()
		change(w)
		return w
	}
}

var version = regexp.MustCompile(`\?v=[0-9a-f]+`)

// TestPages compares each page with its golden file, and looks at whether
// everybody can use it.
func TestPages(t *testing.T) {
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			answer := p.world().get(t, p.who, p.path)
			if answer.Code != p.status {
				t.Errorf("status %d, want %d", answer.Code, p.status)
			}
			got := version.ReplaceAllString(answer.Body.String(), "?v=…")
			for _, secret := range []string{"10.0.0.1", "/srv/git", "exit status"} {
				if strings.Contains(got, secret) {
					t.Errorf("the page tells %q", secret)
				}
			}
			for _, fault := range faults(t, got) {
				t.Error(fault)
			}
			golden.Compare(t, filepath.Join("testdata", strings.ReplaceAll(p.name, " ", "-")+".html"), []byte(got))
		})
	}
}

// TestARepositoryElsewhereIsClonedAndSharedThere looks at what a page leaves to the host.
func TestARepositoryElsewhereIsClonedAndSharedThere(t *testing.T) {
	for elsewhere, want := range map[bool]string{false: "git clone -c credential", true: "git clone https://"} {
		w := lived()
		w.elsewhere = elsewhere
		got := w.get(t, alice, "/clusters/"+prod).Body.String()
		if !strings.Contains(got, want) || strings.Contains(got, `action="/shares"`) == elsewhere {
			t.Errorf("elsewhere %v: want %q\n%s", elsewhere, want, got)
		}
	}
}

// TestManyClaims renders a cluster with ten thousand claims, and reads each of
// their states once. Twenty claims each share a content, to make them quickly.
func TestManyClaims(t *testing.T) {
	w := newWorld()
	w.addCluster(prod, "prod", alice)
	w.bindAPI(prod)
	const alike = 20
	main, status := w.files[prod+":main"], w.files[prod+":status"]
	for i := 0; i < 10_000; i += alike {
		first := contract.Key{Binding: api, Namespace: "team-a", Name: fmt.Sprintf("db-%05d", i)}
		w.addClaim(prod, first.Name, func(s *contract.Status) { s.Status = ready("True", "") })
		for j := i + 1; j < i+alike; j++ {
			path := contract.Key{Binding: api, Namespace: "team-a", Name: fmt.Sprintf("db-%05d", j)}.Path()
			main[path], status[path] = main[first.Path()], status[first.Path()]
		}
	}
	failed := func(s *contract.Status) { s.Result, s.Message = contract.Failed, "no quota" }
	for i := 7; i < 10_000; i += 1000 {
		w.addClaim(prod, fmt.Sprintf("db-%05d", i), failed)
	}
	handler := w.handler()
	get := func(path string) string {
		t.Helper()
		began := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.AddCookie(&http.Cookie{Name: "who", Value: alice})
		answer := newRecorder(t, handler, r)
		t.Logf("%s: %d KiB in %s", path, len(answer)>>10, time.Since(began).Round(time.Millisecond))
		if len(answer) > 200<<10 {
			t.Errorf("%s has %d KiB", path, len(answer)>>10)
		}
		return answer
	}
	// The first one reads them all, however long that takes.
	for _, tc := range []struct {
		path  string
		words []string
	}{
		{bindingURL, []string{"1 to 100 of 10000 claims", "db-00099", `href="?page=2"`}},
		{"/clusters", []string{"10000 claims", "10 need attention"}},
		{clusterURL, []string{"9990 Ready", "10 Failed", "no quota"}},
		{bindingURL + "?page=100", []string{"9901 to 10000 of 10000 claims", "db-09999", `href="?page=99"`}},
		{bindingURL + "?page=999999", []string{"9901 to 10000"}},
		{bindingURL + "?q=db-0123", []string{"10 claims", "db-01239"}},
		{bindingURL + "?q=team-a%2Fdb-0000", []string{"10 claims"}},
		{bindingURL + "?show=attention", []string{"10 claims", "db-09007"}},
		{bindingURL + "/team-a/db-04711", []string{"Ready", "plan: small"}},
	} {
		page := get(tc.path)
		for _, want := range tc.words {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not say %q", tc.path, want)
			}
		}
	}
	w.addClaim(prod, "db-00000", func(s *contract.Status) { s.Result, s.Message = contract.Failed, "no quota either" })
	if page := get(bindingURL + "?show=attention"); !strings.Contains(page, "no quota either") || !strings.Contains(page, "11 claims") {
		t.Error("a change is not seen")
	}
	if want := 10_000/alike + 10 + 1; w.reads != want {
		t.Errorf("%d contents of status were read for 10000 claims and one change, want %d", w.reads, want)
	}
}

// TestALargeClaim shows the beginning of a file of 1 MiB, and all of it as text.
func TestALargeClaim(t *testing.T) {
	w := lived()
	path := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path()
	large := file("orders", "small") + strings.Repeat("# <b>0123456789</b>\n", 1<<20/20)
	w.files[prod+":main"][path] = large
	page := w.get(t, alice, ordersURL).Body.String()
	if len(page) > 512<<10 || !strings.Contains(page, "These are the first 64 KiB of 1.0 MiB") {
		t.Errorf("the page has %d KiB", len(page)>>10)
	}
	whole := w.get(t, alice, ordersURL+"/file")
	if whole.Body.String() != large || whole.Header().Get("Content-Type") != "text/plain; charset=utf-8" || whole.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the file has %d bytes and headers %v", whole.Body.Len(), whole.Header())
	}
	w.files[prod+":main"][path] = strings.Repeat("x", 3<<20)
	if page := w.get(t, alice, ordersURL).Body.String(); !strings.Contains(page, "too large to be shown") {
		t.Errorf("a file beyond any limit:\n%s", page)
	}
}

// TestADiffOfWhichNothingIsShownIsSaidToBeCut has a commit for whose diff there was no room.
func TestADiffOfWhichNothingIsShownIsSaidToBeCut(t *testing.T) {
	t.Parallel()
	w := lived()
	c := commit(1, "alice", "alice@example.com", "Much")
	c.Cut = true
	w.log[prod+":"+contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path()] = []githost.Commit{c}
	if page := w.get(t, alice, ordersURL).Body.String(); !strings.Contains(page, "longer than what is shown here: <code>git show "+c.Hash[:10]) {
		t.Errorf("the page does not say so:\n%s", page)
	}
}

// TestStates judges each answer of the bridge.
func TestStates(t *testing.T) {
	for _, tc := range []struct {
		word string
		blob string
		a    *answer
	}{
		{"Waiting", "b", nil},
		{"Waiting", "b", &answer{result: contract.Gone}},
		{"Changing", "b", &answer{result: contract.Applied, blob: "a", ready: "True"}},
		{"Changing", "b", &answer{result: contract.Invalid, blob: "a"}},
		{"Ready", "b", &answer{result: contract.Applied, blob: "b", ready: "True"}},
		{"Not ready", "b", &answer{result: contract.Applied, blob: "b", ready: "False"}},
		{"Not ready", "b", &answer{result: contract.Applied, blob: "b", ready: "Unknown"}},
		{"Applied", "b", &answer{result: contract.Applied, blob: "b"}},
		{"Contested", "b", &answer{result: contract.Applied, blob: "b", ready: "True", reason: contract.Contested}},
		{"Invalid", "b", &answer{result: contract.Invalid, blob: "b"}},
		{"Denied", "b", &answer{result: contract.Denied, blob: "b"}},
		{"Waits for room", "b", &answer{result: contract.Denied, blob: "b", reason: contract.OverQuota}},
		{"Held", "b", &answer{result: contract.Held, blob: "b"}},
		{"Failed", "b", &answer{result: contract.Failed, blob: "b"}},
		{"Lost", "b", &answer{result: contract.Lost, blob: "b"}},
		{"Deleting", "b", &answer{result: contract.Deleting}},
		{"Unknown", "b", &answer{result: "Dancing", blob: "b"}},
		{"Unreadable", "b", &answer{broken: true}},
		{"Not there", "", nil},
		{"Being removed", "", &answer{result: contract.Applied, blob: "b", ready: "True"}},
		{"Removal held", "", &answer{result: contract.Held}},
		{"Deleting", "", &answer{result: contract.Deleting}},
		{"Gone", "", &answer{result: contract.Gone}},
		{"Lost", "", &answer{result: contract.Lost}},
	} {
		if got := judge(tc.blob, tc.a); got.Word != tc.word || got.Says == "" {
			t.Errorf("file %q, answer %+v: %+v, want %s", tc.blob, tc.a, got, tc.word)
		}
	}
}

// TestClusterStates judges clusters by their conditions and by when they were
// seen.
func TestClusterStates(t *testing.T) {
	ready := func(cb *v1alpha1.ClusterBinding) {
		cb.Status.Conditions = []metav1.Condition{conditionOf("Ready", "True", "", "")}
	}
	for _, tc := range []struct {
		word, says string
		seen       time.Time
		change     func(*v1alpha1.ClusterBinding)
	}{
		{"Being set up", "", now, func(*v1alpha1.ClusterBinding) {}},
		{"Not seen yet", "kubectl gitbind connect", time.Time{}, ready},
		{"Connected", "", now.Add(-4 * time.Minute), ready},
		{"Not seen", "for 6 minutes", now.Add(-6 * time.Minute), ready},
		{"Not seen", "for 3 days", now.Add(-80 * time.Hour), ready},
		{"Suspended", "", now, func(cb *v1alpha1.ClusterBinding) { ready(cb); cb.Spec.Suspended = true }},
		{"Being removed", "", now, func(cb *v1alpha1.ClusterBinding) { ready(cb); cb.DeletionTimestamp = &metav1.Time{Time: now} }},
	} {
		cb := &v1alpha1.ClusterBinding{}
		tc.change(cb)
		if got := judgeCluster(cb, tc.seen, now); got.Word != tc.word || !strings.Contains(got.Says, tc.says) {
			t.Errorf("seen %s: %+v, want %s %q", tc.seen, got, tc.word, tc.says)
		}
	}
}

// listed is a list of Secrets with these names.
func listed(names ...string) *contract.SecretList {
	list := &contract.SecretList{Sequence: 1, Versions: map[string]int64{}, Signature: "key:signature"}
	for _, name := range names {
		list.Versions[name] = 1
	}
	return list
}
