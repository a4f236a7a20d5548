package doctor

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
	"gitbind.dev/test/githost"
)

func TestABrokenLinkHidesNoneButThoseThatHangOnIt(t *testing.T) {
	says := func(f Finding) func(context.Context) Finding { return func(context.Context) Finding { return f } }
	found := examine(t.Context(), "connection/a", []link{
		{"first", nil, says(ok("it is there"))},
		{"second", []string{"first", "cluster"}, says(fail("mend it", "it is\nbroken"))},
		{"third", []string{"second"}, says(ok("never looked at"))},
		{"fourth", []string{"third"}, says(ok("never looked at"))},
		{"fifth", []string{"first"}, says(warn("look out", "it is old"))},
		{"sixth", []string{"fifth"}, says(ok("a warning stops nothing"))},
	}, map[string]State{"cluster": Warn})
	var got bytes.Buffer
	if err := show(terminal.Open(nil, &got), output.Table, found); err != nil {
		t.Fatal(err)
	}
	const want = `connection/a:
ok       first   it is there
fail     second  it is broken
         do: mend it
skipped  third   not looked at: second comes first
skipped  fourth  not looked at: third comes first
warn     fifth   it is old
         do: look out
ok       sixth   a warning stops nothing
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a script cannot break in a running backend is broken here.
func TestALinkToTheBackendThatIsBroken(t *testing.T) {
	issuer := "http://127.0.0.1:1/dex"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/info":
			_, _ = w.Write([]byte(`{"version": "v1", "issuer": "` + issuer + `", "clientID": "gitbind"}`))
		default:
			http.Error(w, "no", http.StatusForbidden)
		}
	}))
	defer server.Close()
	c := &connection{
		patient:    &patient{Input: Input{HTTP: server.Client(), Call: command.Call{Now: time.Now}}},
		Connection: v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{BackendURL: server.URL, ClusterID: "a"}},
	}
	if f := c.backend(t.Context()); f.State != OK {
		t.Errorf("backend: %+v", f)
	}
	if f := c.openID(t.Context()); f.State != Fail || !strings.Contains(f.Message, "127.0.0.1:1") || f.Do == "" {
		t.Errorf("an issuer that is gone: %+v", f)
	}
	if f := c.events(t.Context()); f.State != Fail || f.Do == "" {
		t.Errorf("events that are refused: %+v", f)
	}
	c.Spec.CABundle = []byte("no certificate")
	if f := c.backend(t.Context()); f.State != Fail || !strings.Contains(f.Message, "CA bundle") {
		t.Errorf("a bundle that is none: %+v", f)
	}
	c.Spec.BackendURL = ""
	if f := c.backend(t.Context()); f.State != Warn {
		t.Errorf("no backend: %+v", f)
	}
}

func TestARepositoryOverSSHIsReadWithTheKeyOfTheSecret(t *testing.T) {
	dir := t.TempDir()
	if out, err := githost.Command("", "init", "-q", "--bare", filepath.Join(dir, "a.git")).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	host, privateKey := githost.NewSSH(t, dir)
	url := "ssh://git@" + host.Address + "/a.git"
	ref := v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "a"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	look := func(data map[string][]byte) (inSecret, inUse Finding) {
		secret.Data = data
		api := fakeapi.New(fakeapi.Builder().WithObjects(secret))
		c := &connection{
			patient:    &patient{Input: Input{HTTP: http.DefaultClient, Call: command.Call{Now: time.Now}}, cluster: &appcluster.Cluster{WithWatch: api}},
			Connection: v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{RepositoryURL: url, SecretRef: ref}},
		}
		inSecret = c.lookAtSecret(t.Context())
		for _, f := range []Finding{c.dns(t.Context()), c.tcp(t.Context()), c.tls(t.Context())} {
			if f.State != OK {
				t.Errorf("%+v", f)
			}
		}
		return inSecret, c.credential(t.Context())
	}
	if f, _ := look(map[string][]byte{"ssh-privatekey": privateKey}); f.State != Fail || !strings.Contains(f.Message, "known_hosts") {
		t.Errorf("no known_hosts: %+v", f)
	}
	if _, f := look(map[string][]byte{"ssh-privatekey": privateKey, "known_hosts": []byte("# none")}); f.State != Fail || !strings.Contains(f.Message, "ssh-keyscan") {
		t.Errorf("an unknown host: %+v", f)
	}
	if inSecret, inUse := look(map[string][]byte{"ssh-privatekey": privateKey, "known_hosts": host.KnownHosts()}); inSecret.State != OK || inUse.State != OK {
		t.Errorf("%+v, %+v", inSecret, inUse)
	}
}

func TestAKonnectorThatIsNotRolledOut(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: appcluster.KonnectorLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("konnector-of-before"), RenewTime: &metav1.MicroTime{Time: now}},
	}
	for _, c := range []struct {
		what   string
		status appsv1.DeploymentStatus
		want   Finding
	}{
		{"a new pod does not start", appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2, UnavailableReplicas: 1}, Finding{
			State: Warn, Do: "kubectl describe pods -n gitbind-system",
			Message: "one is in charge, but that of the image registry.example.com/gitbind-konnector:v2 is not rolled out: the one before it goes on",
		}},
		{"it is rolled out", appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, ok("in charge")},
	} {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: "konnector"}, Status: c.status}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.example.com/gitbind-konnector:v2"}}
		api := fakeapi.New(fakeapi.Builder().WithObjects(lease, deployment))
		p := &patient{Input: Input{Call: command.Call{Now: func() time.Time { return now }}}, cluster: &appcluster.Cluster{WithWatch: api}}
		if diff := cmp.Diff(c.want, p.konnector(t.Context())); diff != "" {
			t.Errorf("%s: (-want +got) %s", c.what, diff)
		}
	}
}

func TestMainThatIsNotThere(t *testing.T) {
	c := &connection{main: &store.Snapshot{}}
	if f := c.readMain(t.Context()); f.State != Fail || f.Do == "" {
		t.Errorf("%+v", f)
	}
}

func TestABindingThatIsBeingUnbound(t *testing.T) {
	now := metav1.Now()
	b := &binding{APIServiceBinding: v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: "a.b", DeletionTimestamp: &now}}}
	b.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "ClaimsExist", Message: "2 claims"}}
	if f := b.condition(t.Context()); f.State != Warn || !strings.Contains(f.Message, "2 claims (ClaimsExist)") {
		t.Errorf("%+v", f)
	}
}

// The cluster was moved to another host, its credential was rotated, and nobody has connected it again.
func TestACredentialForAnotherHostIsShownToNobody(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer host.Close()
	c := &connection{
		patient:    &patient{Input: Input{HTTP: host.Client(), Call: command.Call{Now: time.Now}}},
		Connection: v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{BackendURL: "https://backend.example.org", RepositoryURL: host.URL + "/k3x.git"}},
		secret: corev1.Secret{Data: map[string][]byte{
			"username": []byte("konnector"), "password": []byte("x"), "repository-url": []byte("https://backend.example.org/git/k3x.git"),
		}},
	}
	want := Finding{State: Fail, Do: "kubectl gitbind connect URL", Message: "it is for https://backend.example.org/git/k3x.git, and the Connection names a repository on another host"}
	if diff := cmp.Diff(want, c.credential(t.Context())); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}
