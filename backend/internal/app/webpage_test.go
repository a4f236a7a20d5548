package app

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/chromium"
	"gitbind.dev/test/env"
)

var update = flag.Bool("update", false, "rewrite docs/screens")

const (
	postgresql = "postgresqlinstances.anynines.com"
	screens    = "../../../docs/screens"
)

// passwords are those of Dex's users.
var passwords = map[string]string{env.Alice: env.AlicePassword, env.Bob: env.BobPassword, env.Carol: env.CarolPassword}

// webPage is a person's cluster with some claims, and a browser.
type webPage struct {
	*fixture
	browser *chromium.Browser
	// cluster is Carol's; konnector and bridge are clones of its repository.
	cluster           restapi.Cluster
	konnector, bridge string
}

// testWebPage has people use the web page in a real browser.
func (f *fixture) testWebPage(t *testing.T) {
	p := &webPage{fixture: f, browser: chromium.Start(t)}
	f.kubectl(t, "apply", "--server-side", "-f", "testdata/webpage.yaml")
	p.furnish(t)
	t.Run("A1_a person signs in and comes back to where they were", p.testSignIn)
	t.Run("A3_the catalogue is searched and an offer granted", p.testCatalogue)
	t.Run("a cluster appears by itself when it is connected", p.testConnected)
	t.Run("a claim shows its state as it changes and its history", p.testClaim)
	t.Run("a page says that it is old while somebody is in what has changed", p.testHeldBack)
	t.Run("everything is there without scripts", p.testWithoutScripts)
	t.Run("another person sees nothing of it", p.testStranger)
	t.Run("D2_a proposed change is looked at, discussed and approved", p.testReviewed)
	t.Run("a cluster is shared with that person and taken back", p.testShared)
	t.Run("pages can be read and used by everybody", p.testReadable)
}

func (p *webPage) claimURL(name string) string {
	return p.url + "/clusters/" + p.cluster.ID + "/bindings/" + postgresql + "/team-a/" + name
}

func (p *webPage) hosts() []string {
	issuer, _ := url.Parse(p.Dex.Issuer)
	return []string{strings.TrimPrefix(p.url, "http://"), issuer.Host}
}

// window is one of somebody who is signed in.
func (p *webPage) window(t *testing.T, user string) *chromium.Window {
	t.Helper()
	w := p.browser.Open(t, p.hosts()...)
	w.Goes(p.url + "/")
	w.Presses(`main a.button`)
	w.SignsIn(user, passwords[user])
	w.Sees("h1", "Clusters")
	return w
}

