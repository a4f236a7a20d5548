package bind

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
)

// probeAnnotation can be on no object: an API server refuses it, unless the
// attribution policy has dropped it before.
const probeAnnotation = "gitbind.dev/-"

// policyWithin is how long an API server may take to learn of a new kind and a new
// policy. It looks every five seconds, which takes longer where it is busy, and until
// then refuses requests that create an object of the kind.
const policyWithin = 2 * time.Minute

// waitForPolicy waits until changes are attributed to their users, so that what
// the person applies next is neither refused nor anonymous.
func (in Input) waitForPolicy(ctx context.Context, offer restapi.Offer, say func(string)) error {
	gvk := schema.GroupVersionKind{Group: offer.API.Group, Version: offer.API.Version, Kind: offer.Kind}
	began := false
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, policyWithin, true, func(ctx context.Context) (bool, error) {
		active := attributes(in.Cluster.Create(ctx, probe(gvk), client.DryRunAll))
		if !active && !began {
			say("waiting until the API server attributes changes")
			began = true
		}
		return active, nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the API server does not attribute changes after %s: see the MutatingAdmissionPolicy gitbind-attribution", policyWithin)
	}
	return nil
}

// attributes reads from the answer to a probe whether the policy works. Any
// refusal but the two of a policy that does not work yet is for other reasons:
// admission comes first.
func attributes(err error) bool {
	if apierrors.IsServiceUnavailable(err) {
		return false
	}
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // The client does not wrap it.
	if !ok || status.Status().Details == nil {
		return true
	}
	return !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.annotations" })
}

func probe(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName("gitbind-probe")
	u.SetAnnotations(map[string]string{probeAnnotation: ""})
	return u
}
