package app

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

func (s *security) testClientsName(t *testing.T) {
	for _, name := range []string{s.alice.ID, s.alice.Name} {
		if status, message := s.call(t, s.tokens[env.Bob], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "x", ClusterUID: "taken", Reclaim: name, Force: true}, nil); status == http.StatusOK && name == s.alice.ID {
			t.Errorf("Bob reclaims %s: %s", name, message)
		}
	}
	for what, in := range map[string]restapi.ConnectRequest{
		"the same cluster UID":                 {Name: "test", ClusterUID: "alices"},
		"her cluster's id":                     {Name: s.alice.ID, ClusterUID: s.alice.ID},
		"a cluster of his by her cluster's id": {Name: "x", ClusterUID: "taken", Reclaim: s.alice.ID, Force: true},
	} {
		var c restapi.Cluster
		s.call(t, s.tokens[env.Bob], "POST", "/v1/clusters", in, &c)
		if c.ID == s.alice.ID || c.RepositoryURL == s.alice.RepositoryURL {
			t.Errorf("%s gives Bob %+v", what, c)
		}
	}
	if owner := s.binding(t, s.alice.ID).Spec.Owner; owner.Username != "oidc:"+env.Alice {
		t.Errorf("Alice's cluster is that of %+v", owner)
	}
}

func (s *security) testOtherCluster(t *testing.T) {
	bob := func(method, path string, body any) string {
		status, message := s.call(t, s.tokens[env.Bob], method, path, body, nil)
		return fmt.Sprint(status, " ", message)
	}
	for _, route := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/v1/clusters/ID/bindings", restapi.BindRequest{Offer: "database"}},
		{"POST", "/v1/clusters/ID/credential/rotate", nil},
		{"DELETE", "/v1/clusters/ID/credential", nil},
		{"GET", "/v1/events?cluster=ID", nil},
	} {
		hers := bob(route.method, strings.Replace(route.path, "ID", s.alice.ID, 1), route.body)
		none := bob(route.method, strings.Replace(route.path, "ID", "nosuchcluster", 1), route.body)
		if !strings.HasPrefix(hers, "404 ") || hers != none {
			t.Errorf("%s %s: Alice's: %s; one that is not there: %s", route.method, route.path, hers, none)
		}
	}
	if out, err := gitRemote(t, s.alice.RepositoryURL, s.alice.Credential.Username, s.alice.Credential.Password); err != nil {
		t.Errorf("Alice's credential ended: %v %s", err, out)
	}
	b := s.browser(t)
	session := s.sessionOf(time.Now().Add(time.Hour))
	session["subject"], session["username"] = s.binding(t, s.bob.ID).Spec.Owner.Subject, "oidc:"+env.Bob
	b.setCookie(t, "gitbind-session", s.sealed(t, "gitbind-session", session))
	if resp, _ := b.send(t, "GET", "/clusters/"+s.bob.ID, nil); resp.status != http.StatusOK {
		t.Fatalf("Bob's own page: %d", resp.status)
	}
	if resp, _ := b.send(t, "GET", "/clusters/"+s.alice.ID, nil); resp.status != http.StatusNotFound {
		t.Errorf("the page of Alice's cluster: %d", resp.status)
	}
}

func (s *security) testOtherRepository(t *testing.T) {
	for what, c := range map[string]struct{ user, password string }{
		"Bob with his ID token": {"bob", s.tokens[env.Bob]},
		"Bob's konnector":       {s.bob.Credential.Username, s.bob.Credential.Password},
		"Bob's bridge":          {"bridge", s.bobBridge},
		"nobody":                {"konnector", "x"},
	} {
		if out, err := gitRemote(t, s.alice.RepositoryURL, c.user, c.password); err == nil || strings.Contains(out, "refs/heads") {
			t.Errorf("%s reads: %s", what, out)
		}
		dir := t.TempDir()
		s.commit(t, dir, c.user, map[string]string{"bindings/x": "x\n"})
		for _, branch := range []string{"main", "status", "changes/x"} {
			if out, err := git(t, dir, "push", withCredential(s.alice.RepositoryURL, c.user, c.password), "HEAD:refs/heads/"+branch); err == nil || strings.Contains(out, "remote rejected") {
				t.Errorf("%s gets as far as writing %s: %v %s", what, branch, err, out)
			}
		}
		for _, path := range []string{"/v1/events?cluster=", "/v1/clusters/"} {
			address := path + s.alice.ID
			if path == "/v1/clusters/" {
				address += "/credential"
			}
			if status := s.door(t, "", func(r *http.Request) { r.SetBasicAuth(c.user, c.password) }, address); status < 400 {
				t.Errorf("%s at %s: %d", what, address, status)
			}
		}
	}
}

