package connection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"gitbind.dev/gitbridge/api/v1alpha1"
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
			r := &Reconciler{Client: fakeapi.New(fakeapi.Builder().WithScheme(scheme.Scheme).WithObjects(secret)), Namespace: "gitbind-system"}
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
