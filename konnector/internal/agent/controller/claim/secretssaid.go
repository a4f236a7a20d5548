package claim

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/konnector/internal/agent/delivery"
)

// deliveredSecret is one that is here, and since when it is as it is, in RFC 3339.
type deliveredSecret struct{ name, since string }

// secretsSaid is what a claim's status says of its Secrets.
type secretsSaid struct {
	// condition is nil where there is nothing to say.
	condition *condition
	delivered []deliveredSecret
	// sequence is that of the control plane's list which was taken last, 0 for none.
	sequence int64
}

func (s secretsSaid) find(name string) *deliveredSecret {
	for i := range s.delivered {
		if s.delivered[i].name == name {
			return &s.delivered[i]
		}
	}
	return nil
}

// status is status.gitbind.secrets.
func (s secretsSaid) status() []any {
	out := make([]any, len(s.delivered))
	for i, d := range s.delivered {
		item := map[string]any{"name": d.name}
		if d.since != "" {
			item["since"] = d.since
		}
		out[i] = item
	}
	return out
}

// secretsIn is what an object's status says.
func secretsIn(u *unstructured.Unstructured) (s secretsSaid) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "secrets")
	for _, e := range list {
		name, _ := objectOf(e)["name"].(string)
		since, _ := objectOf(e)["since"].(string)
		s.delivered = append(s.delivered, deliveredSecret{name, since})
	}
	s.sequence, _, _ = unstructured.NestedInt64(u.Object, "status", "gitbind", "secretsSequence")
	s.condition = conditionIn(u, conditionSecrets)
	return s
}

// since is when the control plane made a version of a Secret.
func since(sequence int64) string { return time.UnixMilli(sequence).UTC().Format(time.RFC3339) }

// sum makes the condition of what was delivered and what was not.
func (s *secretsSaid) sum(troubles []*delivery.Trouble) {
	slices.SortFunc(s.delivered, func(a, b deliveredSecret) int { return strings.Compare(a.name, b.name) })
	if len(troubles) == 0 {
		if len(s.delivered) > 0 {
			var names []string
			for _, d := range s.delivered {
				names = append(names, d.name)
			}
			s.condition = &condition{conditionSecrets, "True", "Delivered", "In this namespace: " + shortened(names) + "."}
		}
		return
	}
	all := make([]trouble, len(troubles))
	for i, t := range troubles {
		all[i] = trouble{t.Reason, t.Message}
	}
	reason, message := sumTroubles(all)
	s.condition = &condition{conditionSecrets, "False", reason, message}
}