func (s *security) testOtherNamespace(t *testing.T) {
	tenant := "system:serviceaccount:" + v1alpha1.TenantNamespace(s.bob.ID) + ":" + v1alpha1.TenantServiceAccount
	may := func(user, verb, group, resource, namespace string) bool {
		t.Helper()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + v1alpha1.TenantNamespace(s.bob.ID), "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
		}}
		if err := s.admin.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, namespace := range []string{v1alpha1.TenantNamespace(s.alice.ID), v1alpha1.TenantNamespace(s.alice.ID) + "-team-a", v1alpha1.TenantNamespace(s.bob.ID), v1alpha1.SystemNamespace, "default", "kube-system", ""} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			if may(tenant, verb, "", "secrets", namespace) {
				t.Errorf("Bob's tenant may %s Secrets in %q", verb, namespace)
			}
			if may(tenant, verb, "rbac.authorization.k8s.io", "rolebindings", namespace) {
				t.Errorf("Bob's tenant may %s RoleBindings in %q", verb, namespace)
			}
		}
	}
	for _, resource := range []string{"clusterbindings", "apiserviceexports", "apiserviceexporttemplates"} {
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			if may(tenant, verb, "gitbind.dev", resource, "") {
				t.Errorf("Bob's tenant may %s %s", verb, resource)
			}
		}
	}
	// So that the questions are ones that can be answered with yes.
	if !may("system:serviceaccount:"+v1alpha1.SystemNamespace+":gitbind-backend", "create", "gitbind.dev", "clusterbindings", "") {
		t.Error("not even the backend may create ClusterBindings")
	}
}

func (s *security) testNoRight(t *testing.T) {
	path := "/v1/clusters/" + s.bob.ID + "/bindings"
	for _, who := range []string{"database", "planet", "nothing"} {
		if status, message := s.call(t, s.tokens[env.Bob], "POST", path, restapi.BindRequest{Offer: who}, nil); status != http.StatusNotFound {
			t.Errorf("Bob binds %s: %d %s", who, status, message)
		}
	}
	var exports v1alpha1.APIServiceExportList
	if err := s.admin.List(t.Context(), &exports, client.InNamespace(v1alpha1.TenantNamespace(s.bob.ID))); err != nil || len(exports.Items) > 0 {
		t.Errorf("Bob has %+v: %v", exports.Items, err)
	}
}

// commit makes a repository with one commit in an agent's or a person's name.
func (s *security) commit(t *testing.T, dir, user string, files map[string]string) {
	t.Helper()
	email := user + "@example.com"
	switch user {
	case "konnector":
		email = "konnector@" + contract.ClusterDomain(s.alice.ID)
	case "bridge":
		_, email = contract.BridgeIdentity()
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		if out, err := git(t, dir, "init", "-q"); err != nil {
			t.Fatal(out, err)
		}
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, content)
	}
	for _, args := range [][]string{{"add", "-A"}, {"-c", "user.name=" + user, "-c", "user.email=" + email, "commit", "-q", "-m", "x"}} {
		if out, err := git(t, dir, args...); err != nil {
			t.Fatal(out, err)
		}
	}
}

// clone clones Alice's repository as an agent of hers.
func (s *security) clone(t *testing.T, user, password string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "clone")
	if out, err := git(t, "", "clone", "-q", withCredential(s.alice.RepositoryURL, user, password), dir); err != nil {
		t.Fatal(out, err)
	}
	return dir
}

func (s *security) heads(t *testing.T) string {
	t.Helper()
	out, err := gitRemote(t, s.alice.RepositoryURL, "alice", s.tokens[env.Alice])
	if err != nil {
		t.Fatal(out, err)
	}
	return out
}

