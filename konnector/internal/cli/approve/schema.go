package approve

import (
	"context"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

const bindingKind = "APIServiceBinding"

var schemaHash = regexp.MustCompile(`^[0-9a-f]{10}$`)

// breakingChange is the reason of the condition Schema of a binding whose newer
// definition waits for an approval.
const breakingChange = "BreakingChange"

// schemas are the bindings for which a newer definition waits.
func (in Input) schemas(ctx context.Context) ([]*holder, error) {
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	var out []*holder
	for i := range bindings {
		b := &bindings[i]
		c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionSchema)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != breakingChange {
			continue
		}
		out = append(out, &holder{kind: bindingKind, Name: b.Name, Holder: bindingKind + " " + b.Name, Schema: c.Message, connection: b.Spec.Connection})
	}
	return out, nil
}

// awaits says that it is this very definition that waits: the message names it.
func (h *holder) awaits(hash string) bool {
	return hash != "" && strings.Contains(h.Schema, v1alpha1.ApproveSchemaAnnotation+"="+hash)
}

// doneFor reports whether the konnector has installed the definition.
func doneFor(u *unstructured.Unstructured) bool {
	c := appcluster.Condition(u, v1alpha1.ConditionSchema)
	return c != nil && c.Status == metav1.ConditionTrue
}
