package approve

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

const (
	hash  = "4f1c2b3a9d8e7f60514233445566778899aabbcc"
	path  = "bindings/databases.example.com/claims/team-a/orders.yaml"
	other = "bindings/databases.example.com/claims/team-a/stock.yaml"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		a  Approval
		ok bool
	}{
		{Approval{Main: hash, Removals: hash, RecreateEmpty: []string{path}}, true},
		{Approval{Main: "none"}, true},
		{Approval{Main: "4f1c2b3a"}, false},
		{Approval{Main: "main"}, false},
		{Approval{Removals: "none"}, false},
		{Approval{Removals: strings.ToUpper(hash)}, false},
		{Approval{RecreateEmpty: []string{"bindings/databases.example.com/"}}, true},
		{Approval{RecreateEmpty: []string{"team-a/orders"}}, false},
		{Approval{RecreateEmpty: []string{"bindings/../x"}}, false},
		{Approval{RecreateEmpty: []string{"bindings/databases.example.com/claims/team-a/a,b.yaml"}}, false},
	} {
		if err := check(c.a); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.a, err)
		}
	}
}

func TestAnApprovalIsForOneRepository(t *testing.T) {
	rewritten := func(kind, name string) *holder { return &holder{kind: kind, Name: name, Main: "main was rewritten"} }
	lost := func(name string) *holder {
		return &holder{kind: "ClusterBinding", Name: name, Lost: []Item{{Path: path}}}
	}
	all := func(name string) *holder {
		return &holder{kind: "ClusterBinding", Name: name, AllLost: "many are missing", applied: []string{path, other}}
	}
	fine := &holder{kind: "Connection", Name: "fine"}
	for _, c := range []struct {
		what      string
		a         Approval
		all       []*holder
		want, err string
	}{
		{"the one that waits", Approval{Main: hash}, []*holder{fine, rewritten("Connection", "a")}, "a", ""},
		{"both sides on one cluster", Approval{Main: hash}, []*holder{rewritten("Connection", "a"), rewritten("ClusterBinding", "b")}, "a b", ""},
		{"nothing waits", Approval{Main: hash}, []*holder{fine}, "", "nothing waits for that"},
		{"something else waits", Approval{Removals: hash}, []*holder{rewritten("Connection", "a")}, "", "nothing waits for that"},
		{"two wait", Approval{Main: hash}, []*holder{rewritten("ClusterBinding", "a"), rewritten("ClusterBinding", "b")}, "", "choose one with --cluster"},
		{"lost", Approval{RecreateEmpty: []string{path}}, []*holder{lost("a")}, "a", ""},
		{"the same path lost in two clusters", Approval{RecreateEmpty: []string{path}}, []*holder{lost("a"), lost("b")}, "", "choose one with --cluster"},
		{"all lost, by folder", Approval{RecreateEmpty: []string{"bindings/databases.example.com"}}, []*holder{all("a")}, "a", ""},
		{"what cannot be seen", Approval{RecreateEmpty: []string{path}}, []*holder{fine, {kind: "ClusterBinding", Name: "a", Note: "no host"}}, "", "nothing that could be seen waits for that: : no host"},
		{"a path that is not lost", Approval{RecreateEmpty: []string{other}}, []*holder{lost("a")}, "", "nothing waits for that"},
	} {
		got, err := Input{Approval: c.a}.choose(c.all)
		var names []string
		for _, g := range got {
			names = append(names, g.Name)
		}
		switch {
		case c.err == "" && (err != nil || strings.Join(names, " ") != c.want):
			t.Errorf("%s: %v, %v", c.what, names, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, %v", c.what, names, err)
		}
	}
}

func TestTheGitHostOfAControlPlaneMayHaveAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	secret := map[string][]byte{corev1.BasicAuthUsernameKey: []byte("bridge"), corev1.BasicAuthPasswordKey: []byte("any")}
	read := func(bundle []byte) error {
		_, _, err := Input{CABundle: bundle}.read(t.Context(), server.URL+"/git/k3x9d2abqw.git", secret)
		return withAdvice(err)
	}
	if err := read(nil); err == nil || !strings.Contains(err.Error(), "--ca-file FILE") {
		t.Errorf("it is not trusted: %v", err)
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := read(trusted); !errors.Is(err, store.ErrRepositoryNotFound) || strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("it is trusted, and has no such repository: %v", err)
	}
}