func (s *security) testKonnectorWrites(t *testing.T) {
	dir := s.clone(t, s.alice.Credential.Username, s.alice.Credential.Password)
	s.commit(t, dir, "konnector", map[string]string{"bindings/b/claims/team-a/x.yaml": "x\n"})
	if out, err := git(t, dir, "push", "-q", "origin", "HEAD:main"); err != nil {
		t.Fatalf("what is its own: %s", out)
	}
	before := s.heads(t)
	for ref, words := range map[string]string{
		"refs/heads/status": "only the bridge writes it",
		"refs/heads/other":  "can be pushed",
		"refs/tags/x":       "no tags",
		"refs/gitbind/x":    "can be pushed",
	} {
		if out, err := git(t, dir, "push", "origin", "HEAD:"+ref); err == nil || !strings.Contains(out, words) {
			t.Errorf("it writes %s: %v %s", ref, err, out)
		}
	}
	for _, args := range [][]string{{":refs/heads/main"}, {"--force", "HEAD~1:refs/heads/main"}} {
		if out, err := git(t, dir, append([]string{"push", "origin"}, args...)...); err == nil {
			t.Errorf("push %v: %s", args, out)
		}
	}
	s.commit(t, dir, "konnector", map[string]string{"README.md": "x\n"})
	if out, err := git(t, dir, "push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "below bindings/") {
		t.Errorf("a file outside bindings: %v %s", err, out)
	}
	if after := s.heads(t); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

func (s *security) testBridgeWrites(t *testing.T) {
	dir := s.clone(t, "bridge", s.aliceBridge)
	s.commit(t, dir, "bridge", map[string]string{"bindings/b/claims/team-a/x.yaml": "y\n"})
	if out, err := git(t, dir, "push", "-q", "--force", "origin", "HEAD:status"); err != nil {
		t.Fatalf("what is its own: %s", out)
	}
	before := s.heads(t)
	for ref, words := range map[string]string{
		"refs/heads/main":        "the bridge writes the branch status and nothing else",
		"refs/heads/changes/x":   "the bridge writes the branch status and nothing else",
		"refs/heads/conflicts/x": "the bridge writes the branch status and nothing else",
		"refs/heads/other":       "can be pushed",
		"refs/tags/x":            "no tags",
	} {
		if out, err := git(t, dir, "push", "--force", "origin", "HEAD:"+ref); err == nil || !strings.Contains(out, words) {
			t.Errorf("it writes %s: %v %s", ref, err, out)
		}
	}
	if after := s.heads(t); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// testPathTricks sends addresses as they are, with all that Bob has.
func (s *security) testPathTricks(t *testing.T) {
	a, b := s.alice.ID, s.bob.ID
	info := "/info/refs?service=git-upload-pack"
	for _, path := range []string{
		"/git/" + b + ".git/../" + a + ".git" + info, "/git/" + b + ".git/%2e%2e/" + a + ".git" + info, "/git/" + b + ".git%2f..%2f" + a + ".git" + info,
		"/git/..%2fgit%2f" + a + ".git" + info, "/git//" + a + ".git" + info, "/git/" + strings.ToUpper(a) + ".git" + info, "/GIT/" + a + ".git" + info,
		"/git/" + a + ".git%00" + info, "/git/./" + a + ".git" + info, "/git/" + b + ".git/objects/../../" + a + ".git" + info,
		"/git/" + a + "%2egit" + info, "/git/" + a + ".git/config", "/git/" + a + ".git/HEAD", "/git/%2e%2e/%2e%2e/etc/passwd",
		"/v1/clusters/" + b + "/../" + a + "/credential", "/v1/clusters/" + b + "%2f..%2f" + a + "/credential", "/v1/events?cluster=" + b + "/../" + a,
		"/v1/events?cluster=" + strings.ToUpper(a), "/clusters/" + b + "/../" + a, "/clusters/" + b + "%2f..%2f" + a, "/static/..%2f..%2fgo.mod",
	} {
		for what, with := range map[string]func(*http.Request){
			"konnector": func(r *http.Request) { r.SetBasicAuth(s.bob.Credential.Username, s.bob.Credential.Password) },
			"bridge":    func(r *http.Request) { r.SetBasicAuth("bridge", s.bobBridge) },
			"person":    func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.tokens[env.Bob]) },
		} {
			status, body := s.raw(t, path, with)
			// A browser's page sends who is not signed in to the sign-in.
			if status < 300 || strings.Contains(body, "refs/heads") || strings.Contains(body, "root:") {
				t.Errorf("%s as Bob's %s: %d %.200q", path, what, status, body)
			}
		}
	}
}

