package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

var certificates = schema.GroupVersionResource{Group: "pki.example.com", Version: "v1", Resource: "certificates"}

const (
	loadNamespace = "team-b"
	loadInterval  = 250 * time.Millisecond
)

// load is somebody who orders and changes certificates all the time. Nobody issues them:
// what is looked at is that each order, and its last change, comes to the control plane,
// and stays.
type load struct {
	*platform.Platform
	app, control dynamic.Interface
	days         []int64 // what each order says, by its number
}

func newLoad(t *testing.T, p *platform.Platform) *load {
	t.Helper()
	l := &load{Platform: p}
	for name, client := range map[string]*dynamic.Interface{env.App: &l.app, env.Control: &l.control} {
		var err error
		if *client, err = dynamic.NewForConfig(p.Cluster(name).Config()); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// during keeps the load up while something is done, and fails the test unless a while later
// the control plane has all that was ever ordered, each as it was changed last.
func (l *load) during(t *testing.T, do func(ctx context.Context) error) {
	t.Helper()
	before := len(l.days)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- l.run(t.Context(), stop) }()
	err := do(t.Context())
	close(stop)
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := env.Await(time.Minute, func() error { return l.arrived(t.Context()) }); err != nil {
		t.Fatalf("what was ordered is not on the control plane: %v", err)
	}
	t.Logf("%d orders meanwhile; all %d there %s later", len(l.days)-before, len(l.days), time.Since(began).Round(time.Millisecond))
}

// run orders, and changes the order before, until it is stopped.
func (l *load) run(ctx context.Context, stop <-chan struct{}) error {
	for {
		number := len(l.days)
		if err := l.order(ctx, number, 30); err != nil {
			return err
		}
		l.days = append(l.days, 30)
		if number > 0 {
			days := int64(31 + number%60)
			if err := l.change(ctx, number-1, days); err != nil {
				return err
			}
			l.days[number-1] = days
		}
		select {
		case <-stop:
			return nil
		case <-time.After(loadInterval):
		}
	}
}

func nameOf(number int) string { return fmt.Sprintf("order-%d", number) }

func (l *load) order(ctx context.Context, number int, days int64) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": certificates.GroupVersion().String(), "kind": "Certificate",
		"metadata": map[string]any{"name": nameOf(number), "namespace": loadNamespace},
		"spec":     map[string]any{"dnsNames": []any{nameOf(number) + ".example.com"}, "days": days},
	}}
	_, err := l.app.Resource(certificates).Namespace(loadNamespace).Create(ctx, u, metav1.CreateOptions{})
	return err
}

func (l *load) change(ctx context.Context, number int, days int64) error {
	patch := fmt.Appendf(nil, `{"spec":{"days":%d}}`, days)
	_, err := l.app.Resource(certificates).Namespace(loadNamespace).Patch(ctx, nameOf(number), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// arrived is nil when the control plane has all orders as they are now, and no others.
func (l *load) arrived(ctx context.Context) error {
	list, err := l.control.Resource(certificates).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := map[string]int64{}
	for _, u := range list.Items {
		there[u.GetName()], _, _ = unstructured.NestedInt64(u.Object, "spec", "days")
	}
	for number, want := range l.days {
		if got := there[nameOf(number)]; got != want {
			return fmt.Errorf("%s has %d days there, not %d", nameOf(number), got, want)
		}
	}
	if len(list.Items) != len(l.days) {
		return fmt.Errorf("%d orders are there, not %d", len(list.Items), len(l.days))
	}
	return nil
}

// onceEach fails the test for an order that another number of commits than one has created.
func (l *load) onceEach(t *testing.T, clone string) {
	t.Helper()
	out, err := l.Git(t.Context(), env.Alice, clone, "log", "--format=", "--name-only", "--diff-filter=A", "origin/main", "--", "bindings/certificates.pki.example.com/claims/"+loadNamespace)
	if err != nil {
		t.Fatal(err)
	}
	created := map[string]int{}
	for file := range strings.FieldsSeq(out) {
		created[strings.TrimSuffix(path.Base(file), ".yaml")]++
	}
	for number := range l.days {
		if n := created[nameOf(number)]; n != 1 {
			t.Errorf("%d commits create %s", n, nameOf(number))
		}
	}
	if len(created) != len(l.days) {
		t.Errorf("main has %d orders, not %d", len(created), len(l.days))
	}
}
