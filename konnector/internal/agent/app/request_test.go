package app_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// connected makes all but the binding.
func (w *world) connected() *world {
	w.Helper()
	w.must(w.client.Create(w.Context(), w.secret()))
	w.must(w.client.Create(w.Context(), w.connection))
	w.start()
	w.connectionIs("Connected")
	return w
}

func TestB8_AnAPIThatIsOfferedLaterIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t).connected()
	w.bind()
	w.bindingIs("WaitingForExport")
	w.bindingSays("Granted", "Waiting")
	w.requestIs("", contract.Refuse)

	t.Run("B14_a permission that is denied is a condition", func(*testing.T) {
		words := "ServiceAccount gitbind-x/tenant may not bind apiserviceexporttemplates/postgresql."
		w.answerRequest(contract.Denied, words)
		for _, condition := range []string{"Ready", "Granted"} {
			if got := w.bindingSays(condition, "Denied"); got != words {
				t.Errorf("%s says %q", condition, got)
			}
		}
		w.eventually("the Connection lists it", func() error {
			for _, f := range w.getConnection().Status.Refused {
				if f.Path == contract.RequestPath(w.binding) && f.Message == words {
					return nil
				}
			}
			return errorf("it lists %+v", w.getConnection().Status.Refused)
		})
	})
	w.answerRequest(contract.Applied, "")
	w.publish(nil)
	w.ready()
	w.bindingSays("Granted", "Granted")
	t.Run("a right that is lost leaves the API", func(*testing.T) {
		w.answerRequest(contract.Denied, "no more")
		w.bindingSays("Granted", "Denied")
		w.bindingIs("Bound")
	})
}

func TestARequestAndItsBindingGoTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(nil)
	w.connected()
	w.asks("{template: postgresql}")
	w.ready()
	if b := w.getBinding(); b.Spec.Connection != w.name || b.Spec.Template != "postgresql" || b.Spec.DeletionPolicy != v1alpha1.DeletionRefuse {
		t.Errorf("it is %+v", b.Spec)
	}
	t.Run("a change in the cluster is committed", func(*testing.T) {
		w.setPolicy(v1alpha1.DeletionDelete)
		w.requestIs("postgresql", contract.Delete)
	})
	t.Run("a change in Git is written to the cluster", func(*testing.T) {
		w.asks("{template: postgresql-small, deletionPolicy: Refuse}")
		w.eventually("it is there", func() error {
			if s := w.getBinding().Spec; s.Template != "postgresql-small" || s.DeletionPolicy != v1alpha1.DeletionRefuse {
				return errorf("it is %+v", s)
			}
			return nil
		})
	})
	t.Run("a file that cannot be read changes nothing", func(*testing.T) {
		w.asks("{template: 1}")
		if m := w.bindingSays("Granted", "RequestInvalid"); !strings.Contains(m, "request.yaml:5: spec.template") {
			t.Errorf("it says %q", m)
		}
		w.bindingIs("Bound")
	})
	w.asks("{template: postgresql-small}")
	w.bindingSays("Granted", "Waiting")
	w.apply("orders", spec("small"))
	w.inStep("orders")

	t.Run("a file that was removed and comes back keeps the API", func(*testing.T) {
		before := w.getBinding().UID
		w.asks("")
		w.bindingSays("Ready", "ClaimsExist")
		w.asks("{template: postgresql-small}")
		w.bindingIsAnother(before)
		w.bindingIs("Bound")
		w.setSpec("orders", "big", "plan")
		w.fileIs("orders", plan("big"))
		w.live("orders")
	})
	t.Run("a main that was replaced unbinds nothing", func(*testing.T) {
		head := w.head("main")
		without := w.git("commit-tree", "-m", "Empty", w.git("mktree", "--missing"))
		w.force("main", without)
		w.connectionIs("HistoryReplaced")
		w.offers("PostgreSQL", nil)
		if b := w.getBinding(); b == nil || b.DeletionTimestamp != nil {
			t.Errorf("it is unbound: %+v", b)
		}
		w.force("main", head)
		w.connectionIs("Connected")
	})
	w.commit("orders")
	w.goes("orders")
	w.asks("")
	w.takenBack()
	// Another one is made.
	other := *w
	other.binding = "others." + w.group
	other.asks("{}")
	w.eventually("another binding", func() error {
		if other.getBinding() == nil {
			return errorf("there is none")
		}
		return nil
	})
	if b := w.getBinding(); b != nil {
		t.Errorf("the binding came back: %+v", b)
	}
}

func (w *world) bindingIsAnother(than types.UID) {
	w.Helper()
	w.eventually("it is made again", func() error {
		if b := w.getBinding(); b == nil || b.UID == than {
			return errorf("it is %v", b)
		}
		return nil
	})
}

// The repository that a new cluster is connected to says what was bound.
func TestWhatMainAsksForIsBoundInANewCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks("{}")
	w.publish(nil)
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.connected()
	w.bindingIs("Bound")
	w.objectIs("orders", plan("small"))
}

func TestARequestForWhatIsReservedMakesNoBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(w.person, "Ask for Secrets", contract.RequestPath("roles.rbac.authorization.k8s.io"), []byte("apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: roles.rbac.authorization.k8s.io}\n"))
	w.asks("{}")
	w.connected()
	w.bindingIs("WaitingForExport")
	b := &v1alpha1.APIServiceBinding{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "roles.rbac.authorization.k8s.io"}, b); !apierrors.IsNotFound(err) {
		t.Errorf("there is one: %v", err)
	}
}
