package clusterbinding

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

func TestTheBridgesCredentialIsReplacedInTimeAndWhenAskedFor(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) []byte { return []byte(now.Add(d).Format(time.RFC3339)) }
	for name, c := range map[string]struct {
		data     map[string][]byte
		asked    bool
		replaced bool
		// overlaps says that the one before counts for a while.
		overlaps bool
	}{
		"a young one":            {map[string][]byte{"password": []byte("old"), "expires": at(bridgeLeft + time.Minute)}, false, false, false},
		"one with a third left":  {map[string][]byte{"password": []byte("old"), "expires": at(bridgeLeft)}, false, true, true},
		"one that never expires": {map[string][]byte{"password": []byte("old")}, false, true, true},
		"asked for":              {map[string][]byte{"password": []byte("old"), "expires": at(bridgeLifetime)}, true, true, false},
		"asked for after a renewal": {
			map[string][]byte{"password": []byte("old"), "expires": at(bridgeLifetime), "previous-password": []byte("older"), "previous-expires": at(time.Minute)}, true, true, false,
		},
		"none": {nil, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.BridgeSecret}, Data: c.data}
			if c.asked {
				s.Annotations = map[string]string{v1alpha1.RotateAnnotation: "yes", "other": "kept"}
			}
			api := fakeapi.New(fakeapi.Builder().WithObjects(s))
			r := &Reconciler{Client: api, Live: api, Host: &tokens{}, Now: func() time.Time { return now }}
			if err := r.bridgeCredential(t.Context(), cluster()); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
				t.Fatal(err)
			}
			b := credential.ReadBridge(s.Data)
			if (b.Password != "old") != c.replaced {
				t.Errorf("replaced %v, want %v", b.Password != "old", c.replaced)
			}
			if c.replaced && !b.Expires.Equal(now.Add(bridgeLifetime)) {
				t.Errorf("expires %s", b.Expires)
			}
			if _, counts := b.Judge(credential.Hash("old"), now.Add(bridgeOverlap-time.Second)); counts != (c.overlaps || !c.replaced) {
				t.Errorf("the one before counts: %v", counts)
			}
			if _, counts := b.Judge(credential.Hash("older"), now); counts {
				t.Error("the one before the one before counts")
			}
			if _, still := s.Annotations[v1alpha1.RotateAnnotation]; still || c.asked && s.Annotations["other"] != "kept" {
				t.Errorf("annotations %v", s.Annotations)
			}
		})
	}
}
