package apiservicebinding

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/request"
	"gitbind.dev/test/fakeapi"
)

// Kubernetes deletes each binding when the definition of bindings is deleted, and what
// has owners when these are gone. Only a person's delete approves removals.
func TestL2_OnlyAPersonsDeleteApprovesRemovals(t *testing.T) {
	t.Parallel()
	deleted := time.Now().Truncate(time.Second)
	for name, tc := range map[string]struct {
		change func(*metav1.ObjectMeta, *v1alpha1.APIServiceBinding, *look)
		want   bool
	}{
		"a person":                    {func(*metav1.ObjectMeta, *v1alpha1.APIServiceBinding, *look) {}, true},
		"the file went":               {func(_ *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, l *look) { l.file = nil }, false},
		"the file went and came back": {func(_ *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, l *look) { l.facts.BaseRemoved = true }, false},
		"with an owner": {func(_ *metav1.ObjectMeta, b *v1alpha1.APIServiceBinding, _ *look) {
			b.OwnerReferences = []metav1.OwnerReference{{UID: "gone"}}
		}, false},
		"with its definition": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) {
			crd.DeletionTimestamp = &metav1.Time{Time: deleted}
		}, false},
		"with a definition that is gone": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) { crd.Name = "others.gitbind.dev" }, false},
		"with the definition before": {func(crd *metav1.ObjectMeta, _ *v1alpha1.APIServiceBinding, _ *look) {
			crd.CreationTimestamp = metav1.Time{Time: deleted.Add(time.Second)}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name: "apiservicebindings.gitbind.dev", Finalizers: []string{"customresourcecleanup.apiextensions.k8s.io"},
				CreationTimestamp: metav1.Time{Time: deleted.Add(-time.Hour)},
			}}
			b := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: binding, DeletionTimestamp: &metav1.Time{Time: deleted}}}
			l := &look{binding: b, file: &store.Entry{}}
			tc.change(&crd.ObjectMeta, b, l)
			r := &Reconciler{Live: fakeapi.New(fakeapi.Builder().WithObjects(crd))}
			if got, err := r.deletedByPerson(t.Context(), l); err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// A binding that goes for its file goes for it under a Connection that was made again, too: it is
// no person's delete.
func TestL2_WhatGoesForItsFileIsNotDeletedByAPersonLater(t *testing.T) {
	t.Parallel()
	for name, connection := range map[string]types.UID{"as it was": "c1", "the Connection was made again": "c0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.asks(false)
			b := w.live()
			b.DeletionTimestamp, b.Status.Request.Removed, b.Status.Request.ConnectionUID = new(metav1.Now()), true, connection
			l, err := w.lookAt(t.Context(), b)
			if err != nil || l.action != request.Release || l.facts.ByPerson {
				t.Errorf("%s, by a person: %v, %v", l.action, l.facts.ByPerson, err)
			}
		})
	}
}

// Nor while a push of the file is begun that may not come to Git.
func TestL2_WhatGoesForItsFileStillDoesWhileAnotherIsPushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks(false)
	b := w.live()
	b.Status.Request.Removed, b.Status.Request.ConnectionUID = true, "c0"
	l := &look{binding: b, repo: w.repo}
	l.facts.Terminating = true
	if err := l.readBase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.recordPushing(t.Context(), l, "1111111111111111111111111111111111111111"); err != nil {
		t.Fatal(err)
	}
	if s := w.live().Status.Request; !s.Removed || s.ConnectionUID != "c1" {
		t.Errorf("it is %+v", s)
	}
}
