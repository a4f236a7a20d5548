package apiservicebinding

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/request"
)

// When request.yaml has gone with Orphan, the control plane lets go of the services, and nothing
// would answer claims that are deleted or kept in step.
func TestOrphanCountsOnceTheRequestIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, is contract.DeletionPolicy
		// held says that the control plane keeps the API.
		held bool
		want request.Action
	}{
		{contract.Orphan, contract.Orphan, false, request.LetGo},
		{contract.Orphan, contract.Delete, false, request.LetGo},
		{contract.Orphan, contract.Refuse, false, request.LetGo},
		{contract.Orphan, contract.Delete, true, request.DeleteClaims},
		{contract.Orphan, contract.Refuse, true, request.KeepOn},
		{contract.Refuse, contract.Delete, false, request.DeleteClaims},
	} {
		t.Run(fmt.Sprintf("%s, %s since, held %v", c.was, c.is, c.held), func(t *testing.T) {
			w := newWorld(t)
			w.binding.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(c.is)
			w.adopted()
			w.put("main", map[string]string{"README.md": "x"})
			files := map[string]string{"README.md": "x"}
			if c.held {
				data, err := contract.EncodeStatus(&contract.Status{Metadata: contract.StatusMeta{Name: binding}, Result: contract.Held})
				if err != nil {
					t.Fatal(err)
				}
				files[contract.RequestPath(binding)] = string(data)
			}
			w.put("status", files)
			w.look()
			w.objects = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c0", Finalizers: []string{v1alpha1.Finalizer}}}}
			w.binding.DeletionTimestamp = new(metav1.Now())
			w.binding.Status.Request = &v1alpha1.RequestStatus{ConnectionUID: "c1", DeletionPolicy: v1alpha1.DeletionPolicy(c.was), Removed: true}
			l, err := w.lookAt(t.Context(), w.binding)
			if err != nil || l.action != c.want {
				t.Fatalf("%s, %v, want %s", l.action, err, c.want)
			}
			tooLate := c.want == request.LetGo && c.is != contract.Orphan
			if m := l.waitsFor().message; strings.Contains(m, "counts no more") != tooLate {
				t.Errorf("it says %q", m)
			}
		})
	}
}