// raw asks for a path that no client has tidied up.
func (s *security) raw(t *testing.T, path string, with func(*http.Request)) (status int, body string) {
	t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	r.URL.Opaque = "//" + u.Host + path
	with(r)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, ""
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}

func (s *security) testTreeTricks(t *testing.T) {
	before := s.heads(t)
	for what, c := range map[string]struct{ folder, entry, words string }{
		"a parent folder":                {"bindings", "100644 blob BLOB\t..", "hasDotdot"},
		"this folder":                    {"bindings", "100644 blob BLOB\t.", "hasDot:"},
		"git's own folder":               {"bindings", "040000 tree TREE\t.git", "hasDotgit"},
		"git's own folder, another case": {"bindings", "040000 tree TREE\t.GIT", "hasDotgit"},
		"bindings, another case":         {"", "040000 tree TREE\tBindings", "below bindings/"},
		"bindings as a link":             {"", "120000 blob BLOB\tbindings", "below bindings/"},
		"a link beside bindings":         {"", "120000 blob BLOB\tlink", "below bindings/"},
		"a repository beside bindings":   {"", "160000 commit " + strings.Repeat("1", 40) + "\tmodule", "below bindings/"},
	} {
		dir := s.clone(t, s.alice.Credential.Username, s.alice.Credential.Password)
		run := func(stdin string, args ...string) string {
			t.Helper()
			out, err := gitWith(t, dir, stdin, args...)
			if err != nil {
				t.Fatalf("%s: git %v: %v %s", what, args, err, out)
			}
			return strings.TrimSpace(out)
		}
		// with is a folder's tree with one more entry, in the place of one of its name.
		with := func(folder, entry string) string {
			var lines []string
			for _, line := range strings.Split(run("", "ls-tree", "HEAD:"+folder), "\n") {
				if _, name, _ := strings.Cut(line, "\t"); !strings.HasSuffix(entry, "\t"+name) {
					lines = append(lines, line)
				}
			}
			return run(strings.Join(append(lines, entry), "\n")+"\n", "mktree", "--missing")
		}
		blob := run("/etc/passwd", "hash-object", "-w", "--stdin")
		tree := with(c.folder, strings.NewReplacer("BLOB", blob, "TREE", run("100644 blob "+blob+"\tx\n", "mktree")).Replace(c.entry))
		if c.folder != "" {
			tree = with("", "040000 tree "+tree+"\t"+c.folder)
		}
		email := "konnector@" + contract.ClusterDomain(s.alice.ID)
		commit := run("", "-c", "user.name=konnector", "-c", "user.email="+email, "commit-tree", tree, "-p", "HEAD", "-m", "x")
		if out, err := git(t, dir, "push", "origin", commit+":refs/heads/main"); err == nil || !strings.Contains(out, c.words) {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	if after := s.heads(t); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

func (s *security) testCredentialEnds(t *testing.T) {
	c := s.connect(t, env.Alice, "ends")
	if left := time.Until(c.Credential.Expires); left <= 0 || left > s.opts.credentialLifetime {
		t.Errorf("it ends in %s, of %s", left, s.opts.credentialLifetime)
	}
	u, err := url.Parse(c.RepositoryURL)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		t.Errorf("the repository's address is %s: %v", c.RepositoryURL, err)
	}
	// A credential in an address is no credential.
	for _, query := range []string{"access_token=" + s.tokens[env.Alice], "id_token=" + s.tokens[env.Alice], "token=" + s.tokens[env.Alice]} {
		if status := s.door(t, "", nil, "/v1/clusters?"+query); status != http.StatusUnauthorized {
			t.Errorf("%.12s…: %d", query, status)
		}
	}
}