// furnish makes Carol's cluster, with claims in several states.
func (p *webPage) furnish(t *testing.T) {
	t.Helper()
	connect := restapi.ConnectRequest{Name: "prod-eu", ClusterUID: "web-page"}
	eventually(t, "carol connects a cluster", func() error {
		if status, message := p.call(t, p.tokens[env.Carol], "POST", "/v1/clusters", connect, &p.cluster); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
	eventually(t, "carol binds PostgreSQL", func() error {
		if status, message := p.call(t, p.tokens[env.Carol], "POST", "/v1/clusters/"+p.cluster.ID+"/bindings", restapi.BindRequest{Offer: "web-postgresql"}, nil); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
	p.bridgeSays(t)
	dir := t.TempDir()
	p.konnector, p.bridge = filepath.Join(dir, "konnector"), filepath.Join(dir, "bridge")
	p.git(t, "", "clone", "-q", withCredential(p.cluster.RepositoryURL, p.cluster.Credential.Username, p.cluster.Credential.Password), p.konnector)
	p.git(t, "", "clone", "-q", withCredential(p.cluster.RepositoryURL, "bridge", p.bridgeSecret(t, p.cluster.ID)), p.bridge)
	p.git(t, p.bridge, "checkout", "-q", "--orphan", "status")
	p.git(t, p.bridge, "rm", "-rfq", ".")
	name, email := contract.BridgeIdentity()
	p.git(t, p.bridge, "-c", "user.name="+name, "-c", "user.email="+email, "commit", "-q", "--allow-empty", "-m", "status: begin")

	p.order(t, "Order a database for the shop", "dora", 26*time.Hour, map[string]string{"orders": "nano"})
	p.order(t, "Order databases for billing and search", "erik", 20*time.Hour, map[string]string{"invoices": "small", "search": "small", "reports": "enormous", "sessions": "nano"})
	p.order(t, "claim: update team-a/orders ("+postgresql+")", "dora", 3*time.Hour, map[string]string{"orders": "small"})
	p.order(t, "claim: update team-a/orders ("+postgresql+")", "dora", 12*time.Minute, map[string]string{"orders": "big"})
	p.answer(t, map[string]func(*contract.Status){
		"orders":   ready,
		"invoices": ready,
		"sessions": ready,
		"search": func(s *contract.Status) {
			s.Status = provider("False", "Creating", "waiting for a volume in zone eu-1b")
		},
		"reports": func(s *contract.Status) {
			s.Result = contract.Denied
			s.Problem = &contract.Problem{File: s.Metadata.Name + ".yaml", Line: 7, Reason: `spec.plan: "enormous" is none of the plans nano, small, big`}
		},
		"archive": func(s *contract.Status) {
			s.Result, s.Reason, s.Message = contract.Held, contract.ManyRemovals, "It was removed together with 4 others within 10 minutes; at most 3 go without an approval."
		},
	})
}

// bridgeSays sets the conditions that the bridge writes, which does not run here.
func (p *webPage) bridgeSays(t *testing.T) {
	t.Helper()
	said := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now()}
	}
	cb := p.binding(t, p.cluster.ID)
	eventually(t, "the bridge's conditions are there", func() error {
		if err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(cb), cb); err != nil {
			return err
		}
		meta.SetStatusCondition(&cb.Status.Conditions, said(v1alpha1.ConditionSynced))
		if err := p.admin.Status().Update(t.Context(), cb); err != nil {
			return err
		}
		export := &v1alpha1.APIServiceExport{}
		if err := p.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cb.Name), Name: postgresql}, export); err != nil {
			return err
		}
		meta.SetStatusCondition(&export.Status.Conditions, said(v1alpha1.ConditionPublished))
		export.Status.Offer = &v1alpha1.Offer{DisplayName: "PostgreSQL", Group: "Databases"}
		return p.admin.Status().Update(t.Context(), export)
	})
}

func (p *webPage) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(out)
}

func claimFile(name string) string {
	return contract.Key{Binding: postgresql, Namespace: "team-a", Name: name}.Path()
}

