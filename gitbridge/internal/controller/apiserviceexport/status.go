package apiserviceexport

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/status"
)

// part is what the bridge says of an export, beside Permitted: see package request.
var part = status.Part{Owner: tenant.StatusOwner, Fields: []string{"crd", "metadataKeys", "inputs", "changes", "policies", "offer"}, Conditions: []string{v1alpha1.ConditionPublished}}

// usage is a part of its own: it is another one with each claim.
var usage = status.Part{Owner: tenant.StatusOwner + "-quota", Fields: []string{"quota"}}

// SayUsage writes how much of its quota an export uses, nil for no quota, if that is news.
func (r *Reconciler) SayUsage(ctx context.Context, namespace, name string, u *v1alpha1.QuotaUsage) error {
	var e v1alpha1.APIServiceExport
	if err := r.Server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &e); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := e.DeepCopy()
	want.Status.Quota = u
	return usage.Write(ctx, r.Client, &e, want)
}

// isOnlyUsage reports whether an update says nothing but that.
func isOnlyUsage(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*v1alpha1.APIServiceExport)
	is, too := e.ObjectNew.(*v1alpha1.APIServiceExport)
	if !ok || !too || equality.Semantic.DeepEqual(was.Status.Quota, is.Status.Quota) {
		return false
	}
	was, is = was.DeepCopy(), is.DeepCopy()
	was.Status.Quota, is.Status.Quota, was.ResourceVersion, is.ResourceVersion = nil, nil, "", ""
	return equality.Semantic.DeepEqual(was, is)
}

// say writes the bridge's fields of an export's status, if they say something
// else than before. Without a definition the present snapshot stays.
func (r *Reconciler) say(ctx context.Context, e *v1alpha1.APIServiceExport, api exportedapi.API, condition metav1.Condition) error {
	want := e.DeepCopy()
	if d := api.Definition; d != nil {
		want.Status.MetadataKeys, want.Status.Inputs = api.Keys, v1alpha1.DirectionUp.Of(api.PermissionClaims)
		want.Status.Offer, want.Status.Changes = api.Offer, api.Changes
		if !slices.EqualFunc(api.PolicyObjects, e.Status.Policies, func(a, b runtime.RawExtension) bool { return equal(&a, &b) }) {
			want.Status.Policies = api.PolicyObjects
		}
		if !equal(d.Snapshot, e.Status.CRD) {
			want.Status.CRD = d.Snapshot
		}
	}
	condition.Type = v1alpha1.ConditionPublished
	status.Set(want, condition, time.Now())
	return part.Write(ctx, r.Client, e, want)
}

func equal(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y any
	return json.Unmarshal(a.Raw, &x) == nil && json.Unmarshal(b.Raw, &y) == nil && reflect.DeepEqual(x, y)
}
