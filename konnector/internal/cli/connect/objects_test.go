package connect

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/test/fakeapi"
)

// The konnector owns the keys that a renewal has changed, so that an apply without them leaves
// them there: after a move to the embedded host it would show that what opened the old one.
func TestANewCredentialLeavesNothingOfTheOneBefore(t *testing.T) {
	applies := 0
	api := fakeapi.New(fakeapi.Builder(), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			applies++
			return c.Apply(ctx, o, opts...)
		},
	})
	cluster := &appcluster.Cluster{WithWatch: api}
	ref := v1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-prod"}
	read := func() *corev1.Secret {
		t.Helper()
		var s corev1.Secret
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	expires := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	credential := restapi.Credential{Username: "konnector", Password: "first", Expires: expires, Git: &restapi.GitCredential{
		Username: "x-access-token", Password: "git-first", Expires: expires, RenewAfter: expires, RepositoryURL: "https://git.example.com/k3x.git",
	}}
	if line, err := ApplySecret(t.Context(), cluster, ref, &credential); err != nil || line != "secret/gitbind-prod in gitbind-system created" {
		t.Fatal(line, err)
	}
	if applies != 1 {
		t.Errorf("where there was no Secret, it was applied %d times", applies)
	}
	renewed := read()
	if at := string(renewed.Data["repository-url"]); at != "https://git.example.com/k3x.git" {
		t.Errorf("it is for the repository %q", at)
	}
	for key, value := range map[string]string{
		"password": "renewed", "previous-password": "first",
		"git-password": "git-renewed", "git-expires": "2026-11-21T13:00:00Z", "git-renew-after": "2026-11-21T12:40:00Z",
		"previous-git-username": "x-access-token", "previous-git-password": "git-first",
		"previous-git-expires": "2026-11-21T12:00:00Z", "previous-git-renew-after": "2026-11-21T12:00:00Z",
		"previous-repository-url": "https://git.example.com/k3x.git",
		"ssh-privatekey":          "somebody's own",
	} {
		renewed.Data[key] = []byte(value)
	}
	if err := api.Update(t.Context(), renewed, client.FieldOwner("konnector")); err != nil {
		t.Fatal(err)
	}
	credential = restapi.Credential{Username: "konnector", Password: "second", Expires: expires, RepositoryURL: "https://backend.example.com/git/k3x.git"}
	if line, err := ApplySecret(t.Context(), cluster, ref, &credential); err != nil || line != "secret/gitbind-prod in gitbind-system changed" {
		t.Fatal(line, err)
	}
	want := map[string][]byte{
		"username": []byte("konnector"), "password": []byte("second"), "expires": []byte("2026-11-21T12:00:00Z"), "ssh-privatekey": []byte("somebody's own"),
		"repository-url": []byte("https://backend.example.com/git/k3x.git"),
	}
	if diff := cmp.Diff(want, read().Data); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}
