package connection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// TestASecretWakesTheConnectionsThatNameIt counts the namespace, too.
func TestASecretWakesTheConnectionsThatNameIt(t *testing.T) {
	all := fakeapi.New(fakeapi.Builder())
	for _, c := range []struct{ name, namespace, secret string }{
		{"same", "gitbind-system", "s"}, {"elsewhere", "team-a", "s"}, {"another", "gitbind-system", "other"},
	} {
		if err := all.Create(t.Context(), &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: v1alpha1.ConnectionSpec{
			SecretRef: v1alpha1.SecretReference{Namespace: c.namespace, Name: c.secret},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		namespace, secret string
		want              []string
	}{
		{"gitbind-system", "s", []string{"same"}},
		{"team-a", "s", []string{"elsewhere"}},
		{"gitbind-system", "other", []string{"another"}},
		{"team-a", "other", nil},
	} {
		var woken []string
		for _, r := range WithSecret(all)(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.secret}}) {
			woken = append(woken, r.Name)
		}
		if slices.Sort(woken); !slices.Equal(woken, tc.want) {
			t.Errorf("%s/%s wakes %v, want %v", tc.namespace, tc.secret, woken, tc.want)
		}
	}
}