// TestTheBridgesCredentialIsShownToNoOtherHost has one of the host to which a repository moves.
func TestTheBridgesCredentialIsShownToNoOtherHost(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{"": "secret", "HOST/git/k3x9d2abqw.git": "secret", "https://next.example.com/k3x9d2abqw.git": ""} {
		shown := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, shown, _ = r.BasicAuth()
			w.WriteHeader(http.StatusForbidden)
		}))
		secret := map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte("bridge"), corev1.BasicAuthPasswordKey: []byte("secret"),
			v1alpha1.RepositoryURLKey: []byte(strings.Replace(at, "HOST", server.URL, 1)),
		}
		_, _, err := Input{}.read(t.Context(), server.URL+"/git/k3x9d2abqw.git", secret)
		server.Close()
		if err == nil || shown != want {
			t.Errorf("of %q, the host was shown %q: %v", at, shown, err)
		}
	}
}

func TestWhatIsDeletedOrEmptiedIsShownByName(t *testing.T) {
	h := &holder{
		kind: "ClusterBinding", Holder: "Cluster a (prod)", RemovalsHeld: true,
		Removals: []Item{{Claim: "team-a/orders (databases.example.com)", Path: path}}, Lost: []Item{{Path: other}},
	}
	c := Input{Approval: Approval{Removals: hash, RecreateEmpty: []string{other}}}.of(h)
	var out bytes.Buffer
	c.show(&out)
	const want = `Cluster a (prod):
  These services are DELETED, as far as their removal is in that commit:
    team-a/orders (databases.example.com)
  These services are recreated, EMPTY, where they are missing:
    bindings/databases.example.com/claims/team-a/stock.yaml
`
	if out.String() != want {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestDone(t *testing.T) {
	removals := chosen{annotations: map[string]string{v1alpha1.ApproveRemovalsAnnotation: hash}, holder: &holder{}}
	connection := func(approved map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"approved": approved}}}
	}
	if removals.doneIn(connection(nil)) || removals.doneIn(connection(map[string]any{"main": hash, "removals": "other"})) ||
		!removals.doneIn(connection(map[string]any{"removals": hash})) {
		t.Error("removals of a Connection")
	}
	on := func(annotations map[string]string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAnnotations(annotations)
		return u
	}
	both := chosen{annotations: map[string]string{v1alpha1.ApproveMainAnnotation: hash, recreateAnnotation: path}, holder: &holder{}}
	both.recreate = []string{path}
	if both.doneOn(on(both.annotations)) || both.doneOn(on(map[string]string{recreateAnnotation: path})) || !both.doneOn(on(nil)) {
		t.Error("an approval of a ClusterBinding")
	}
	folder := chosen{annotations: map[string]string{recreateAnnotation: other}, holder: &holder{}, recreate: []string{"bindings/databases.example.com/"}}
	of := "bindings/databases.example.com"
	for left, want := range map[string]bool{of: false, path: false, "bindings/caches.example.com," + path: false, "bindings/caches.example.com": true} {
		if got := folder.doneOn(on(map[string]string{recreateAnnotation: left})); got != want {
			t.Errorf("of the folder, %q is left: done is %t", left, got)
		}
	}
}

// The bridge acts on what the annotation says, and takes it away.
func TestAnApprovalThatAnotherReplacedIsNotCalledActedOn(t *testing.T) {
	const earlier, another = "0000000000000000000000000000000000000000", "1111111111111111111111111111111111111111"
	for _, annotation := range []string{v1alpha1.ApproveMainAnnotation, v1alpha1.ApproveRemovalsAnnotation} {
		for name, c := range map[string]struct {
			// values are what is seen of the annotation, from the version before the one written on.
			values  []string
			done    bool
			instead string
		}{
			"as it was before":     {[]string{earlier}, false, ""},
			"before it was there":  {[]string{""}, false, ""},
			"it waits":             {[]string{earlier, hash, hash}, false, ""},
			"it alone":             {[]string{earlier, hash, ""}, true, ""},
			"another one":          {[]string{"", hash, another, ""}, true, another},
			"another one, at once": {[]string{"", another}, true, another},
		} {
			approved := chosen{annotations: map[string]string{annotation: hash}, holder: &holder{kind: "ClusterBinding"}}
			var instead string
			done, is := false, approved.until("7", &instead)
			for i, value := range c.values {
				u := &unstructured.Unstructured{}
				u.SetResourceVersion(strconv.Itoa(6 + i))
				u.SetAnnotations(map[string]string{annotation: value})
				if done, _ = is(u); done {
					break
				}
			}
			if done != c.done || instead != c.instead {
				t.Errorf("%s of %s: done is %t, another one is %q", name, annotation, done, instead)
			}
		}
	}
}