// order has the konnector commit claims with these plans, for a user of the
// cluster.
func (p *webPage) order(t *testing.T, message, user string, ago time.Duration, plans map[string]string) {
	t.Helper()
	for name, plan := range plans {
		path := filepath.Join(p.konnector, claimFile(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content := fmt.Sprintf("apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata:\n  name: %s\n  namespace: team-a\nspec:\n  service: a9s-postgresql13\n  plan: postgresql-single-%s\n  expose: Internal\n  parameters:\n    maxConnections: 120\n", name, plan)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	domain := contract.ClusterDomain(p.cluster.ID)
	p.git(t, p.konnector, "add", "--all")
	p.git(t, p.konnector, "-c", "user.name=konnector", "-c", "user.email=konnector@"+domain, "commit", "-q", "-m", message,
		"--author="+user+" <"+user+"@"+domain+">", "--date="+time.Now().Add(-ago).Format(time.RFC3339))
	p.git(t, p.konnector, "push", "-q", "origin", "HEAD:main")
}

// answer has the bridge say something of claims; of those without a file, too.
func (p *webPage) answer(t *testing.T, change map[string]func(*contract.Status)) {
	t.Helper()
	for name, change := range change {
		s := &contract.Status{Metadata: contract.StatusMeta{Name: name, Namespace: "team-a"}, Answers: contract.Answers{Commit: p.git(t, p.konnector, "rev-parse", "HEAD")}, Result: contract.Applied}
		if blob, err := git(t, p.konnector, "rev-parse", "--quiet", "--verify", "HEAD:"+claimFile(name)); err == nil {
			s.Answers.Blob = strings.TrimSpace(blob)
		}
		change(s)
		data, err := contract.EncodeStatus(s)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.bridge, claimFile(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	name, email := contract.BridgeIdentity()
	p.git(t, p.bridge, "add", "--all")
	p.git(t, p.bridge, "-c", "user.name="+name, "-c", "user.email="+email, "commit", "-q", "-m", "status")
	p.git(t, p.bridge, "push", "-q", "origin", "HEAD:status")
}

func provider(status, reason, message string) map[string]any {
	at := time.Now().Add(-10 * time.Minute).UTC().Format(time.RFC3339)
	return map[string]any{
		"conditions": []any{
			map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": at},
			map[string]any{"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "lastTransitionTime": at},
		},
		"instanceId": "9f0c2a44-9d2e-4a53-b0f7-5e1f3f3f6a10",
	}
}

func ready(s *contract.Status) { s.Status = provider("True", "Available", "") }

func (p *webPage) testSignIn(t *testing.T) {
	w := p.browser.Open(t, p.hosts()...)
	w.Goes(p.url)
	w.Sees("main", "gitbind", "Sign in")
	w.Goes(p.claimURL("orders"))
	w.Sees("h1", "Sign in to see this page")
	w.Presses(`main a.button`)
	w.SignsIn(env.Carol, env.CarolPassword)
	w.Sees("h1", "orders")
	w.Sees("header", "carol@example.com")
	if at := chromium.Get(w, chromedp.Location()); at != p.claimURL("orders") {
		t.Errorf("after the sign-in the browser is at %s", at)
	}
	w.Presses(`header form button`)
	w.Sees("main", "Sign in")
	w.Goes(p.claimURL("orders"))
	w.Sees("h1", "Sign in to see this page")
	w.Faultless()
}

func (p *webPage) testCatalogue(t *testing.T) {
	w := p.window(t, env.Carol)
	w.Goes(p.url + "/catalog")
	w.Sees("main", "3 offers", "Databases", "PostgreSQL", "Messaging", "RabbitMQ", "kubectl gitbind bind web-rabbitmq", "prod-eu")
	w.Writes(`#q`, "broker")
	w.Presses(`.find button`)
	w.Sees("main", "1 of 3 offers", "RabbitMQ")
	w.ShowsNothingOf("PostgreSQL")
	w.Goes(p.url + "/catalog?q=teapot")
	w.Sees("main", "Nothing fits this search")
	w.Goes(p.url + "/catalog?group=Messaging")
	w.Presses(`form.bind button`)
	w.Sees("main", "Granted", "kubectl gitbind bind web-rabbitmq")
	export := &v1alpha1.APIServiceExport{}
	eventually(t, "the API is granted", func() error {
		return p.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(p.cluster.ID), Name: "rabbitmqinstances.anynines.com"}, export)
	})
	w.Faultless()
}

func (p *webPage) testConnected(t *testing.T) {
	w := p.window(t, env.Bob)
	w.Goes(p.url + "/connect")
	w.Sees("main", "kubectl gitbind connect "+p.url)
	body := restapi.ConnectRequest{Name: "bobs-new-one", ClusterUID: "web-page-live"}
	if status, message := p.call(t, p.tokens[env.Bob], "POST", "/v1/clusters", body, nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, message)
	}
	w.Sees("#live-clusters", "bobs-new-one", "Not seen yet")
	w.Faultless()
}

func (p *webPage) testClaim(t *testing.T) {
	w := p.window(t, env.Carol)
	w.Sees("main", "prod-eu", "Connected", "6 claims", "2 need attention", "Claims that need attention", "reports", "Denied", "archive", "Removal held")
	w.Presses(`tbody th a`)
	w.Sees("main", "Connected", "PostgreSQL", "Databases", postgresql, "3 Ready", "1 Denied", "1 Removal held")
	w.Presses(`tbody th a`)
	w.Sees("main", "6 claims", "orders", "invoices")
	w.Writes(`#q`, "ord")
	w.Presses(`.find button`)
	w.Sees("main", "1 claim", "orders")
	w.Presses(`tbody th a`)
	w.Sees("main", "Ready", "plan: postgresql-single-big", "dora", "in the cluster", "-  plan: postgresql-single-small", "+  plan: postgresql-single-big", "maxConnections: 120",
		"dora changed it in the cluster", "Applied on the control plane", "Ready, as")
	p.answer(t, map[string]func(*contract.Status){"orders": func(s *contract.Status) { s.Status = provider("False", "Resizing", "moving to the big plan") }})
	w.Sees("#live-claim", "Not ready", "waits for its provider", "moving to the big plan")
	p.answer(t, map[string]func(*contract.Status){"orders": ready})
	w.Sees("#live-claim", "Ready The service is ready")
	w.Faultless()
}

// testHeldBack has a part of a page brought up to date after a click into it, and only said to
// be old while somebody has selected something in it, or is there by keyboard.
func (p *webPage) testHeldBack(t *testing.T) {
	w := p.window(t, env.Carol)
	w.Goes(p.claimURL("archive"))
	held := func(why string) {
		p.answer(t, map[string]func(*contract.Status){"archive": func(s *contract.Status) {
			s.Result, s.Reason, s.Message = contract.Held, contract.ManyRemovals, why
		}})
	}
	const copying, notice = "#live-claim pre.command button", "#live-notice"
	run := func(script string) { _ = chromium.Get(w, chromedp.Evaluate[bool](script+", true")) }
	w.Sees("#live-claim", "Removal held", "together with 4 others", "Copy")
	w.Do(chromedp.Click(chromedp.CSS(copying), chromedp.NodeVisible))
	w.Sees(copying, "Copied")
	held("Nobody has approved it.")
	w.Sees("#live-claim", "Nobody has approved it.")

	run(`getSelection().selectAllChildren(document.querySelector("#live-claim .note"))`)
	held("Its owner says no.")
	w.Sees(notice, "A part of this page has changed")
	w.Sees("#live-claim", "Nobody has approved it.")
	run(`getSelection().selectAllChildren(document.querySelector("h1"))`)
	w.Sees("#live-claim", "Its owner says no.")

	w.Do(chromedp.KeyEvent(kb.Tab))
	run(`document.querySelector("#live-claim pre.command").focus()`)
	held("It was removed together with 4 others within 10 minutes; at most 3 go without an approval.")
	w.Sees(notice, "A part of this page has changed")
	w.Sees("#live-claim", "Its owner says no.")
	run(`document.activeElement.blur()`)
	w.Sees("#live-claim", "together with 4 others")
	w.Faultless()
}

func (p *webPage) testWithoutScripts(t *testing.T) {
	w := p.browser.Open(t, p.hosts()...)
	w.WithoutScripts()
	w.Goes(p.claimURL("orders"))
	w.Presses(`main a.button`)
	w.SignsIn(env.Carol, env.CarolPassword)
	w.Sees("main", "orders", "Ready", "plan: postgresql-single-big", "dora", "+  plan: postgresql-single-big")
	w.ShowsNothingOf(">Copy<")
	w.Goes(p.url + "/catalog")
	w.Writes(`#q`, "broker")
	w.Presses(`.find button`)
	w.Sees("main", "1 of 3 offers", "RabbitMQ")
	w.Goes(p.url + "/connect")
	w.Sees("main", "kubectl gitbind connect "+p.url, "prod-eu")
	w.Presses(`header form button`)
	w.Sees("main", "Sign in")
	w.Faultless()
}

func (p *webPage) testStranger(t *testing.T) {
	w := p.window(t, env.Bob)
	w.ShowsNothingOf("prod-eu", p.cluster.ID)
	for _, path := range []string{"", "/bindings/" + postgresql, "/bindings/" + postgresql + "/team-a/orders"} {
		w.Goes(p.url + "/clusters/" + p.cluster.ID + path)
		w.Sees("h1", "Not found")
		w.ShowsNothingOf("prod-eu", "postgresql-single")
	}
	w.Faultless()
}

// shares has the owner let somebody at the repository.
func (p *webPage) shares(owner *chromium.Window, who, role string) {
	owner.Goes(p.url + "/clusters/" + p.cluster.ID)
	owner.Do(chromedp.Click(chromedp.CSS(`#shared ~ details summary`), chromedp.NodeVisible))
	owner.Writes(`#share-who`, who)
	owner.Do(chromedp.SetValue(chromedp.CSS(`#share-role`), role))
	owner.Presses(`#shared ~ details button`)
	owner.Sees("main", "oidc:"+who)
}

func (p *webPage) testShared(t *testing.T) {
	owner := p.window(t, env.Carol)
	p.shares(owner, "auditors@example.com", "view")
	p.shares(owner, env.Bob, "propose")
	bobs := p.window(t, env.Bob)
	eventually(t, "Bob sees the cluster", func() error {
		var his []restapi.Cluster
		p.call(t, p.tokens[env.Bob], "GET", "/v1/clusters", nil, &his)
		for _, c := range his {
			if c.ID == p.cluster.ID {
				return nil
			}
		}
		return fmt.Errorf("he has %v", his)
	})
	bobs.Goes(p.url + "/clusters")
	bobs.Sees("main", "prod-eu", "of oidc:carol@example.com")
	bobs.Goes(p.url + "/clusters/" + p.cluster.ID)
	bobs.Sees("main", "PostgreSQL", "Owner", "oidc:carol@example.com")
	bobs.ShowsNothingOf("Remove", "may still bind", "auditors")
	bobs.Goes(p.claimURL("orders"))
	bobs.Sees("main", "orders", "plan: postgresql-single-big")

	owner.Presses(`button[aria-label="Take propose back from oidc:bob@example.com"]`)
	owner.Sees("main", "oidc:auditors@example.com")
	owner.ShowsNothingOf("oidc:bob@example.com")
	eventually(t, "Bob is out", func() error {
		if _, err := gitRemote(t, p.cluster.RepositoryURL, "bob", p.tokens[env.Bob]); err == nil {
			return errors.New("he still reads")
		}
		return nil
	})
	bobs.Sees("#live-notice", "not there any more")
	bobs.Goes(p.claimURL("orders"))
	bobs.Sees("h1", "Not found")
	owner.Faultless()
	bobs.Faultless()
}

// testReviewed has Bob propose to change a claim and to cancel another one, and Carol, whose
// cluster it is, decide.
func (p *webPage) testReviewed(t *testing.T) {
	owner := p.window(t, env.Carol)
	p.shares(owner, env.Bob, "propose")
	bobs := filepath.Join(t.TempDir(), "clone")
	eventually(t, "Bob clones", func() error {
		if out, err := git(t, "", "clone", "-q", withCredential(p.cluster.RepositoryURL, "bob", p.tokens[env.Bob]), bobs); err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	const branch = "changes/" + postgresql + "/team-a/orders"
	claims := filepath.Join(bobs, contract.ClaimsPath(postgresql), "team-a")
	text, err := os.ReadFile(filepath.Join(claims, "orders.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	larger := strings.Replace(string(text), "postgresql-single-big", "postgresql-replica-big", 1)
	if err := errors.Join(os.WriteFile(filepath.Join(claims, "orders.yaml"), []byte(larger), 0o600), os.Remove(filepath.Join(claims, "sessions.yaml"))); err != nil {
		t.Fatal(err)
	}
	p.git(t, bobs, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "-a", "-m", "Replicate orders, and drop what nobody uses")
	p.git(t, bobs, "push", "-q", "origin", "HEAD:"+branch)

	page := p.url + "/clusters/" + p.cluster.ID + "/" + branch
	his := p.window(t, env.Bob)
	his.Goes(page)
	his.Sees("main", "Replicate orders, and drop what nobody uses", "Proposed by oidc:bob@example.com",
		"Cancels", "team-a/sessions", "Its service and what is in it are deleted.",
		"Changes", "team-a/orders", "spec.plan", "postgresql-single-big", "postgresql-replica-big",
		"You cannot approve it.", "may not approve changes of binding "+postgresql+", namespace team-a")
	his.ShowsNothingOf("Approve and merge")
	his.Writes(`#review-message`, "It holds all orders.\nMay it have a replica?")
	his.Presses(`button[value=comment]`)
	his.Sees("#events ~ ol", "oidc:bob@example.com", "commented", "It holds all orders.", "May it have a replica?")

	owner.Goes(p.url + "/clusters/" + p.cluster.ID)
	owner.Sees("main", "Proposed changes", "Replicate orders, and drop what nobody uses", "oidc:bob@example.com", "Open")
	owner.Presses(`#changes ~ div a`)
	owner.Sees("main", "What it would do", "May it have a replica?", "Approve and merge")
	p.readable(t, readablePage{"change", page, owner, "light-1200 dark-390"})
	// What Bob adds meanwhile, she has not seen.
	p.git(t, bobs, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "--allow-empty", "-m", "Say so")
	p.git(t, bobs, "push", "-q", "origin", "HEAD:"+branch)
	owner.Writes(`#review-message`, "It needs one.")
	owner.Presses(`button[value=approve]`)
	owner.Sees("main", "The change is not what you have looked at any more", "It needs one.", "Copy")
	owner.Presses(`main a.button`)
	owner.Sees("main", "Say so")
	owner.Presses(`button[value=approve]`)
	owner.Sees("h1", "prod-eu")
	owner.ShowsNothingOf("Proposed changes")
	p.git(t, p.konnector, "fetch", "-q", "origin", "main")
	if out, err := git(t, p.konnector, "log", "-1", "--format=%an|%ae|%s", "FETCH_HEAD"); err != nil || strings.TrimSpace(out) != "oidc:carol@example.com|oidc%3Acarol%40example.com@people.gitbind.dev|Merge "+branch {
		t.Errorf("main: %v %s", err, out)
	}
	owner.Goes(p.claimURL("orders"))
	owner.Sees("main", "plan: postgresql-replica-big", "Replicate orders, and drop what nobody uses")
	his.Goes(page)
	his.Sees("h1", "Not found")
	p.git(t, p.konnector, "merge", "-q", "FETCH_HEAD")
	owner.Presses(`a[href="/clusters"]`)
	owner.Goes(p.url + "/clusters/" + p.cluster.ID)
	owner.Presses(`button[aria-label="Take propose back from oidc:bob@example.com"]`)
	owner.ShowsNothingOf("oidc:bob@example.com")
	owner.Faultless()
	his.Faultless()
}

// testReadable looks at each page in light and dark, wide and as on a phone, and
// walks through one by the keyboard.
func (p *webPage) testReadable(t *testing.T) {
	w := p.window(t, env.Carol)
	out := p.browser.Open(t, p.hosts()...)
	for _, page := range []readablePage{
		{"welcome", p.url + "/", out, "light-390"},
		{"clusters", p.url + "/clusters", w, "light-1200"},
		{"catalogue", p.url + "/catalog", w, "light-1200 dark-1200"},
		{"connect", p.url + "/connect", w, "light-1200"},
		{"cluster", p.url + "/clusters/" + p.cluster.ID, w, "light-1200 light-390"},
		{"claims", p.url + "/clusters/" + p.cluster.ID + "/bindings/" + postgresql, w, "dark-1200 dark-390"},
		{"claim", p.claimURL("orders"), w, "light-1200 dark-1200 light-390"},
		{"denied", p.claimURL("reports"), w, "light-1200"},
		{"not-found", p.url + "/nowhere", w, ""},
		{"signed-out", p.url + "/clusters", out, ""},
	} {
		p.readable(t, page)
	}
	p.testKeyboard(t, w)
	w.Faultless()
	out.Faultless()
}

// readablePage is a page that is looked at in all sizes.
type readablePage struct {
	name, address string
	in            *chromium.Window
	// screens are the pictures to take, as "<scheme>-<width>".
	screens string
}

func (p *webPage) readable(t *testing.T, page readablePage) {
	t.Helper()
	check, err := os.ReadFile("testdata/faults.js")
	if err != nil {
		t.Fatal(err)
	}
	page.in.Goes(page.address)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1200, 390} {
			page.in.Do(page.in.Size(width, 800), page.in.Scheme(scheme))
			for _, fault := range chromium.Get(page.in, chromedp.Evaluate[[]string](string(check))) {
				t.Errorf("%s, %s, %d wide: %s", page.name, scheme, width, fault)
			}
			look := fmt.Sprintf("%s-%d", scheme, width)
			if *update && strings.Contains(page.screens, look) {
				writeScreen(t, page.name+"-"+look, page.in.Picture(width, 1500))
			}
		}
	}
}

func writeScreen(t *testing.T, name string, png []byte) {
	t.Helper()
	if len(png) > 170<<10 {
		t.Errorf("the picture of %s has %d KiB", name, len(png)>>10)
	}
	if err := os.WriteFile(filepath.Join(screens, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// testKeyboard goes through a page by the tabulator: the way past the header comes
// first, everything can be reached, and one sees where one is.
func (p *webPage) testKeyboard(t *testing.T, w *chromium.Window) {
	w.Goes(p.url + "/clusters/" + p.cluster.ID)
	w.Do(w.Size(1200, 800), chromium.Call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	const where = `(() => {
		const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
		return { what: e.tagName + " " + (e.innerText || e.name || "").slice(0, 40).replaceAll("\n", " "), seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && b.width > 0 && b.bottom > 0 && b.right > 0 };
	})()`
	var reached []string
	for range 60 {
		w.Do(chromedp.KeyEvent(kb.Tab))
		at := chromium.Get(w, chromedp.Evaluate[struct {
			What string `json:"what"`
			Seen bool   `json:"seen"`
		}](where))
		if strings.HasPrefix(at.What, "BODY") {
			break
		}
		if !at.Seen {
			t.Errorf("the focus cannot be seen at %s", at.What)
		}
		reached = append(reached, at.What)
	}
	if len(reached) == 0 || reached[0] != "A Skip to the content" {
		t.Errorf("the first step does not lead past the header: %q", reached)
	}
	all, _ := json.Marshal(reached)
	for _, want := range []string{"A gitbind", "A Catalogue", "BUTTON Sign out", "A PostgreSQL", "A team-a/reports", "BUTTON Grant", "BUTTON Copy"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("%s is not reached by the keyboard: %s", want, all)
		}
	}
}
