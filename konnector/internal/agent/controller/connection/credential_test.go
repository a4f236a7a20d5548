package connection

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
)

func TestASecretMustHaveWhatItsConnectionNeeds(t *testing.T) {
	t.Parallel()
	const https, ssh, backend = "https://git.example.org/a.git", "ssh://git@git.example.org/a.git", "https://backend.example.org"
	for name, c := range map[string]struct {
		repository, backend string
		keys                string
		lacks               string
	}{
		"a password, for https":                         {https, backend, "username password", ""},
		"no password, for https":                        {https, "", "username ssh-privatekey known_hosts", "username or password"},
		"a key, for ssh alone":                          {ssh, "", "ssh-privatekey known_hosts", ""},
		"no known hosts, for ssh":                       {ssh, "", "ssh-privatekey username password", "ssh-privatekey or known_hosts"},
		"a key alone, for ssh beside a backend":         {ssh, backend, "ssh-privatekey known_hosts", "username or password"},
		"a key and a password, for ssh and the backend": {ssh, backend, "ssh-privatekey known_hosts username password", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "c"}, Data: map[string][]byte{}}
			for key := range strings.FieldsSeq(c.keys) {
				secret.Data[key] = []byte("x")
			}
			r := &Reconciler{Client: fakeapi.New(fakeapi.Builder().WithObjects(secret)), Namespace: "gitbind-system"}
			_, problem, err := r.credential(t.Context(), &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{
				RepositoryURL: c.repository, BackendURL: c.backend, SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "c"},
			}})
			switch {
			case err != nil:
				t.Fatal(err)
			case problem == nil && c.lacks != "", problem != nil && (c.lacks == "" || problem.reason != "SecretInvalid" || !strings.Contains(problem.message, c.lacks)):
				t.Errorf("got %+v", problem)
			}
		})
	}
}

// After a move, the Connection names the host that was left until its owner has connected the
// cluster again; who rotates the credential meanwhile has one that is not for that host.
func TestACredentialIsShownOnlyToTheHostOfItsRepository(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys, shown string
		// within has the host be the backend.
		within bool
	}{
		"of this repository":                           {"git-username git-password repository-url=HOST/git/a.git", "git-username git-password", false},
		"of this repository, which is on the backend":  {"repository-url=HOST/git/a.git", "username password", true},
		"of another repository of this host":           {"git-username git-password repository-url=HOST/git/b.git", "git-username git-password", false},
		"of the next host":                             {"git-username git-password repository-url=https://git.example.org/a.git", "", false},
		"of the backend":                               {"repository-url=https://backend.example.org/git/a.git", "", false},
		"of the backend, by another one of its names":  {"repository-url=https://backend.example.org/git/a.git", "username password", true},
		"of an older plugin":                           {"git-username git-password", "git-username git-password", false},
		"of an older plugin, which is for the backend": {"", "username password", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := make(chan string, 100)
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user, password, _ := r.BasicAuth()
				shown <- user + " " + password
				w.WriteHeader(http.StatusForbidden)
			}))
			t.Cleanup(host.Close)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "c"}, Data: map[string][]byte{}}
			for key := range strings.FieldsSeq("username password " + c.keys) {
				key, value, _ := strings.Cut(key, "=")
				if value == "" {
					value = key
				}
				secret.Data[key] = []byte(strings.ReplaceAll(value, "HOST", host.URL))
			}
			conn := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c1"}, Spec: v1alpha1.ConnectionSpec{
				RepositoryURL: host.URL + "/git/a.git", ClusterID: "a", SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "c"},
			}}
			if c.within {
				conn.Spec.BackendURL = host.URL
			}
			api := fakeapi.New(fakeapi.Builder().WithObjects(secret, conn))
			r := &Reconciler{Client: api, Live: api, Pool: repository.NewPool(), Namespace: "gitbind-system", Now: time.Now}
			t.Cleanup(func() { r.close(conn.Name) })
			cred, problem, err := r.credential(t.Context(), conn)
			if problem != nil || err != nil {
				t.Fatal(problem, err)
			}
			if problem, err := r.connected.ensure(t.Context(), r, conn, *cred, nil); problem != nil || err != nil {
				t.Fatal(problem, err)
			}
			_, err = r.Pool.Get(conn.Name).Remote.Main.Fetch(t.Context())
			if reason, message := repository.Explain(err); reason != repository.ReasonCredentialRefused || strings.Contains(message, "on another host") != (c.shown == "") {
				t.Errorf("%v is explained as %s: %s", err, reason, message)
			}
			r.close(conn.Name)
			for len(shown) > 0 {
				if got := <-shown; got != c.shown {
					t.Errorf("it was shown %q", got)
				}
			}
		})
	}
}
