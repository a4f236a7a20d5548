package claim

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// A field manager is any name that who writes chooses: with the konnector's, a label would pass
// for what a webhook made of the konnector's own write, and be committed with the next person's
// change, in that person's name.
func TestAChangeUnderTheKonnectorsNameIsItsAuthors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		changedBy string
		proposed  bool
		review    bool
		want      decision.Action
	}{
		{name: "who changed it is written down", changedBy: "mallory", want: decision.Commit},
		{name: "it is to be reviewed", changedBy: "mallory", review: true, want: decision.Propose},
		{name: "it is proposed", proposed: true, review: true, want: decision.AwaitReview},
		// As of a webhook that stamped the konnector's own write.
		{name: "nobody is written down", want: decision.Nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t)
			w.agreed()
			api := w.r.api()
			api.Review = c.review
			api.Repository.Remote.Verdict = func(context.Context, string, string) (decision.Verdict, error) {
				return decision.Verdict{State: decision.VerdictOpen}, nil
			}
			u := w.object()
			u.SetLabels(map[string]string{"tier": "a"})
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: string(fieldOwner), Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:tier":{}}}}`)},
			}})
			annotations := u.GetAnnotations()
			if c.changedBy != "" {
				annotations[v1alpha1.ChangedByAnnotation] = c.changedBy
			}
			if c.proposed {
				data, err := contract.Encode(contract.FromObject(u))
				if err != nil {
					t.Fatal(err)
				}
				file, _ := w.main.Snapshot().Entry(key.Path())
				said, err := json.Marshal(proposal{UID: "u1", Commit: "c1", Blob: string(store.BlobHash(data)), Main: string(file.Hash), Users: []string{"mallory"}})
				if err != nil {
					t.Fatal(err)
				}
				annotations[v1alpha1.ProposalAnnotation] = string(said)
			}
			u.SetAnnotations(annotations)
			l, err := w.r.look(t.Context(), key, input{Reader: w.server, object: u})
			if err != nil || l.decision.Action != c.want {
				t.Fatalf("%+v, %v; want %s", l.decision, err, c.want)
			}
			if users := authorsOf(u); c.want != decision.Nothing && !slices.Equal(users, []string{"mallory"}) {
				t.Errorf("it is %v's", users)
			}
		})
	}
}
