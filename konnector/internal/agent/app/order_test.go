package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

func TestB1_AppliedInAnyOrderAllOfItConverges(t *testing.T) {
	t.Parallel()
	var all []*world
	var wait sync.WaitGroup
	steps := map[string]func(w *world) error{
		"Secret":            func(w *world) error { return w.client.Create(w.Context(), w.secret()) },
		"Connection":        func(w *world) error { return w.client.Create(w.Context(), w.connection) },
		"APIServiceBinding": func(w *world) error { return w.client.Create(w.Context(), w.unbound()) },
		"rights":            func(w *world) error { return w.grant(w.Context(), w.plural, w.group) },
	}
	orders := permutations("Secret", "Connection", "APIServiceBinding", "rights")
	for range orders {
		w := newWorld(t)
		w.ungrant()
		w.publish(nil)
		all = append(all, w)
	}
	all[0].start()
	for i, w := range all {
		wait.Go(func() {
			for n, step := range orders[i] {
				if err := steps[step](w); err != nil {
					t.Errorf("%v: %v", orders[i], err)
				}
				if n == i%3 {
					// What comes next finds a konnector that has looked.
					w.looked()
				}
			}
		})
	}
	wait.Wait()
	for i, w := range all {
		t.Run(strings.Join(orders[i], " and then "), func(*testing.T) {
			w.bindingIs("Bound")
			w.requestIs("", contract.Refuse)
			w.apply("orders", spec("small"))
			w.fileIs("orders", plan("small"))
		})
	}
}

func permutations(all ...string) [][]string {
	if len(all) == 0 {
		return [][]string{nil}
	}
	var out [][]string
	for i := range all {
		rest := append(append([]string{}, all[:i]...), all[i+1:]...)
		for _, p := range permutations(rest...) {
			out = append(out, append([]string{all[i]}, p...))
		}
	}
	return out
}

// looked waits until the konnector has said something of what there is.
func (w *world) looked() {
	w.eventually("the konnector looks", func() error {
		c := &v1alpha1.Connection{}
		if err := w.client.Get(w.Context(), w.objectKey(), c); err == nil && len(c.Status.Conditions) == 0 {
			return errorf("nothing is said of the Connection")
		}
		if b := w.getBinding(); b != nil && len(b.Status.Conditions) == 0 {
			return errorf("nothing is said of the binding")
		}
		return nil
	})
}

func (w *world) unbound() *v1alpha1.APIServiceBinding {
	return &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: w.binding}, Spec: v1alpha1.APIServiceBindingSpec{Connection: w.name}}
}

// What `kubectl gitbind bind -o yaml` prints is a golden file of the plugin.
func TestA5_ApplyingWhatBindPrintsInstallsTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ungrant()
	printed, err := os.ReadFile("../../cli/bind/testdata/objects.yaml")
	w.must(err)
	if !strings.Contains(string(printed), "connection: default\n") {
		t.Fatalf("there is no Connection in it:\n%s", printed)
	}
	manifest := strings.NewReplacer("anynines.com", w.group, "connection: default\n", "connection: "+w.name+"\n").Replace(string(printed))
	w.publish(nil)
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.start()
	apply := exec.Command(w.env.Kubectl, "--kubeconfig", w.env.Cluster(env.App).Kubeconfig, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(manifest)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
	w.ready()
	u := w.apply("orders", spec("small"))
	w.fileIs("orders", plan("small"))
	if by := w.log("%an")[0]; by != "alice" {
		t.Errorf("the author of %s is %s", u.GetName(), by)
	}
	w.deleteObject("orders")
	w.goes("orders")
	w.unbind()
	// With the rights that come with it, all of it goes again.
	w.takenBack()
	w.noRequest()
}

func TestA15_TwoControlPlanesOnOneCluster(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	for _, w := range []*world{a, b} {
		w.publish(nil)
		w.must(w.client.Create(t.Context(), w.secret()))
		w.must(w.client.Create(t.Context(), w.connection))
		w.bind()
	}
	a.start()
	a.ready()
	b.ready()
	a.apply("orders", spec("small"))
	b.apply("orders", spec("big"))
	a.fileIs("orders", plan("small"))
	b.fileIs("orders", plan("big"))
	a.requestIs("", contract.Refuse)
	b.requestIs("", contract.Refuse)
	if a.files() != 1 || b.files() != 1 {
		t.Error("a file went astray")
	}

	// Both offer one API: it belongs to the one that has it.
	path := contract.RequestPath(a.binding)
	data, err := contract.EncodeRequest(contract.Request{Binding: a.binding, DeletionPolicy: contract.Refuse})
	a.must(err)
	b.put(b.person, "Ask for what the other has", path, data)
	var message string
	b.eventually("the second Connection says so", func() error {
		return hasReason(b.getConnection().Status.Conditions, v1alpha1.ConditionRequests, "BoundElsewhere", &message)
	})
	if want := fmt.Sprintf("%s (Connection %s)", a.binding, a.name); !strings.Contains(message, want) {
		t.Errorf("%q is not in %q", want, message)
	}
	if got := a.getBinding(); got.Spec.Connection != a.name || a.request() == nil {
		t.Errorf("it is %+v", got.Spec)
	}
	a.setSpec("orders", "medium", "plan")
	a.fileIs("orders", plan("medium"))
	b.put(b.person, "Ask no more", path, nil)
	b.eventually("nothing is said any more", func() error {
		if hasReason(b.getConnection().Status.Conditions, v1alpha1.ConditionRequests, "BoundElsewhere", &message) == nil {
			return errorf("it says %q", message)
		}
		return nil
	})
}

func TestB10_CredentialsOfTwoConnectionsOutliveTheFirst(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	b.connection.Spec.SecretRef = a.connection.Spec.SecretRef
	a.must(a.client.Create(t.Context(), a.secret()))
	for _, w := range []*world{a, b} {
		w.publish(nil)
		w.must(w.client.Create(t.Context(), w.connection))
		w.bind()
	}
	a.start()
	a.ready()
	b.ready()
	a.unbind()
	a.takenBack()
	a.must(a.client.Delete(t.Context(), a.connection))
	b.apply("orders", spec("small"))
	b.fileIs("orders", plan("small"))
	a.must(a.client.Get(t.Context(), a.secretKey(), a.secret()))
	b.connectionIs("Connected")
}