// What is left of an earlier approval may wait for long, such as for a file to be mended.
func TestAnApprovalLeavesAnEarlierOneThatWaits(t *testing.T) {
	for earlier, want := range map[string]string{
		"": path, path: path, other: path + "," + other, other + "\n" + path + ", ": path + "," + other,
	} {
		if got := joined(earlier, []string{path}); got != want {
			t.Errorf("%q with the new one is %q, want %q", earlier, got, want)
		}
	}
	c := chosen{annotations: map[string]string{recreateAnnotation: path}, holder: &holder{}, recreate: []string{path}}
	u := &unstructured.Unstructured{}
	u.SetAnnotations(map[string]string{recreateAnnotation: other})
	if !c.doneOn(u) {
		t.Error("it waits for what was approved before")
	}
}

// The bridge takes another text of the annotation for another approval, which replaces the one
// before it.
func TestTwoApprovalsAtTheSameTimeBothCount(t *testing.T) {
	t.Parallel()
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw"}}
	others := 3
	api := fakeapi.New(fakeapi.Builder().WithObjects(cb), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if others--; others >= 0 {
				var now v1alpha1.ClusterBinding
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), &now); err != nil {
					return err
				}
				now.Annotations = map[string]string{recreateAnnotation: joined(now.Annotations[recreateAnnotation], []string{other + strings.Repeat("x", others)})}
				if err := c.Update(ctx, &now); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	var in Input
	in.Cluster, in.Terminal = &appcluster.Cluster{WithWatch: api}, terminal.Open(nil, &bytes.Buffer{})
	in.RecreateEmpty = []string{path}
	if err := in.approve(t.Context(), in.of(&holder{kind: "ClusterBinding", Name: cb.Name, Lost: []Item{{Path: path}}})); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(cb), cb); err != nil {
		t.Fatal(err)
	}
	if got, want := cb.Annotations[recreateAnnotation], strings.Join([]string{path, other, other + "x", other + "xx"}, ","); got != want {
		t.Errorf("approved is %q, want %q", got, want)
	}
}

func TestAnEarlierApprovalIsWithdrawnThoughTheStatusIsWritten(t *testing.T) {
	t.Parallel()
	connection := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "prod", Annotations: map[string]string{v1alpha1.ApproveMainAnnotation: hash}}}
	connection.Status.Approved = &v1alpha1.Approvals{Main: hash}
	ctx, cancel := context.WithCancel(t.Context())
	api := fakeapi.New(fakeapi.Builder().WithObjects(connection).WithStatusSubresource(connection), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			defer cancel() // No konnector will act on it.
			var now v1alpha1.Connection
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), &now); err != nil {
				return err
			}
			now.Status.AcceptedCommit = hash
			if err := c.Status().Update(ctx, &now); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	var in Input
	in.Cluster = &appcluster.Cluster{WithWatch: api}
	in.Main = hash
	if err := in.withdraw(ctx, in.of(&holder{kind: "Connection", Name: "prod", Main: "main was rewritten"})); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(connection), connection); err != nil || len(connection.Annotations) > 0 {
		t.Errorf("there is still %v: %v", connection.Annotations, err)
	}
}

func TestAControlPlaneWithoutClustersHasAnEmptyList(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := Input{Format: output.JSON}
	in.Cluster = &appcluster.Cluster{WithWatch: fakeapi.New(fakeapi.Builder())}
	in.Terminal = terminal.Open(nil, &out)
	if err := Do(t.Context(), in); err != nil || strings.Join(strings.Fields(out.String()), "") != `{"holders":[]}` {
		t.Errorf("got %s, %v", out.String(), err)
	}
}
