package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/selection"
)

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	refused = apierrors.NewForbidden(secrets.GroupResource(), "", nil)
)

// begin watches a fake API server, which refuses as long as forbidden says so.
func begin(t *testing.T, forbidden func() bool, objects ...runtime.Object) (*Watches, *metadatafake.FakeMetadataClient, <-chan string) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	client.PrependReactor("list", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) {
		return forbidden(), nil, refused
	})
	told := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	w := New(ctx, client, secrets, func(id string) { told <- id })
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	return w, client, told
}

func object(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, Labels: labels},
	}
}

func wait(t *testing.T, told <-chan string, want string) {
	t.Helper()
	select {
	case got := <-told:
		if got != want {
			t.Fatalf("told %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s was not told", want)
	}
}

func TestWhoSelectsIsToldOfChanges(t *testing.T) {
	t.Parallel()
	w, client, told := begin(t, func() bool { return false }, object("a", nil), object("b", map[string]string{"of": "x"}))
	byName := []selection.Selection{{Name: "a"}}
	if _, err := w.Find("team-a", "first", byName); !errors.Is(err, ErrNotKnown) {
		t.Fatalf("error is %v", err)
	}
	wait(t, told, "first")
	found, err := w.Find("team-a", "first", byName)
	if err != nil || len(found) != 1 || found["a"].Metadata == nil {
		t.Fatalf("found %v, %v", found, err)
	}
	if found, err = w.Find("team-a", "second", []selection.Selection{{Labels: map[string]string{"of": "x"}}}); err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	in := client.Resource(secrets).Namespace("team-a").(metadatafake.MetadataClient)
	if _, err := in.CreateFake(object("c", map[string]string{"of": "x"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(t, told, "second")
	// What it was counts, too.
	if _, err := in.UpdateFake(object("c", nil), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(t, told, "second")
	w.Forget("team-a", "first")
	if !w.Watching("team-a") {
		t.Error("the namespace is not watched for the second any more")
	}
	if w.Forget("team-a", "second"); w.Watching("team-a") {
		t.Error("the namespace is watched for nobody")
	}
}

// A right that was withdrawn is told before what is known, and its return, too.
func TestAWithdrawnRightIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, told := begin(t, func() bool { return false }, object("a", nil))
		byName := []selection.Selection{{Name: "a"}}
		_, _ = w.Find("team-a", "first", byName)
		wait(t, told, "first")
		// The informer has asked for all that it asks for by itself.
		synctest.Wait()
		n := w.namespaces["team-a"]
		w.asked(n, refused)
		wait(t, told, "first")
		var forbidden *ForbiddenError
		if _, err := w.Find("team-a", "first", byName); !errors.As(err, &forbidden) || forbidden.Retry != 0 {
			t.Errorf("error is %v", err)
		}
		w.asked(n, errors.New("the network is away"))
		w.asked(n, nil)
		wait(t, told, "first")
		if found, err := w.Find("team-a", "first", byName); err != nil || len(found) != 1 {
			t.Errorf("found %v, %v", found, err)
		}
	})
}

// That objects cannot be listed is told when it has lasted for a while, and so is when they
// can.
func TestWhatCannotBeListedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fails := atomic.Bool{}
		fails.Store(true)
		w, client, told := begin(t, func() bool { return false }, object("a", nil))
		broken := apierrors.NewInternalError(errors.New("no"))
		client.PrependReactor("list", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) { return fails.Load(), nil, broken })
		byName := []selection.Selection{{Name: "a"}}
		for range 2 {
			if _, err := w.Find("team-a", "first", byName); !errors.Is(err, ErrNotKnown) {
				t.Errorf("error is %v", err)
			}
			time.Sleep(unlistedAfter / 2)
		}
		if got := <-told; got != "first" {
			t.Errorf("told %s", got)
		}
		var unlisted *UnlistedError
		if _, err := w.Find("team-a", "first", byName); !errors.As(err, &unlisted) || !errors.Is(err, broken) {
			t.Errorf("error is %v", err)
		}
		fails.Store(false)
		<-told
		if found, err := w.Find("team-a", "first", byName); err != nil || len(found) != 1 {
			t.Errorf("found %v, %v", found, err)
		}
		if len(told) > 0 {
			t.Error("it was told again and again")
		}
	})
}

// A read that is refused is not tried for a while that grows, by anybody. Those that were
// under way together are one refusal.
func TestRefusedReadsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, told := begin(t, func() bool { return false })
		_, _ = w.Find("team-a", "first", nil)
		wait(t, told, "first")
		synctest.Wait()
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			time.Sleep(time.Until(w.namespaces["team-a"].until))
			for range 3 {
				var forbidden *ForbiddenError
				if err := w.Read("team-a", refused); !errors.As(err, &forbidden) || forbidden.Retry != want {
					t.Errorf("it may be tried after %v, want %s", err, want)
				}
			}
		}
		var forbidden *ForbiddenError
		if _, err := w.Find("team-a", "second", nil); !errors.As(err, &forbidden) || forbidden.Retry != 4*time.Second {
			t.Errorf("error is %v", err)
		}
		w.namespaces["team-a"].until = time.Time{}
		gone := apierrors.NewNotFound(secrets.GroupResource(), "a")
		if err := w.Read("team-a", gone); !errors.Is(err, gone) {
			t.Errorf("error is %v", err)
		}
		_ = w.Read("team-a", nil)
		if err := w.Read("team-a", refused); !errors.As(err, &forbidden) || forbidden.Retry != time.Second {
			t.Errorf("error is %v", err)
		}
	})
}

// Who selects one of many by labels, of which all have one, costs no more than that one.
func TestManyWhoShareALabelAreFoundApart(t *testing.T) {
	x := newIndex()
	const many = 300
	for i := range many {
		labels := map[string]string{"app": "orders", "of": fmt.Sprint(i)}
		x.put(nil, object(fmt.Sprint("s", i), labels))
		x.want(fmt.Sprint(i), []selection.Selection{{Labels: labels}})
	}
	shared := len(x.byLabel[label{"app", "orders"}])
	if shared > 1 {
		t.Errorf("%d of %d are looked at for each", shared, many)
	}
	ids := map[string]bool{}
	x.wanting(x.objects["s7"], ids)
	if found := x.find(x.wanted["7"].selections); len(ids) != 1 || !ids["7"] || len(found) != 1 {
		t.Errorf("told are %v, found %v", ids, found)
	}
	for i := range many {
		x.put(x.objects[fmt.Sprint("s", i)], nil)
		x.forget(fmt.Sprint(i))
	}
	if len(x.objects)+len(x.labelled)+len(x.wanted)+len(x.byName)+len(x.byLabel) > 0 {
		t.Errorf("%+v is left", x)
	}
}
